"""The common corruptions of CIFAR-10-C and ImageNet-C, made here for any set of images.

    foggy = athe_tf.data.corrupt(images, "fog", severity=3)

Fifteen corruptions in four groups and four extra ones, each in five severities, with the published constants:
those of CIFAR-10-C for images below 96 pixels, those of ImageNet-C from there on. What happens to an image
depends on (corruption, severity, index, seed) alone, so that neither the batch size nor a resume changes it.

The published files were made without a seed and cannot be made again bit by bit: accuracies on images from
here are marked as generated. `sources.py` reads the published ones.

Reference: D. Hendrycks and T. Dietterich, "Benchmarking Neural Network Robustness to Common Corruptions and
Perturbations", ICLR 2019.
"""

import numpy as np

from athe_tf.data import validate
from athe_tf.utils.errors import check
from athe_tf.utils.registry import Registry

GROUPS = {
    "noise": ("gaussian_noise", "shot_noise", "impulse_noise"),
    "blur": ("defocus_blur", "glass_blur", "motion_blur", "zoom_blur"),
    "weather": ("snow", "frost", "fog", "brightness"),
    "digital": ("contrast", "elastic_transform", "pixelate", "jpeg_compression"),
}

# The fifteen that mean accuracies are taken over, in the order of the published tables.
STANDARD = tuple(name for names in GROUPS.values() for name in names)

# Held out by the authors, to choose hyperparameters on.
EXTRA = ("speckle_noise", "gaussian_blur", "spatter", "saturate")

SEVERITIES = (1, 2, 3, 4, 5)

CORRUPTIONS = Registry(
    "corruption",
    __name__,
    {
        "brightness": "weather:brightness",
        "contrast": "digital:contrast",
        "defocus_blur": "blur:defocus_blur",
        "elastic_transform": "digital:elastic_transform",
        "fog": "weather:fog",
        "frost": "weather:frost",
        "gaussian_blur": "blur:gaussian_blur",
        "gaussian_noise": "noise:gaussian_noise",
        "glass_blur": "blur:glass_blur",
        "impulse_noise": "noise:impulse_noise",
        "jpeg_compression": "digital:jpeg_compression",
        "motion_blur": "blur:motion_blur",
        "pixelate": "digital:pixelate",
        "saturate": "digital:saturate",
        "shot_noise": "noise:shot_noise",
        "snow": "weather:snow",
        "spatter": "spatter:spatter",
        "speckle_noise": "noise:speckle_noise",
        "zoom_blur": "blur:zoom_blur",
    },
)

# Images are corrupted so many pixels at a time: enough to keep NumPy busy, and a flat memory profile.
_CHUNK_PIXELS = 2**19


def corrupt(images, name: str, severity: int, *, seed: int = 0, ids=None) -> np.ndarray:
    """Corrupts images.

    Example:

        images, labels = athe_tf.data.load("digits").test.arrays()
        noisy = athe_tf.data.corrupt(images, "gaussian_noise", severity=5)

    Args:
        images: `[N, H, W, C]` with 1 or 3 channels, uint8 or float in [0, 1].
        name: One of `STANDARD` or `EXTRA`.
        severity: 1 to 5.
        seed: An integer.
        ids: `[N]` integers that say which image is which. Defaults to 0, 1, ...

    Returns:
        Images of the same shape, uint8 for uint8 and float32 for floats. Both hold whole 255ths, as files of
        images do.
    """
    images = np.asarray(images)
    function = CORRUPTIONS.get(name)
    check_severity(severity)
    _check_images(images)
    ids = np.arange(len(images)) if ids is None else np.asarray(ids)
    check(
        ids.shape == images.shape[:1],
        f"Invalid shape of `ids`. Expected {images.shape[:1]}, one for each image. Received: {ids.shape}.",
    )
    from athe_tf.data.corruptions.draws import Draws
    from athe_tf.data.corruptions.settings import setting

    constants = setting(name, severity, images.shape[1:3])
    result = np.empty(images.shape, np.uint8 if images.dtype == np.uint8 else np.float32)
    size = max(1, _CHUNK_PIXELS // (images.shape[1] * images.shape[2]))
    for start in range(0, len(images), size):
        part = slice(start, start + size)
        corrupted = function(_to_float(images[part]), constants, Draws(seed, name, severity, ids[part]))
        result[part] = _to_levels(corrupted, result.dtype)
    return result


def check_severity(severity) -> None:
    """Raises `InputError` unless `severity` is one of 1 to 5."""
    check(
        isinstance(severity, (int, np.integer)) and severity in SEVERITIES,
        f"Invalid value for argument `severity`. Expected an integer from 1 to 5. "
        f"Received: severity={severity!r}.",
    )


def _check_images(images) -> None:
    validate.check_images(images)
    check(
        images.shape[-1] in (1, 3),
        f"Corruptions are defined for images with 1 or 3 channels. Received: shape={images.shape}.",
    )


def _to_float(images):
    return images.astype(np.float32) / np.float32(255 if images.dtype == np.uint8 else 1)


def _to_levels(images, dtype):
    levels = np.rint(np.clip(images, 0, 1) * 255)
    return levels.astype(dtype) if dtype == np.uint8 else levels.astype(dtype) / np.float32(255)
