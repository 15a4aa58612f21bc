"""`from_torch`: a published PyTorch checkpoint as a Keras classifier."""

import dataclasses
import os
import re
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from athe_tf.conversion import torch_weights
from athe_tf.conversion.torch_checkpoint import find_state_dict, read_checkpoint
from athe_tf.conversion.torch_twin import load_in_order
from athe_tf.models.adapters import with_input_range
from athe_tf.models.builder import Statistics, build, call_builder
from athe_tf.models.card import head_name
from athe_tf.models.features import find_head
from athe_tf.models.names import parse_name
from athe_tf.models.networks import DEPTHS
from athe_tf.utils.errors import InputError, check
from athe_tf.utils.registry import import_object

# The size of the images for which families of networks were published; 32 for others.
_IMAGE_SIZES = {"bottleneck": 224, "lenet": 28}
_ACTIVATIONS = {"dm_wrn": "silu"}
# What our networks call their first convolution.
_STEMS = ("conv1", "init_conv", "group1_conv1")


@dataclasses.dataclass(frozen=True)
class ImportedModel:
    """A model that was read from a checkpoint, and what was recognized.

    Attributes:
        net: The classifier.
        layout: Whose code the names of the tensors are from.
        entry: The entry of a training checkpoint that the weights are from; "" for the whole file.
        head: The head.
        normalization: Mean and standard deviation, from the checkpoint or from the caller; or `None`.
    """

    net: keras.Model
    layout: torch_weights.TorchLayout
    entry: str
    head: str
    normalization: tuple[Statistics, Statistics] | None


def from_torch(checkpoint: Any, arch: str, **options) -> keras.Model:
    """Builds the model `arch` with the weights of a PyTorch checkpoint.

    Prefixes of wrappers, blocks that no forward pass uses and an embedded normalization are recognized; a
    tensor without a place, or a layer without its tensors, is an error. Files are read without executing
    anything; PyTorch is needed for all but `.safetensors` files.

    Example:

    >>> shapes = {"conv1": (2, 1, 5, 5), "conv2": (4, 2, 5, 5), "fc1": (64, 196), "fc2": (10, 64)}
    >>> state = {f"{name}.weight": np.ones(shape) for name, shape in shapes.items()}
    >>> state |= {f"{name}.bias": np.ones(shape[0]) for name, shape in shapes.items()}
    >>> net = athe_tf.models.from_torch(state, "lenet-1")
    >>> net.input_shape, net.output_shape
    ((None, 28, 28, 1), (None, 10))

    Args:
        checkpoint: The path of a file of `torch.save` or of a `.safetensors` file; or its content, from names
            to tensors or arrays.
        arch: The name of a model of `build`, such as "wrn-34-10"; or `module:build`, a function that returns
            a Keras model with the same layers in the same order, whose weights are matched by shape.
        **options: Those of `import_checkpoint`: `entry`, `head`, `scale`, `mean`, `std`, `activation`,
            `image_size`.
    """
    return import_checkpoint(checkpoint, arch, **options).net


def import_checkpoint(
    checkpoint: Any,
    arch: str,
    *,
    entry: str | None = None,
    head: str | None = None,
    scale: float = 1.0,
    mean: Statistics | None = None,
    std: Statistics | None = None,
    activation: str | None = None,
    image_size: int | None = None,
) -> ImportedModel:
    """Does what `from_torch` does, and tells what was recognized.

    Args:
        checkpoint: See `from_torch`.
        arch: See `from_torch`.
        entry: The entry of a checkpoint with several sets of weights. Defaults to `None`: there is only one.
        head: The head. Defaults to `None`: "linear" if the last layer has a bias, else "he".
        scale: The s of a hypersphere head. Defaults to 1: the cosines that the released networks compute.
            Training with hypersphere embedding used 15; attacks need it.
        mean: Mean of the pixels, for a network whose code normalizes outside of the state dict. Defaults to
            `None`: as the checkpoint says.
        std: Standard deviation of the pixels; see `mean`.
        activation: Defaults to `None`: "silu" for DeepMind's networks, "relu" for others.
        image_size: Height and width of the images. Defaults to `None`: 224 for ImageNet's ResNets, 28 for
            LeNet, 32 for others.
    """
    family, _ = parse_name(arch)
    content = read_checkpoint(checkpoint) if isinstance(checkpoint, (str, os.PathLike)) else checkpoint
    state, found = find_state_dict(content, entry)
    if ":" in family:
        return _twin(family, state, found, mean, std, image_size)
    tensors = torch_weights.used_tensors(state)
    normalization = _normalization(tensors, mean, std)
    size = image_size or _IMAGE_SIZES.get(family, 32)
    weight, has_bias = _last_layer(tensors, arch)
    head = head or ("linear" if has_bias else "he")
    mean, std = normalization or (None, None)
    shape, activation = (size, size, _channels(tensors)), activation or _ACTIVATIONS.get(family, "relu")
    rest: dict[str, Any] = {"scale": scale, "mean": mean, "std": std, "activation": activation}
    net = build(arch, len(weight), head=head, input_shape=shape, **rest)
    try:
        layout = torch_weights.load_torch_weights(net, state)
    except InputError as error:
        raise _with_suggestion(error, arch, tensors) from error
    return ImportedModel(net, layout, found, head, normalization)


def _twin(arch: str, state, entry: str, mean, std, image_size: int | None) -> ImportedModel:
    """The Keras model of a function, with the weights of a state dict in order and by shape."""
    tensors = torch_weights.used_tensors(state)
    kernels = [array for array in tensors.values() if array.ndim in (2, 4)]
    check(
        bool(kernels),
        f"The checkpoint has no kernels, only {list(tensors)[:5]}. Give the weights of a network.",
    )
    channels = next((array.shape[1] for array in kernels if array.ndim == 4), 3)
    size = image_size or 32
    matrices = [array for array in kernels if array.ndim == 2]
    net = call_builder(import_object(arch, "model"), len((matrices or kernels)[-1]), (size, size, channels))
    pairs = load_in_order(net, tensors)
    head = head_name(find_head(net).layer)
    if mean is not None and std is not None:
        net = with_input_range(net, mean=np.ravel(mean).tolist(), std=np.ravel(std).tolist())
    told = ", ".join(f"{layer} from {module or 'the checkpoint'}" for layer, module in pairs)
    layout = torch_weights.TorchLayout(f"in order and by shape: {told}", ())
    normalization = None if mean is None or std is None else (mean, std)
    return ImportedModel(net, layout, entry, head, normalization)


def _with_suggestion(error: InputError, arch: str, tensors: Mapping[str, np.ndarray]) -> InputError:
    """The error, with the architecture that the checkpoint seems to have."""
    names = guess_architecture(tensors)
    if not names or arch in names:
        return error
    either = " or ".join(f"'{name}'" for name in names)
    return InputError(f"The checkpoint does not fit '{arch}'. {error} Its tensors fit {either}.")


def guess_architecture(tensors: Mapping[str, np.ndarray]) -> tuple[str, ...]:
    """The names of models that tensors fit, two if only what they compute differs; empty if none is similar.

    Example:

    >>> guess_architecture({"block1.layer.0.conv1.weight": np.ones((32, 16, 3, 3))})
    ('wrn-10-2',)
    """

    def matching(pattern: str) -> list[str]:
        return [name for name in tensors if re.fullmatch(rf"{pattern}\.weight", name)]

    def width(layer: str, unit: int) -> int:
        return tensors[f"{layer}.weight"].shape[0] // unit

    for family, block in (("wrn", r"block1\.layer\.%s\.conv1"), ("dm_wrn", r"layer\.0\.block\.%s\.conv_0")):
        if first := matching(block % "0"):
            depth = 6 * len(matching(block % r"\d+")) + 4
            return (f"{family}-{depth}-{width(first[0].removesuffix('.weight'), 16)}",)
    counts = tuple(len(matching(rf"layer{group}\.\d+\.conv1")) for group in (1, 2, 3, 4))
    if matching(r"layer1\.0\.conv3"):
        form = "wide_resnet{}_2" if width("layer1.0.conv1", 1) > 64 else "resnet{}"
        return tuple(form.format(depth) for depth, blocks in DEPTHS.items() if blocks == counts)
    if counts == (2, 2, 2, 2) and matching("conv1"):
        last = ("preact_resnet18", "preact_resnet18_nfgsm") if matching("bn") else ("preact_resnet18_fast",)
        suffix = "" if width("conv1", 4) == 16 else f"-{width('conv1', 4)}"
        return tuple(f"{name}{suffix}" for name in (("resnet18",) if matching("bn1") else last))
    if matching(r"feature_extractor\.0"):
        return (f"vgg16-{width('feature_extractor.0', 4)}",)
    return (f"lenet-{width('conv1', 2)}",) if len(matching("(conv|fc)[12]")) == 4 else ()


def _last_layer(tensors: Mapping[str, np.ndarray], arch: str) -> tuple[np.ndarray, bool]:
    """The weight of the last layer, and whether it has a bias."""
    for layout in torch_weights.LAYOUTS:
        module = layout.module_of("head")
        weight = tensors.get(f"{module}.weight")
        if weight is not None and weight.ndim == 2:
            return weight, f"{module}.bias" in tensors
    shown = ", ".join(list(tensors)[:5])
    problem = f"The checkpoint has no last layer of a known name. Its first tensors are {shown}."
    ways = (
        " Only published networks are known by name. For another one, write its twin in Keras and give it as "
        "--arch=module:build, or give the PyTorch module: --torch_module=module:build."
    )
    raise _with_suggestion(InputError(problem + ways), arch, tensors)


def _channels(tensors: Mapping[str, np.ndarray]) -> int:
    """The channels of the images: the inputs of the first convolution, wherever it is in the checkpoint."""
    modules = (layout.module_of(layer) for layout in torch_weights.LAYOUTS for layer in _STEMS)
    return next((tensors[f"{name}.weight"].shape[1] for name in modules if f"{name}.weight" in tensors), 3)


def _normalization(tensors: Mapping[str, np.ndarray], mean: Statistics | None, std: Statistics | None):
    """Mean and standard deviation: the caller's, else the checkpoint's."""
    if mean is not None or std is not None:
        return mean, std
    names = next((names for names in torch_weights.NORMALIZATIONS if set(names) <= set(tensors)), ())
    return tuple(np.ravel(tensors[name]).astype(float).tolist() for name in names) or None
