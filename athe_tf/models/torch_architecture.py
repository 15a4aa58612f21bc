"""Which architecture the tensors of a PyTorch state dict have: a suggestion for messages."""

import re
from collections.abc import Mapping

import numpy as np

# Blocks of the four groups of a bottleneck ResNet, by its depth.
_BOTTLENECKS: dict[tuple[int, ...], int] = {(3, 4, 6, 3): 50, (3, 4, 23, 3): 101, (3, 8, 36, 3): 152}


def guess_architecture(state: Mapping[str, np.ndarray]) -> tuple[str, ...]:
    """The names of the models of `build` that a state dict fits, as far as its tensors tell.

    More than one if networks differ only in what they compute: the tensors of `preact_resnet18` and
    `preact_resnet18_nfgsm` have the same names and shapes. Empty if nothing is similar.

    Example:

    >>> guess_architecture({"block1.layer.0.conv1.weight": np.ones((32, 16, 3, 3))})
    ('wrn-10-2',)
    """
    for guess in (_wide_resnet, _deepmind, _resnet, _vgg, _lenet):
        if names := guess(state):
            return names
    return ()


def _wide_resnet(state) -> tuple[str, ...]:
    return _wide(state, r"block1\.layer\.(\d+)\.conv1\.weight", "wrn")


def _deepmind(state) -> tuple[str, ...]:
    return _wide(state, r"layer\.0\.block\.(\d+)\.conv_0\.weight", "dm_wrn")


def _wide(state, pattern: str, family: str) -> tuple[str, ...]:
    blocks = {int(match[1]): match[0] for name in state if (match := re.fullmatch(pattern, name))}
    if 0 not in blocks:
        return ()
    return (f"{family}-{6 * len(blocks) + 4}-{_width(state, blocks[0], 16)}",)


def _resnet(state) -> tuple[str, ...]:
    groups = [match[1] for name in state if (match := re.fullmatch(r"layer(\d)\.\d+\.conv1\.weight", name))]
    if not groups or "conv1.weight" not in state:
        return ()
    counts = tuple(groups.count(group) for group in sorted(set(groups)))
    if "layer1.0.conv3.weight" in state:
        depth = _BOTTLENECKS.get(counts)
        wide = state["layer1.0.conv1.weight"].shape[0] > 64
        return () if depth is None else (f"wide_resnet{depth}_2" if wide else f"resnet{depth}",)
    if counts != (2, 2, 2, 2):
        return ()
    width = _width(state, "conv1.weight", 4)
    suffix = "" if width == 16 else f"-{width}"
    if "bn1.weight" in state:
        return (f"resnet18{suffix}",)
    if "bn.weight" in state:
        return f"preact_resnet18{suffix}", f"preact_resnet18_nfgsm{suffix}"
    return (f"preact_resnet18_fast{suffix}",)


def _vgg(state) -> tuple[str, ...]:
    first = "feature_extractor.0.weight"
    return (f"vgg16-{_width(state, first, 4)}",) if first in state else ()


def _lenet(state) -> tuple[str, ...]:
    if not {"conv1.weight", "conv2.weight", "fc1.weight", "fc2.weight"} <= set(state):
        return ()
    return (f"lenet-{_width(state, 'conv1.weight', 2)}",)


def _width(state, name: str, unit: int) -> int:
    return state[name].shape[0] // unit
