"""The corruptions by name; knows them without TensorFlow."""

import numbers

from athe_tf.utils.errors import check
from athe_tf.utils.registry import Registry

#: The standard corruptions by kind.
GROUPS = {
    "noise": ("gaussian_noise", "shot_noise", "impulse_noise"),
    "blur": ("defocus_blur", "glass_blur", "motion_blur", "zoom_blur"),
    "weather": ("snow", "frost", "fog", "brightness"),
    "digital": ("contrast", "elastic_transform", "pixelate", "jpeg_compression"),
}

#: The fifteen that published mean accuracies average, in the order of the tables.
STANDARD = tuple(name for names in GROUPS.values() for name in names)

# The extra ones, and the modules that they are in.
_EXTRA = {"speckle_noise": "noise", "gaussian_blur": "blur", "spatter": "spatter", "saturate": "digital"}

#: Held out by the authors for choosing hyperparameters.
EXTRA = tuple(_EXTRA)

SEVERITIES = (1, 2, 3, 4, 5)

# The standard ones are in modules named after their groups.
_MODULES = {name: group for group, names in GROUPS.items() for name in names} | _EXTRA

CORRUPTIONS = Registry(
    "corruption",
    __package__,
    {name: f"{module}:{name}" for name, module in sorted(_MODULES.items())},
    extensible=False,
)


def check_severity(severity) -> None:
    """Raises `InputError` unless `severity` is one of 1 to 5."""
    check(
        isinstance(severity, numbers.Integral) and severity in SEVERITIES,
        f"Invalid value for argument `severity`. Expected an integer from 1 to 5. "
        f"Received: severity={severity!r}.",
    )
