"""The names of models, heads and activations, without TensorFlow."""

import re
from typing import Any

from athe_tf.utils.errors import check
from athe_tf.utils.registry import Registry, is_import_path, unknown_name

_RESNETS = ("resnet18", "resnet18-8", "resnet50", "resnet101", "resnet152", "resnet152_denoise")
_WIDE_BOTTLENECKS = ("wide_resnet50_2", "wide_resnet101_2")
_WIDE = ("wrn-10-1", "wrn-16-4", "wrn-28-10", "wrn-34-10", "wrn-34-20", "wrn-40-8", "wrn-70-16")
_DEEPMIND = ("dm_wrn-28-10", "dm_wrn-70-16", "dm_wrn-94-16")
_PREACT = ("preact_resnet18", "preact_resnet18-8", "preact_resnet18_fast", "preact_resnet18_nfgsm")
_PLAIN = ("small_cnn", "vgg16", "vgg16-8")
#: Names to suggest and to list; `wrn-D-K`, `dm_wrn-D-K` and `-W` allow many more.
NAMES = (*_DEEPMIND, "lenet", *_PREACT, *_RESNETS, *_PLAIN, *_WIDE_BOTTLENECKS, *_WIDE)

#: The heads: `linear`, feature norm only, weight norm only, hypersphere embedding, its angular form.
HEADS = ("linear", "fn", "wn", "he", "mhe")

#: The margins of the HE paper, by head (Section 4 and Appendix C.5); others have none.
HEAD_MARGINS = {"he": 0.2, "mhe": 0.1}

ACTIVATIONS = ("relu", "softplus", "silu", "leaky_relu")

#: The families of networks of 18 layers.
EIGHTEEN = ("preact_resnet18", "preact_resnet18_fast", "preact_resnet18_nfgsm", "resnet18")
_WITH_WIDTH = ("lenet", *EIGHTEEN, "vgg16")

#: From a family of names to the function that builds its layers.
FAMILIES = Registry(
    "model",
    __package__,
    {name: f"networks:{name}" for name in (*_WITH_WIDTH, "small_cnn")}
    | {"bottleneck": "networks:bottleneck_resnet", "dm_wrn": "networks:deepmind_wide_resnet"}
    | {"wrn": "networks:wide_resnet"},
)


def parse_name(name: str) -> tuple[str, dict[str, Any]]:
    """Splits a model's name into its family and its sizes, or raises `InputError`.

    A name of the form `module:function` or `FILE.keras` is its own family, and nothing is imported or read.

    Example:

    >>> parse_name("wrn-34-10")
    ('wrn', {'depth': 34, 'widen': 10})
    """
    if is_import_path(name) or is_file(name):
        return name, {}
    if deep := re.fullmatch(r"resnet(50|101|152)(_denoise)?", name):
        return "bottleneck", {"depth": int(deep[1])} | ({"denoise": True} if deep[2] else {})
    if name in _WIDE_BOTTLENECKS:
        depth, widen = map(int, name.removeprefix("wide_resnet").split("_"))
        return "bottleneck", {"depth": depth, "widen": widen}
    if name in (*_WITH_WIDTH, "small_cnn"):
        return name, {}
    if wide := re.fullmatch(r"((?:dm_)?wrn)-(\d+)-(\d+)", name):
        depth, widen = int(wide[2]), int(wide[3])
        _check_wide_resnet(wide[1], name, depth, widen)
        return wide[1], {"depth": depth, "widen": widen}
    sized = re.fullmatch(r"(.+)-(\d+)", name)
    if sized and sized[1] in _WITH_WIDTH:
        width = int(sized[2])
        check(width >= 1, f"The width in a model's name must be at least 1. Received: '{name}'.")
        return sized[1], {"width": width}
    raise unknown_name("model", name, NAMES)


def is_file(name: str) -> bool:
    """Whether a model is named by its `.keras` file."""
    return name.endswith(".keras")


def check_name(name: str) -> None:
    """Raises `InputError` unless `name` is a model, a file, or has the form `module:function`."""
    parse_name(name)


def check_head(head: str) -> None:
    """Raises `InputError`, with the most similar head, unless `head` is one of `HEADS`."""
    if head not in HEADS:
        raise unknown_name("head", head, HEADS)


def _check_wide_resnet(family: str, name: str, depth: int, widen: int) -> None:
    below = max(10, depth - (depth - 4) % 6)
    depths = (below,) if depth < 10 else (below, below + 6)
    nearest = " or ".join(f"'{family}-{each}-{widen}'" for each in depths)
    check(
        depth == below,
        f"The depth of a wide ResNet is 6n + 4 with n >= 1. Received: '{name}'. Use {nearest}.",
    )
    check(
        widen >= 1,
        f"The widen factor of a wide ResNet is at least 1. Received: '{name}'. Use '{family}-{depth}-1'.",
    )
