"""`to_torch`: the weights of a model as a state dict that the published PyTorch classes load."""

import keras
import numpy as np

from athe_tf.conversion.torch_layout import LAYOUTS, TorchLayout, layers_with_weights
from athe_tf.layers.batch_norm import BatchNorm
from athe_tf.models.builder import NORMALIZATION
from athe_tf.utils.errors import InputError
from athe_tf.utils.keras_compat import producer

# The classes that keep the normalization of the input in their state dict call it so.
_MEAN_AND_STD = ("mu", "sigma")


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
    for layer in model.layers:
        if layer.name == NORMALIZATION and not chosen.outside:
            state |= _normalization(layer)
    for layer in layers_with_weights(model):
        state |= _tensors(layer, str(chosen.module_of(layer.name)), chosen)
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


def _normalization(layer) -> dict[str, np.ndarray]:
    values = np.ravel(layer.mean), np.sqrt(np.ravel(layer.variance))
    return {
        name: value.astype("float32").reshape(1, -1, 1, 1)
        for name, value in zip(_MEAN_AND_STD, values, strict=True)
    }


def _tensors(layer, module: str, layout: TorchLayout) -> dict[str, np.ndarray]:
    arrays = layer.get_weights()
    if isinstance(layer, BatchNorm):
        parts = ("weight", "bias", "running_mean", "running_var")
        tensors = {f"{module}.{part}": array for part, array in zip(parts, arrays, strict=True)}
        tensors[f"{module}.num_batches_tracked"] = np.zeros((), "int64")
        before, _ = producer(layer.input)
        if layout.biases and isinstance(before, keras.layers.Conv2D):
            tensors[f"{layout.module_of(before.name)}.bias"] = np.zeros(len(arrays[0]), "float32")
        return tensors
    kernel = arrays[0]
    weight = kernel.transpose(3, 2, 0, 1) if kernel.ndim == 4 else _dense_weight(layer, kernel)
    tensors = {f"{module}.weight": np.ascontiguousarray(weight)}
    if len(arrays) > 1:
        tensors[f"{module}.bias"] = arrays[1]
    return tensors


def _dense_weight(layer, kernel: np.ndarray) -> np.ndarray:
    """The weight of a dense layer; PyTorch flattens channels first, Keras channels last."""
    before, maps = producer(layer.input)
    weight = kernel.T
    if isinstance(before, keras.layers.Flatten):
        weight = weight.reshape(len(weight), *maps.shape[1:]).transpose(0, 3, 1, 2)
        weight = weight.reshape(len(weight), -1)
    return weight
