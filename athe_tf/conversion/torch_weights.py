"""The weights of PyTorch networks in models of `build` and back, without importing PyTorch.

    state = {name: tensor.numpy() for name, tensor in torch_model.state_dict().items()}
    net = athe_tf.models.build("wrn-34-10", 10, head="he")
    athe_tf.models.load_torch_weights(net, state)
    athe_tf.models.to_torch(net)                            # the same state dict

A published network has the layers of ours under other names. `LAYOUTS` lists the rules that turn the name of
a Keras layer into the name of its PyTorch module, one entry per family of published code. Kernels are
transposed; a bias in front of a batch normalization, which ours do not have, moves into its
running mean.
"""

import dataclasses
import re
from collections.abc import Mapping

import keras
import numpy as np

from athe_tf.layers.batch_norm import BatchNorm
from athe_tf.layers.cosine_dense import CosineDense
from athe_tf.models.builder import NORMALIZATION
from athe_tf.models.networks import GROUPS
from athe_tf.utils.errors import InputError, check
from athe_tf.utils.keras_compat import producer


@dataclasses.dataclass(frozen=True)
class TorchLayout:
    """The names of one family of PyTorch networks.

    Attributes:
        name: Whose code it is.
        rules: Patterns of names of Keras layers, each with the name of its module. The first match counts.
        stem: The kernel size of the first convolution; 0 if the names of the layers tell enough.
        biases: Whether its convolutions have a bias in front of a batch normalization.
        outside: The normalization that the published code has outside of its state dicts, if any.
    """

    name: str
    rules: tuple[tuple[str, str], ...]
    stem: int = 0
    biases: bool = False
    outside: str = ""

    def module_of(self, layer: str) -> str | None:
        """The PyTorch module of a Keras layer, `None` if this family has no such layer.

        Example:

        >>> LAYOUTS[0].module_of("group2_block1_conv2")
        'block2.layer.0.conv2'
        """
        for pattern, module in self.rules:
            if match := re.fullmatch(pattern, layer):
                return _BLOCK_NUMBER.sub(lambda found: str(int(found[1]) - 1), match.expand(module))
        return None


# `{n}` in a rule: ours count blocks from one, PyTorch from zero.
_BLOCK_NUMBER = re.compile(r"\{(\d+)\}")


_STEM = (r"(conv1|bn1)", r"\1")


def _blocks(block: str, groups: str = r"\d+") -> tuple[str, str]:
    """The rule for layers inside blocks; `block` is their prefix, with group and block as references."""
    return rf"group({groups})_block(\d+)_((?:conv|bn)\d)", rf"{block}.\3"


def _shortcuts(block: str, module: str) -> tuple[tuple[str, str], ...]:
    shortcut = r"group(\d+)_block(\d+)_shortcut"
    return (shortcut, f"{block}.{module}.0"), (f"{shortcut}_bn", f"{block}.{module}.1")


def _vgg_rules(prefix: str) -> tuple[tuple[str, str], ...]:
    """One sequence of convolution, normalization, activation, and a pooling at the end of each group."""
    rules, position = [], 0
    for group, convolutions in enumerate(GROUPS, start=1):
        for index in range(1, len(convolutions) + 1):
            rules += [
                (f"group{group}_conv{index}", f"{prefix}.{position}"),
                (f"group{group}_conv{index}_bn", f"{prefix}.{position + 1}"),
            ]
            position += 3
        position += 1
    return tuple(rules)


_WRN, _RESNET, _DEEPMIND = r"block\1.layer.{\2}", r"layer\1.{\2}", r"layer.{\1}.block.{\2}"
_WRN_SHORTCUT = (r"group([1-3])_block(\d+)_shortcut", rf"{_WRN}.convShortcut")
_OF_RESNETS = (_STEM, _blocks(_RESNET), *_shortcuts(_RESNET, "shortcut"))

#: The families of published code, in the order in which they are tried.
LAYOUTS = (
    TorchLayout(
        "wide ResNet of TRADES, AT_HE and RobustBench",
        (("conv1", "conv1"), ("bn", "bn1"), _blocks(_WRN, "[1-3]"), _WRN_SHORTCUT, ("head", "fc")),
    ),
    TorchLayout(
        "wide ResNet of DeepMind (Gowal et al.)",
        (
            ("init_conv", "init_conv"),
            ("bn", "batchnorm"),
            (r"group(\d+)_block(\d+)_conv(\d)", rf"{_DEEPMIND}.conv_{{\3}}"),
            (r"group(\d+)_block(\d+)_bn(\d)", rf"{_DEEPMIND}.batchnorm_{{\3}}"),
            (r"group(\d+)_block(\d+)_shortcut", rf"{_DEEPMIND}.shortcut"),
            ("head", "logits"),
        ),
        outside="CIFAR-10: mean=0.4914,0.4822,0.4465 and std=0.2471,0.2435,0.2616",
    ),
    TorchLayout(
        "ResNet and pre-activation ResNet of FastAT, Rice et al. and RobustBench",
        (*_OF_RESNETS, ("bn", "bn"), ("head", "linear")),
        stem=3,
    ),
    TorchLayout("ResNet of Liu et al. (PAS)", (*_OF_RESNETS, ("head", "classifier")), stem=3),
    TorchLayout(
        "ResNet of torchvision",
        (_STEM, _blocks(_RESNET), *_shortcuts(_RESNET, "downsample"), ("head", "fc")),
        stem=7,
        outside="ImageNet: mean=0.485,0.456,0.406 and std=0.229,0.224,0.225",
    ),
    TorchLayout(
        "VGG of Liu et al. (PAS)", (*_vgg_rules("feature_extractor"), ("head", "classifier")), biases=True
    ),
    TorchLayout("LeNet of Liu et al. (PAS)", ((r"conv(\d)", r"conv\1"), ("fc", "fc1"), ("head", "fc2"))),
)

# Wrappers of PyTorch put these in front of every name: DataParallel, models that normalize their input,
# and the compiler and averages of weights.
_WRAPPERS = ("module.", "model.", "net.", "1.", "_orig_mod.", "ema.", "ema_model.")
#: Buffers that describe the normalization of the input, in the order mean, standard deviation; the published
#: classes of `LAYOUTS` that have them use the first names.
NORMALIZATIONS = (("mu", "sigma"), ("mean", "std"), ("0.mean", "0.std"), ("normalize.mean", "normalize.std"))
# Counters of batch normalization, and the block of TRADES' and AT_HE's code that no forward pass uses.
_UNUSED = re.compile(r"(^|\.)num_batches_tracked$|^sub_block1\.")
# Layers that keep every feature in its place.
_IN_PLACE = (
    keras.layers.Activation,
    keras.layers.BatchNormalization,
    keras.layers.Dropout,
    keras.layers.LeakyReLU,
    keras.layers.ReLU,
)
# The tensors of a batch normalization, in the order of our weights.
_STATISTICS = ("weight", "bias", "running_mean", "running_var")


def load_torch_weights(model: keras.Model, state: Mapping[str, np.ndarray]) -> TorchLayout:
    """Copies the weights of a PyTorch state dict into a model of `athe_tf.models.build`.

    The layout is recognized by its names. Every tensor of the state dict must find its place and every layer
    its tensors; nothing is changed otherwise. If the state dict says how inputs are normalized, the model
    must normalize in the same way.

    Example:

    >>> net = athe_tf.models.build("lenet-1", 10, input_shape=(28, 28, 1))
    >>> shapes = {"conv1": (2, 1, 5, 5), "conv2": (4, 2, 5, 5), "fc1": (64, 196), "fc2": (10, 64)}
    >>> state = {f"{name}.weight": np.ones(shape) for name, shape in shapes.items()}
    >>> state |= {f"{name}.bias": np.ones(shape[0]) for name, shape in shapes.items()}
    >>> load_torch_weights(net, state).name
    'LeNet of Liu et al. (PAS)'

    Args:
        model: A model of `build`, of the same architecture.
        state: From a name to an array, as in `state_dict()`.

    Returns:
        The layout that was recognized.
    """
    tensors = used_tensors(state)
    layers = layers_with_weights(model)
    layout = _recognized(layers, tensors)
    # Both take out the tensors that they use.
    new = {layer: _take_weights(layer, layout, tensors) for layer in layers}
    _take_normalization(model, tensors)
    check(
        not tensors,
        f"The {layout.name} has tensors without a place in '{model.name}': {_some(tensors)}. Build the model "
        "with the architecture and the head of the checkpoint.",
    )
    for layer, arrays in new.items():
        layer.set_weights(arrays)
    return layout


def to_torch(model: keras.Model, layout: str | None = None) -> dict[str, np.ndarray]:
    """The state dict of the PyTorch network that a model of `athe_tf.models.build` equals.

    What `load_torch_weights` reads, this writes: every tensor that the model uses is equal bit for bit. The
    scale of a hypersphere head is no tensor; classes such as AT_HE's compute plain cosines. Where a published
    network has a bias in front of a batch normalization, ours has it in the running mean, and the bias is 0.

    Example:

    >>> net = athe_tf.models.build("wrn-10-1", 10)
    >>> athe_tf.models.to_torch(net)["block1.layer.0.conv1.weight"].shape
    (16, 16, 3, 3)

    Args:
        model: A model of `build`.
        layout: The name of the layout or a part of it, such as "torchvision". Defaults to `None`: the first
            that has all layers of the model.

    Returns:
        From a name to an array in PyTorch's order of axes: `torch.from_numpy` makes tensors of them.
    """
    chosen = layout_of(model, layout)
    state: dict[str, np.ndarray] = {}
    if not chosen.outside:
        for name, value in zip(NORMALIZATIONS[0], _normalization_of(model), strict=False):
            state[name] = value.astype("float32").reshape(1, -1, 1, 1)
    for layer in layers_with_weights(model):
        module, arrays = str(chosen.module_of(layer.name)), layer.get_weights()
        if not isinstance(layer, BatchNorm):
            arrays[0] = np.ascontiguousarray(_weight(layer, arrays[0]))
        state |= zip(_tensor_names(layer, module), arrays, strict=True)
        if isinstance(layer, BatchNorm):
            state[f"{module}.num_batches_tracked"] = np.zeros((), "int64")
            if chosen.biases and (bias := _bias_before(layer, chosen)):
                state[bias] = np.zeros(len(arrays[0]), "float32")
    return state


def layout_of(model: keras.Model, layout: str | None = None) -> TorchLayout:
    """The layout of the published network that a model equals; see `to_torch`."""
    layers = layers_with_weights(model)
    stem = next((layer for layer in layers if isinstance(layer, keras.layers.Conv2D)), None)
    for candidate in LAYOUTS:
        fits = layers and all(candidate.module_of(layer.name) for layer in layers)
        same_stem = stem is not None and candidate.stem in (0, stem.kernel_size[0])
        named = layout is None or layout.casefold() in candidate.name.casefold()
        if fits and same_stem and named:
            return candidate
    raise InputError(
        f"The model '{model.name}' has the layers of no known PyTorch network"
        + (f" with '{layout}' in its name. " if layout else ". ")
        + f"Known: {'; '.join(known.name for known in LAYOUTS)}. Export it in another format."
    )


def used_tensors(state: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of a state dict without a wrapper's prefix, counters and blocks that no pass uses."""
    tensors = {name: np.asarray(value) for name, value in _without_wrapper(state).items()}
    return {name: value for name, value in tensors.items() if not _UNUSED.search(name)}


def layers_with_weights(model: keras.Model) -> list[keras.layers.Layer]:
    """The layers of a model whose weights are in a state dict."""
    return [layer for layer in model.layers if layer.weights and layer.name != NORMALIZATION]


def _without_wrapper(state: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The state dict without a prefix that all weights have."""
    names = list(state)
    for prefix in _WRAPPERS:
        if any(name.startswith(prefix) for name in names):
            bare = {name.removeprefix(prefix): value for name, value in state.items()}
            return _without_wrapper(bare) if len(bare) == len(state) else dict(state)
    return dict(state)


def _recognized(layers, tensors: Mapping[str, np.ndarray]) -> TorchLayout:
    """The layout in which most layers find their weights."""

    def missing(layout: TorchLayout) -> list[str]:
        modules = {layer.name: layout.module_of(layer.name) for layer in layers}
        return [name for name, module in modules.items() if f"{module}.weight" not in tensors]

    layout = min(LAYOUTS, key=lambda layout: len(missing(layout)))
    check(
        not missing(layout),
        f"The state dict has no weights for the layers {_some(missing(layout))} of the model. It was read as "
        f"{layout.name} and has {_some(tensors)}. Build the model with the architecture of the checkpoint.",
    )
    return layout


def _tensor_names(layer, module: str) -> list[str]:
    """The tensors of a module, in the order of the weights of its Keras layer."""
    parts = _STATISTICS if isinstance(layer, BatchNorm) else _STATISTICS[: len(layer.weights)]
    return [f"{module}.{part}" for part in parts]


def _kernel(layer, weight: np.ndarray) -> np.ndarray:
    """The kernel of a Keras layer from the weight of its module."""
    if weight.ndim == 4:
        return weight.transpose(2, 3, 1, 0)
    if maps := flattened_maps(layer):
        height, width, channels = maps
        maps_first = weight.reshape(len(weight), channels, height, width).transpose(0, 2, 3, 1)
        weight = maps_first.reshape(len(weight), -1)
    return weight.T


def _weight(layer, kernel: np.ndarray) -> np.ndarray:
    """The other way round."""
    if kernel.ndim == 4:
        return kernel.transpose(3, 2, 0, 1)
    weight = kernel.T
    if maps := flattened_maps(layer):
        weight = weight.reshape(len(weight), *maps).transpose(0, 3, 1, 2).reshape(len(weight), -1)
    return weight


def flattened_maps(layer) -> tuple[int, ...] | None:
    """The shape of what is flattened before a layer: PyTorch flattens channels first, Keras channels last.

    Layers in between that keep every feature in its place are passed over.
    """
    before, maps = producer(layer.input)
    while isinstance(before, _IN_PLACE):
        before, maps = producer(maps)
    flat = isinstance(before, keras.layers.Flatten) and len(maps.shape) == 4
    return maps.shape[1:] if flat and not isinstance(producer(maps)[0], keras.layers.Permute) else None


def _bias_before(layer, layout: TorchLayout) -> str:
    """The name of the bias of the convolution whose output a batch normalization sees; empty without one."""
    before, _ = producer(layer.input)
    return f"{layout.module_of(before.name)}.bias" if isinstance(before, keras.layers.Conv2D) else ""


def _take_weights(layer, layout: TorchLayout, tensors: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Takes the weights of a layer out of a state dict, in the order and the shapes of Keras."""
    module = str(layout.module_of(layer.name))
    names = _tensor_names(layer, module)
    for name in names:
        check(
            name in tensors,
            f"The state dict has no '{name}'. Build the model with the architecture and head of the "
            "checkpoint.",
        )
    arrays = [tensors.pop(name) for name in names]
    if isinstance(layer, BatchNorm):
        arrays[2] = arrays[2] - tensors.pop(_bias_before(layer, layout), 0.0)
    else:
        arrays[0] = _kernel(layer, arrays[0])
    if isinstance(layer, CosineDense) and layer.kernel.constraint is not None:
        arrays[0] = np.asarray(layer.kernel.constraint(arrays[0]))
    for array, weight in zip(arrays, layer.weights, strict=True):
        check(
            array.shape == tuple(weight.shape),
            f"The module '{module}' has another shape than '{weight.path}', in the order of Keras. Expected: "
            f"{tuple(weight.shape)}. Received: {array.shape}. Build the model with the checkpoint's sizes.",
        )
    return arrays


def _take_normalization(model: keras.Model, tensors: dict[str, np.ndarray]) -> None:
    """Takes out the input normalization of a checkpoint, if it has one; refuses another than the model's."""
    for names in NORMALIZATIONS:
        if not set(names) <= set(tensors):
            continue
        expected = [np.ravel(tensors.pop(name)) for name in names]
        received = _normalization_of(model) or [np.zeros(len(expected[0])), np.ones(len(expected[0]))]
        check(
            np.allclose(expected, received, atol=1e-6),
            "The checkpoint normalizes its input in another way than the model. Expected "
            f"mean={expected[0].tolist()}, std={expected[1].tolist()}. Received: a model with "
            f"mean={received[0].tolist()}, std={received[1].tolist()}. Build it with these `mean` and `std`.",
        )


def _normalization_of(model: keras.Model) -> list[np.ndarray]:
    """Mean and standard deviation of the pixels; empty if a model does not normalize its input."""
    layers = [layer for layer in model.layers if isinstance(layer, keras.layers.Normalization)]
    return [np.ravel(layers[0].mean), np.sqrt(np.ravel(layers[0].variance))] if layers else []


def _some(names) -> str:
    """A few names, for a message."""
    names = sorted(names)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
