"""`convert`: a classifier as one file for another runtime, with its card beside it."""

import os
import pathlib
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from athe_tf.conversion.torch_checkpoint import import_torch, write_safetensors
from athe_tf.conversion.torch_weights import layout_of, to_torch
from athe_tf.models.card import describe, write_card
from athe_tf.utils.choices import EXPORT_SUFFIXES
from athe_tf.utils.errors import InputError, check, check_choice
from athe_tf.utils.files import replacing
from athe_tf.utils.registry import import_optional

#: The formats of `convert`.
FORMATS = tuple(name for name in EXPORT_SUFFIXES if EXPORT_SUFFIXES[name])


def convert(
    net: keras.Model, path: str | os.PathLike, format: str, *, margin: float | None = None, images=None
) -> dict[str, Any]:
    """Writes `net` as one file for PyTorch, ONNX or LiteRT, and its card beside it as `<file>.json`.

    ONNX and LiteRT files take float32 images `[N, H, W, C]` in [0, 1] and return logits.

    Example:

    >>> net = athe_tf.models.build("wrn-10-1", 10, head="he")
    >>> card = athe_tf.saving.convert(net, "exported.safetensors", "torch")
    >>> card["format"], card["layout"]
    ('torch', 'wide ResNet of TRADES, AT_HE and RobustBench')

    Args:
        net: A functional or Sequential classifier; for "torch", a model of `athe_tf.models.build`.
        path: The file. Must not exist. Its name ends with `.pt`, `.pth` or `.safetensors` (torch), `.onnx`,
            or `.tflite` (litert, litert_int8).
        format: "torch", "onnx", "litert" or "litert_int8". The last stores weights and activations in eight
            bits.
        margin: The margin of training, for the card. Defaults to `None`: unknown.
        images: For "litert_int8": some hundred images of the data set, from which the ranges of activations
            are measured.

    Returns:
        The card.
    """
    check_choice("format", format, FORMATS)
    path = pathlib.Path(path)
    check(
        path.suffix in EXPORT_SUFFIXES[format],
        f"A file in the format '{format}' must end with {' or '.join(EXPORT_SUFFIXES[format])}. Received: "
        f"'{path}'.",
    )
    check(not path.exists(), f"'{path}' exists already. Choose another file.")
    card = {**describe(net, margin), "format": format}
    if format == "torch":
        card["layout"] = layout_of(net).name
    if format == "litert_int8":
        check(
            images is not None and len(images) > 0 and tuple(images.shape[1:]) == tuple(net.input_shape[1:]),
            "Eight bits need images to measure the ranges of activations. Expected `images` of shape "
            f"(N, {', '.join(map(str, net.input_shape[1:]))}). Received: {getattr(images, 'shape', None)}.",
        )
    _WRITERS[format](net, path, np.asarray(images, "float32") if format == "litert_int8" else None)
    write_card(path, card)
    return card


def _write_torch(net: keras.Model, path: pathlib.Path, images) -> None:
    state = to_torch(net)
    if path.suffix == ".safetensors":
        return write_safetensors(path, state)
    torch = import_torch(f"write '{path}'")
    tensors = {name: torch.from_numpy(np.array(value)) for name, value in state.items()}
    with replacing(path) as temporary:
        torch.save(tensors, temporary)


def _write_onnx(net: keras.Model, path: pathlib.Path, images) -> None:
    for package in ("onnx", "tf2onnx"):
        import_optional(
            package,
            "The packages onnx and tf2onnx are needed to write ONNX files. Install them with: "
            "pip install 'athe_tf[onnx]'.",
        )
    copy = convertible(net)
    copy(np.zeros([1, *net.input_shape[1:]], "float32"))  # Keras exports only models that were called
    with replacing(path) as temporary:
        copy.export(temporary, format="onnx", verbose=False)


def _write_litert(net: keras.Model, path: pathlib.Path, images) -> None:
    copy = convertible(net)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of statistics for the input, which is float32 here
        copy.export(folder, format="tf_saved_model", verbose=False)
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        if images is not None:
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
            converter.representative_dataset = lambda: ([image[None]] for image in images)
            # Operations without a form in eight bits, such as those of an angular head, stay in float32.
            sets = tf.lite.OpsSet
            converter.target_spec.supported_ops = [sets.TFLITE_BUILTINS_INT8, sets.TFLITE_BUILTINS]
        content = converter.convert()
    with replacing(path) as temporary:
        temporary.write_bytes(content)


_WRITERS: dict[str, Callable[[keras.Model, pathlib.Path, Any], None]] = {
    "torch": _write_torch,
    "onnx": _write_onnx,
    "litert": _write_litert,
    "litert_int8": _write_litert,
}


def convertible(net: keras.Model) -> keras.Model:
    """A copy of `net` that computes the same logits, up to rounding, with operations that convert.

    The normalization of the input becomes a `Rescaling`, whose numbers are part of the graph: the converter
    to ONNX takes the numbers of a `Normalization` for inputs. Layers in mixed precision compute in float32.
    """
    try:
        copy = keras.models.clone_model(net, clone_function=_copied)
    except ValueError as error:
        raise InputError(
            f"Only functional and Sequential models can be converted. Received: {type(net).__name__} "
            f"'{net.name}'. Export it as a SavedModel."
        ) from error
    kept = [weight for layer in net.layers for weight in _kept_weights(layer)]
    copy.set_weights([np.asarray(weight) for weight in kept])
    return copy


def _copied(layer: keras.layers.Layer) -> keras.layers.Layer:
    if isinstance(layer, keras.layers.Normalization):
        mean, variance = (np.ravel(value).astype(float) for value in (layer.mean, layer.variance))
        std = np.sqrt(variance)
        return keras.layers.Rescaling((1 / std).tolist(), (-mean / std).tolist(), name=layer.name)
    config = layer.get_config()
    if isinstance(config.get("dtype"), (dict, keras.DTypePolicy)) and layer.dtype_policy.name != "float64":
        config["dtype"] = "float32"
    return type(layer).from_config(config)


def _kept_weights(layer: keras.layers.Layer) -> list:
    """The weights that the copy of a layer has too."""
    if isinstance(layer, keras.layers.Normalization):
        return []
    if isinstance(layer, keras.Model):
        return [weight for inner in layer.layers for weight in _kept_weights(inner)]
    return layer.weights
