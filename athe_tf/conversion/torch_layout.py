"""The weights of PyTorch networks in models of `build`, without importing PyTorch.

    state = {name: tensor.numpy() for name, tensor in torch_model.state_dict().items()}
    net = athe_tf.models.build("wrn-34-10", 10, head="he")
    athe_tf.models.load_torch_weights(net, state)

A published network has the layers of ours under other names. `LAYOUTS` lists the rules that turn the name of
a Keras layer into the name of its PyTorch module, one entry per family of published code. Kernels are
transposed; a bias in front of a batch normalization, which ours do not have, moves into its running mean.
"""

import dataclasses
import re
from collections.abc import Mapping

import keras
import numpy as np

from athe_tf.layers.batch_norm import BatchNorm
from athe_tf.layers.cosine_dense import CosineDense
from athe_tf.models.builder import NORMALIZATION
from athe_tf.models.vgg import GROUPS
from athe_tf.utils.errors import InputError, check
from athe_tf.utils.keras_compat import producer

# Wrappers of PyTorch put these in front of every name: DataParallel, models that normalize their input,
# and the compiler and averages of weights.
_WRAPPERS = ("module.", "model.", "net.", "1.", "_orig_mod.", "ema.", "ema_model.")
#: Buffers that describe the normalization of the input, in the order mean, standard deviation.
NORMALIZATIONS = (("mu", "sigma"), ("mean", "std"), ("0.mean", "0.std"), ("normalize.mean", "normalize.std"))
# Counters of batch normalization, and the block of TRADES' and AT_HE's code that no forward pass uses.
_UNUSED = re.compile(r"(^|\.)num_batches_tracked$|^sub_block1\.")


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
                return _BLOCK_NUMBER.sub(_zero_based, match.expand(module))
        return None


# `{n}` in a rule: ours count blocks from one, PyTorch from zero.
_BLOCK_NUMBER = re.compile(r"\{(\d+)\}")


def _zero_based(match: re.Match) -> str:
    return str(int(match[1]) - 1)


_STEM = (r"(conv1|bn1)", r"\1")


def _blocks(block: str, groups: str = r"\d+") -> tuple[tuple[str, str], ...]:
    """The rule for layers inside blocks; `block` is their prefix, with group and block as references."""
    return ((rf"group({groups})_block(\d+)_((?:conv|bn)\d)", rf"{block}.\3"),)


def _shortcuts(block: str, convolution: str, norm: str) -> tuple[tuple[str, str], ...]:
    return (
        (r"group(\d+)_block(\d+)_shortcut", f"{block}.{convolution}"),
        (r"group(\d+)_block(\d+)_shortcut_bn", f"{block}.{norm}"),
    )


def _head(module: str) -> tuple[tuple[str, str], ...]:
    return (("head", module),)


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

#: The families of published code, in the order in which they are tried.
LAYOUTS = (
    TorchLayout(
        "wide ResNet of TRADES, AT_HE and RobustBench",
        (
            ("conv1", "conv1"),
            ("bn", "bn1"),
            *_blocks(_WRN, groups="[1-3]"),
            (r"group([1-3])_block(\d+)_shortcut", rf"{_WRN}.convShortcut"),
            *_head("fc"),
        ),
    ),
    TorchLayout(
        "wide ResNet of DeepMind (Gowal et al.)",
        (
            ("init_conv", "init_conv"),
            ("bn", "batchnorm"),
            (r"group(\d+)_block(\d+)_conv(\d)", rf"{_DEEPMIND}.conv_{{\3}}"),
            (r"group(\d+)_block(\d+)_bn(\d)", rf"{_DEEPMIND}.batchnorm_{{\3}}"),
            (r"group(\d+)_block(\d+)_shortcut", rf"{_DEEPMIND}.shortcut"),
            *_head("logits"),
        ),
        outside="CIFAR-10: mean=0.4914,0.4822,0.4465 and std=0.2471,0.2435,0.2616",
    ),
    TorchLayout(
        "ResNet and pre-activation ResNet of FastAT, Rice et al. and RobustBench",
        (
            _STEM,
            ("bn", "bn"),
            *_blocks(_RESNET),
            *_shortcuts(_RESNET, "shortcut.0", "shortcut.1"),
            *_head("linear"),
        ),
        stem=3,
    ),
    TorchLayout(
        "ResNet of Liu et al. (PAS)",
        (_STEM, *_blocks(_RESNET), *_shortcuts(_RESNET, "shortcut.0", "shortcut.1"), *_head("classifier")),
        stem=3,
    ),
    TorchLayout(
        "ResNet of torchvision",
        (_STEM, *_blocks(_RESNET), *_shortcuts(_RESNET, "downsample.0", "downsample.1"), *_head("fc")),
        stem=7,
        outside="ImageNet: mean=0.485,0.456,0.406 and std=0.229,0.224,0.225",
    ),
    TorchLayout(
        "VGG of Liu et al. (PAS)", (*_vgg_rules("feature_extractor"), *_head("classifier")), biases=True
    ),
    TorchLayout("LeNet of Liu et al. (PAS)", ((r"conv(\d)", r"conv\1"), ("fc", "fc1"), *_head("fc2"))),
)


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
    unread = set(tensors)
    new = {}
    for layer in layers:
        module = str(layout.module_of(layer.name))
        arrays = _arrays_of(layer, module, tensors, unread)
        if isinstance(layer, BatchNorm):
            arrays[2] = arrays[2] - _bias_before(layer, layout, tensors, unread)
        pairs = zip(arrays, layer.weights, strict=True)
        new[layer] = [_checked(array, weight, module) for array, weight in pairs]
    _check_normalization(model, tensors, unread)
    check(
        not unread,
        f"The {layout.name} has tensors without a place in '{model.name}': {_some(unread)}. Build the model "
        "with the architecture and the head of the checkpoint.",
    )
    for layer, arrays in new.items():
        layer.set_weights(arrays)
    return layout


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


def _arrays_of(layer, module: str, tensors: Mapping[str, np.ndarray], unread: set[str]) -> list[np.ndarray]:
    """The tensors of a module in the order and the layout of the weights of its Keras layer."""
    if isinstance(layer, BatchNorm):
        parts = ("weight", "bias", "running_mean", "running_var")
        return [_take(f"{module}.{part}", tensors, unread) for part in parts]
    weight = _take(f"{module}.weight", tensors, unread)
    kernel = weight.transpose(2, 3, 1, 0) if weight.ndim == 4 else _dense_kernel(layer, weight)
    if isinstance(layer, CosineDense):
        return [kernel if layer.kernel.constraint is None else np.asarray(layer.kernel.constraint(kernel))]
    return [kernel, _take(f"{module}.bias", tensors, unread)] if layer.use_bias else [kernel]


def _dense_kernel(layer, weight: np.ndarray) -> np.ndarray:
    """The kernel of a dense layer; PyTorch flattens channels first, Keras channels last."""
    before, maps = producer(layer.input)
    if isinstance(before, keras.layers.Flatten):
        height, width, channels = maps.shape[1:]
        weight = weight.reshape(len(weight), channels, height, width).transpose(0, 2, 3, 1)
        weight = weight.reshape(len(weight), -1)
    return weight.T


def _bias_before(layer, layout: TorchLayout, tensors: Mapping[str, np.ndarray], unread: set[str]):
    """The bias of the convolution whose output a batch normalization sees; 0 if it has none."""
    before, _ = producer(layer.input)
    bias = f"{layout.module_of(before.name)}.bias"
    if not isinstance(before, keras.layers.Conv2D) or bias not in tensors:
        return 0.0
    return _take(bias, tensors, unread)


def _take(name: str, tensors: Mapping[str, np.ndarray], unread: set[str]) -> np.ndarray:
    check(
        name in tensors,
        f"The state dict has no '{name}'. Build the model with the architecture and head of the checkpoint.",
    )
    unread.discard(name)
    return tensors[name]


def _checked(array: np.ndarray, weight, module: str) -> np.ndarray:
    if array.shape != tuple(weight.shape):
        raise InputError(
            f"The module '{module}' has another shape than '{weight.path}', in the order of Keras. Expected: "
            f"{tuple(weight.shape)}. Received: {array.shape}. Build the model with the checkpoint's sizes."
        )
    return array


def _check_normalization(model: keras.Model, tensors: Mapping[str, np.ndarray], unread: set[str]) -> None:
    """Refuses a checkpoint whose input normalization, if it has one, is not the model's."""
    for names in NORMALIZATIONS:
        if not set(names) <= set(tensors):
            continue
        unread.difference_update(names)
        expected = [np.ravel(tensors[name]) for name in names]
        received = _normalization_of(model, len(expected[0]))
        check(
            np.allclose(expected, received, atol=1e-6),
            "The checkpoint normalizes its input in another way than the model. Expected "
            f"mean={expected[0].tolist()}, std={expected[1].tolist()}. Received: a model with "
            f"mean={received[0].tolist()}, std={received[1].tolist()}. Build it with these `mean` and `std`.",
        )


def _normalization_of(model: keras.Model, channels: int) -> list[np.ndarray]:
    layers = [layer for layer in model.layers if isinstance(layer, keras.layers.Normalization)]
    if not layers:
        return [np.zeros(channels), np.ones(channels)]
    return [np.ravel(layers[0].mean), np.sqrt(np.ravel(layers[0].variance))]


def _some(names) -> str:
    """A few names, for a message."""
    names = sorted(names)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
