"""The weights of a PyTorch network in its Keras twin, a model that the user wrote: in order, and by shape.

Kernels are transposed. Behind `Flatten`, PyTorch counts channels first, (C, H, W), and Keras last, (H, W,
C): the
inputs of layers there are permuted.
"""

import re
from collections.abc import Callable, Mapping

import keras
import numpy as np

from athe_tf.conversion.torch_weights import flattened_maps, layers_with_weights, used_tensors
from athe_tf.layers.cosine_dense import CosineDense
from athe_tf.utils.errors import InputError, check
from athe_tf.utils.keras_compat import producer

_STATISTICS = ("weight", "bias", "running_mean", "running_var")


def load_in_order(model: keras.Model, state: Mapping[str, np.ndarray]) -> list[tuple[str, str]]:
    """Copies the weights of a state dict into a model whose layers come in the same order.

    Each layer takes the first modules of its shape that no other layer has; a batch normalization prefers
    those
    after its convolution. Nothing is changed unless all tensors and all layers find each other.

    Args:
        model: A functional or Sequential model.
        state: From names to arrays, as in `state_dict()`.

    Returns:
        The names of the layers, each with the name of its module.
    """
    modules: dict[str, dict[str, np.ndarray]] = {}
    for name, array in used_tensors(state).items():
        module, _, part = name.rpartition(".")
        modules.setdefault(module, {})[part] = array
    if all(re.fullmatch(r"[\d.]+", name) for name in modules):  # a Sequential, perhaps sorted as text
        modules = dict(sorted(modules.items(), key=lambda item: [int(n) for n in item[0].split(".")]))
        is_sorted = False
    else:  # as in .safetensors files, which do not keep the order
        is_sorted = len(modules) > 2 and list(modules) == sorted(modules)
    order, taken = list(modules), dict[str, str]()
    new = []
    for layer in layers_with_weights(model):
        wanted = [tuple(weight.shape) for weight in layer.weights]
        before, _ = producer(layer.input)
        after = order.index(taken[before.name]) if before is not None and before.name in taken else -1
        free = [name for name in order if name not in taken.values()]
        places = sorted(free, key=lambda name: (order.index(name) < after, order.index(name)))
        fitting = [name for name in places if _shapes(layer, modules[name]) == wanted]
        named = [name for name in fitting if name.replace(".", "_") == layer.name]
        check(
            bool(named) or len(fitting) < 2 or not is_sorted,
            f"The modules {', '.join(fitting[:3])} of the checkpoint have the same shapes, its tensors "
            "are sorted by "
            f"name, and so their order does not tell which is the layer '{layer.name}'. Name the layers "
            "of the twin as the modules, with _ for dots, or give a file of torch.save.",
        )
        found = next(iter(named or fitting), None)
        if found is None:
            shapes = {key: value.shape for key, value in modules[places[0]].items()} if places else {}
            raise InputError(
                f"No tensors of the checkpoint fit the layer '{layer.name}' of the twin, whose weights "
                f"have the shapes {wanted} in the order of Keras. The next module without a layer is "
                f"'{places[0] if places else 'none'}' with {shapes}. Build the twin with the sizes of the "
                "checkpoint."
            )
        taken[layer.name] = found
        new.append((layer, _weights(layer, modules[found])))
    left = [name for name in order if name not in taken.values()]
    check(
        not left,
        f"The twin has no layer for the modules {', '.join(left[:3])} of the checkpoint, with the shapes "
        f"{[value.shape for value in modules[left[0]].values()] if left else ''}. Add these layers to the "
        "twin.",
    )
    for layer, arrays in new:
        layer.set_weights(arrays)
    return list(taken.items())


def _shapes(layer, tensors: Mapping[str, np.ndarray]) -> list[tuple[int, ...]] | None:
    """The shapes that tensors have in a layer; `None` if they do not belong to such a layer."""
    try:
        return [array.shape for array in _weights(layer, tensors)]
    except (KeyError, ValueError):
        return None


def _weights(layer, tensors: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The tensors of a module in the order and the shapes of a Keras layer."""
    convert = next((function for kind, function in _LAYERS.items() if isinstance(layer, kind)), None)
    if convert is None:
        raise InputError(
            f"The layer '{layer.name}', a {type(layer).__name__}, has no counterpart in PyTorch that is "
            "known. Expected "
            "convolutions, Dense and normalizations. Convert the module instead: --torch_module=module:build."
        )
    arrays = convert(layer, tensors)
    if len(tensors) != len(arrays):
        raise ValueError("another number of tensors")
    return arrays


def _kernel_and_bias(kernel: Callable) -> Callable:
    def convert(layer, tensors):
        return [kernel(layer, tensors["weight"]), *([tensors["bias"]] if layer.use_bias else [])]

    return convert


def _convolution(layer, weight: np.ndarray) -> np.ndarray:
    return weight.transpose(2, 3, 1, 0)


def _depthwise(layer, weight: np.ndarray) -> np.ndarray:
    channels = weight.shape[0] // layer.depth_multiplier
    return weight[:, 0].reshape(channels, layer.depth_multiplier, *weight.shape[2:]).transpose(2, 3, 0, 1)


def _dense(layer, weight: np.ndarray) -> np.ndarray:
    return _channels_last(layer, weight).T


def _channels_last(layer, array: np.ndarray) -> np.ndarray:
    """The last axis in the order of Keras, behind a `Flatten`."""
    maps = flattened_maps(layer)
    if not maps:
        return array
    height, width, channels = maps
    maps_first = np.moveaxis(array.reshape(*array.shape[:-1], channels, height, width), -3, -1)
    return maps_first.reshape(array.shape)


def _normalization(layer, tensors):
    used = (layer.scale, layer.center, hasattr(layer, "moving_mean"), hasattr(layer, "moving_variance"))
    return [_channels_last(layer, tensors[n]) for n, use in zip(_STATISTICS, used, strict=True) if use]


_LAYERS: dict[type, Callable] = {
    CosineDense: lambda layer, tensors: [_dense(layer, tensors["weight"])],
    keras.layers.DepthwiseConv2D: _kernel_and_bias(_depthwise),
    keras.layers.Conv2D: _kernel_and_bias(_convolution),
    keras.layers.Dense: _kernel_and_bias(_dense),
    keras.layers.BatchNormalization: _normalization,
    keras.layers.LayerNormalization: _normalization,
}
