"""ONNX and LiteRT files as victims: logits from another runtime, gradients from a Keras model made of the
file.
"""

import pathlib
import tempfile
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from athe_tf.conversion.onnx_file import check_ends, image_layout, read_onnx
from athe_tf.conversion.onnx_import import ImportedOnnx, import_onnx, onnx_logits
from athe_tf.models.card import read_card
from athe_tf.models.victim import Victim, victim_of
from athe_tf.utils.digests import file_digest
from athe_tf.utils.errors import InputError, cause, check, unreadable_model
from athe_tf.utils.registry import import_optional

#: In the card of a victim: how far its gradient source is from the file, or why it has none.
DIFFERENCE, NOT_CONVERTED = "difference_of_twin", "not_converted"


def import_file(path: str | pathlib.Path) -> ImportedOnnx:
    """Makes a Keras model of an `.onnx` file, or of a `.tflite` file of floating-point numbers."""
    path = pathlib.Path(path)
    if path.suffix == ".onnx":
        graph = read_onnx(path)
        return import_onnx(graph, onnx_logits(path, graph), path.stem)
    logits, _ = _litert(path)  # refuses what is no classifier of images
    remedy = "tf2onnx is needed to convert LiteRT files. Install it with: pip install 'athe_tf[onnx]'."
    converter = import_optional("tf2onnx.convert", remedy)
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "model.onnx"
        try:
            converter.from_tflite(str(path), opset=17, output_path=str(file))
        except Exception as error:
            raise InputError(
                f"tf2onnx cannot convert '{path}': {cause(error)}. Import the model that it was made of."
            ) from error
        return import_onnx(read_onnx(file), logits, path.stem)


def open_runtime_model(path: str | pathlib.Path) -> Victim:
    """A victim from an `.onnx` or a `.tflite` file that maps images in [0, 1] to logits.

    The other runtime on the file itself is the judge. The gradients are those of a Keras model that is made
    of
    an ONNX file, its twin. Without a twin, attacks that need gradients cannot be run; the card says why.

    Example:

    >>> victim = open_runtime_model("net.tflite")

    Args:
        path: The file. Other inputs than one of float32 images and other outputs than one of logits are an
            `InputError`.
    """
    path = pathlib.Path(path)
    digest, card = file_digest(path), dict(read_card(path))
    source = None
    if path.suffix == ".onnx":
        graph = read_onnx(path)
        run = onnx_logits(path, graph)
        classes = _classes(path, list(run(np.zeros([1, *graph.layout.shape], "float32")).shape))
        try:
            twin = import_onnx(graph, run, path.stem)
            source = victim_of(twin.net).replace(scale=card.get("scale") or 1.0)
            card[DIFFERENCE] = twin.difference
        except InputError as error:
            card[NOT_CONVERTED] = str(error)
    else:
        run, classes = _litert(path)

    def logits(x):
        found = tf.numpy_function(run, [tf.cast(x, tf.float32)], tf.float32, stateful=False)
        return tf.ensure_shape(found, [None, classes])

    known: dict[str, Any] = {"name": path.name, "facts": card, "digest": lambda: digest, "source": source}
    scale = card.get("scale") or 1.0
    return Victim(logits, scale=scale, num_classes=classes, differentiable=False, **known)


def _litert(path: pathlib.Path) -> tuple[Callable, int]:
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError:
        Interpreter = tf.lite.Interpreter  # deprecated, but there without LiteRT
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            interpreter = Interpreter(str(path))
    except (ValueError, RuntimeError) as error:
        raise unreadable_model(path, error) from error
    images, logits = interpreter.get_input_details(), interpreter.get_output_details()
    check_ends(path, images, logits)
    size, kind = images[0]["shape_signature"].tolist(), np.dtype(images[0]["dtype"]).name
    check(
        kind == "float32",
        f"'{path}' takes inputs of type {kind}. Expected: float32 images in [0, 1]. Convert it with float32 "
        "inputs; weights and activations may have fewer bits.",
    )
    layout = image_layout(path, size)
    check(
        layout.sizes[1:] == layout.shape and not layout.channels_first,
        f"'{path}' takes inputs of shape {size}. Expected: [batch, height, width, channels]. Convert it with "
        "channels last.",
    )
    classes = _classes(path, logits[0]["shape_signature"].tolist())
    lock, shape = threading.Lock(), None

    def run(x: np.ndarray) -> np.ndarray:
        nonlocal shape
        with lock:  # an interpreter is not safe in several threads
            if shape != x.shape:
                interpreter.resize_tensor_input(images[0]["index"], x.shape)
                interpreter.allocate_tensors()
                shape = x.shape
            interpreter.set_tensor(images[0]["index"], x)
            interpreter.invoke()
            return interpreter.get_tensor(logits[0]["index"])

    return run, classes


def _classes(path: pathlib.Path, shape: list) -> int:
    """The number of classes of a file with an output of this shape."""
    classes = shape[-1] if len(shape) == 2 else None
    if not isinstance(classes, int) or classes < 2:
        raise InputError(f"The output of '{path}' has the shape {shape}. Expected: [batch, classes].")
    return classes
