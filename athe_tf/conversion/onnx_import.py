"""ONNX classifiers as Keras models with gradients, each compared with onnxruntime."""

import dataclasses
import os
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from athe_tf.conversion.onnx_file import OnnxGraph, read_onnx
from athe_tf.conversion.onnx_layer import layer_of
from athe_tf.conversion.onnx_lowering import LoweredGraph, classes_of, lower
from athe_tf.utils.errors import InputError, check, unreadable_model
from athe_tf.utils.registry import import_optional

# The largest difference of logits between onnxruntime and Keras, relative to their spread: rounding is below.
_TOLERANCE = 1e-3
_RANDOM_IMAGES = 4


@dataclasses.dataclass(frozen=True)
class ImportedOnnx:
    """A Keras model that was made of an ONNX file.

    Attributes:
        net: The model.
        difference: Its largest difference from onnxruntime on random images, relative to the logits' spread.
    """

    net: keras.Model
    difference: float


def from_onnx(path: str | os.PathLike) -> keras.Model:
    """A Keras model with gradients, from images `[N, H, W, C]` to logits, of an ONNX classifier.

    The file may have channels first and may take one image at a time. Nothing in it is executed. An operation
    that has no conversion is an `InputError` that names it, and so is a model that differs from onnxruntime.

    Example:

    >>> card = athe_tf.saving.convert(net, "net.onnx", "onnx")
    >>> athe_tf.conversion.from_onnx("net.onnx").output_shape == net.output_shape
    True

    Args:
        path: The file. Its weights may be in other files of the same folder.
    """
    return import_onnx(read_onnx(path), onnx_logits(path)).net


def import_onnx(
    graph: OnnxGraph, logits: Callable[[np.ndarray], np.ndarray], name: str = "model"
) -> ImportedOnnx:
    """Does what `from_onnx` does, and says how far the model is from what `logits` computes."""
    layout = graph.layout
    images = np.random.default_rng(0).random([_RANDOM_IMAGES, *layout.shape], "float32")
    failure = InputError()
    # What was exported for one image is computed for a batch at once, or if it cannot be, image by image.
    for one_by_one in (False, True)[not layout.batched : 1 + layout.single]:
        try:
            net = _model(graph, name, one_by_one)
            difference = relative_difference(np.asarray(net(images, training=False)), logits(images))
            check(
                difference <= _TOLERANCE,
                f"The Keras model of '{name}' differs from the file by {difference:.2g} of the spread of its "
                f"logits, more than {_TOLERANCE:g}: it is not used. Export the model again with a free size "
                "of the batch.",
            )
            return ImportedOnnx(net, difference)
        except InputError as error:
            failure = failure if failure.args else error
    raise failure


def relative_difference(logits: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference of logits, relative to the spread of those that are expected.

    Example:

    >>> relative_difference(np.array([[1.0, 2.0]]), np.array([[1.0, 3.0]]))
    0.5
    """
    check(
        logits.shape == expected.shape,
        f"Expected logits of shape {expected.shape}. Received: {logits.shape}.",
    )
    spread = float((expected.max(axis=1) - expected.min(axis=1)).max())
    return float(np.abs(logits - expected).max()) / max(spread, 1e-12)


def onnx_logits(
    path: str | os.PathLike, graph: OnnxGraph | None = None
) -> Callable[[np.ndarray], np.ndarray]:
    """The logits of images `[N, H, W, C]` as onnxruntime computes them from a file."""
    remedy = "Install it with: pip install 'athe_tf[onnx]'."
    runtime = import_optional("onnxruntime", f"onnxruntime is needed to open '{path}'. {remedy}")
    graph = graph or read_onnx(path)
    options = runtime.SessionOptions()
    options.log_severity_level = 4  # warnings are about the writer of the file, errors are raised
    try:
        session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise unreadable_model(path, error) from error

    layout = graph.layout

    def run(part: np.ndarray) -> np.ndarray:
        sizes: Any = (len(part), *layout.sizes[1:]) if layout.batched else layout.sizes
        try:
            found = session.run(None, {graph.images: part.reshape(sizes)})[0]
        except Exception as error:
            raise unreadable_model(path, error) from error
        return found.reshape(len(part), -1) if classes_of(list(found.shape), len(part)) else found

    def logits(images: np.ndarray) -> np.ndarray:
        images = np.ascontiguousarray(
            images.transpose(0, 3, 1, 2) if layout.channels_first else images, graph.dtype
        )
        parts = np.split(images, len(images)) if layout.single and len(images) > 1 else [images]
        return np.concatenate([run(part) for part in parts]).astype("float32")

    return logits


def _model(graph: OnnxGraph, name: str, one_by_one: bool) -> keras.Model:
    """The model of a graph; a linear last layer becomes a `Dense`, so that its features are known."""
    lowered, kernel, bias = _without_head(lower(graph, 1) if one_by_one else lower(graph))
    images = keras.Input(graph.layout.shape, name="image")
    width = lowered.classes if kernel is None else len(kernel)
    features = layer_of(lowered, graph, width, one_by_one)(images)
    name = "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in name)
    if kernel is None:
        return keras.Model(images, features, name=name)
    head = keras.layers.Dense(kernel.shape[1], use_bias=bias is not None, name="head")
    net = keras.Model(images, head(features), name=name)
    head.set_weights([kernel] if bias is None else [kernel, bias])
    return net


def _without_head(lowered: LoweredGraph) -> tuple[LoweredGraph, Any, Any]:
    """The graph up to its last linear layer, and the kernel and the bias of that, if it ends in one."""
    *before, last = lowered.nodes
    constants, bias = lowered.constants, None
    if last.operator == "Add" and before and before[-1].operator == "MatMul":
        # A product and a sum, as TensorFlow's converter writes a linear layer.
        name, bias = before[-1].outputs[0], next((constants[n] for n in last.inputs if n in constants), None)
        if bias is None or bias.ndim != 1 or name not in last.inputs:
            return lowered, None, None
        *before, last = before
    elif last.operator == "Gemm" and len(last.inputs) > 2:
        bias = constants.get(last.inputs[2])
    kernel = constants.get(last.inputs[1]) if last.operator in ("Gemm", "MatMul") else None
    plain = not last.get("transA") and last.get("alpha", 1.0) == last.get("beta", 1.0) == 1
    known = bias is not None or last.operator == "MatMul" or len(last.inputs) == 2
    if (
        kernel is None
        or kernel.ndim != 2
        or kernel.dtype != np.float32
        or not plain
        or not known
        or last.inputs[0] in constants
        or not before
    ):
        return lowered, None, None
    kernel = kernel.T if last.get("transB") else kernel
    bias = None if bias is None else np.broadcast_to(np.ravel(bias), [kernel.shape[1]])
    return dataclasses.replace(lowered, nodes=before, output=last.inputs[0]), kernel, bias
