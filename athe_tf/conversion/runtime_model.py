"""ONNX and LiteRT files as victims: logits from another runtime, without gradients."""

import pathlib
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from athe_tf.models.card import read_card
from athe_tf.models.victim import Victim
from athe_tf.utils.digests import file_digest
from athe_tf.utils.errors import InputError, cause, check
from athe_tf.utils.registry import import_optional


def open_runtime_model(path: str | pathlib.Path) -> Victim:
    """A victim from an `.onnx` or a `.tflite` file that maps images `[N, H, W, C]` in [0, 1] to logits.

    It has no gradients: attacks that need them cannot be run on it. Use attacks on the model that it was made
    of, as gradient source, and attacks that need outputs only.

    Example:

    >>> victim = open_runtime_model("net.tflite")

    Args:
        path: The file. Other inputs than one of float32 images, channels last, and other outputs than one of
            logits are an `InputError`.
    """
    path = pathlib.Path(path)
    run, classes = (_onnx if path.suffix == ".onnx" else _litert)(path)
    digest, card = file_digest(path), read_card(path)

    def logits(x):
        found = tf.numpy_function(run, [tf.cast(x, tf.float32)], tf.float32, stateful=False)
        return tf.ensure_shape(found, [None, classes])

    known: dict[str, Any] = {"name": path.name, "facts": card, "digest": lambda: digest}
    scale = card.get("scale") or 1.0
    return Victim(logits, scale=scale, num_classes=classes, differentiable=False, **known)


def _onnx(path: pathlib.Path) -> tuple[Callable, int]:
    remedy = "Install it with: pip install 'athe_tf[onnx]'."
    onnxruntime = import_optional("onnxruntime", f"onnxruntime is needed to open '{path}'. {remedy}")
    try:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as error:
        raise _unreadable(path, error) from error
    images, logits = session.get_inputs(), session.get_outputs()
    classes = _classes(path, [(node.shape, node.type) for node in images], [node.shape for node in logits])
    name = images[0].name
    return lambda x: session.run(None, {name: x})[0], classes


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
        raise _unreadable(path, error) from error
    images, logits = interpreter.get_input_details(), interpreter.get_output_details()
    inputs = [(node["shape_signature"].tolist(), np.dtype(node["dtype"]).name) for node in images]
    classes = _classes(path, inputs, [node["shape_signature"].tolist() for node in logits])
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


def _unreadable(path: pathlib.Path, error: Exception) -> InputError:
    return InputError(f"The model file '{path}' cannot be read: {cause(error)}. Export or copy it again.")


def _classes(path: pathlib.Path, inputs: Sequence[tuple[Sequence, str]], outputs: Sequence[Sequence]) -> int:
    """The number of classes of a file that maps images to logits; `InputError` for one that does not.

    `inputs` are shapes and types, `outputs` are shapes. A size that is not known is no positive number.
    """
    check(
        (len(inputs), len(outputs)) == (1, 1),
        f"'{path}' has {len(inputs)} inputs and {len(outputs)} outputs. Expected: one input, images, and one "
        "output, logits. Export a model that has only these.",
    )
    (shape, kind), found = inputs[0], outputs[0]
    check(
        kind in ("float32", "tensor(float)"),
        f"'{path}' takes inputs of type {kind}. Expected: float32 images in [0, 1]. Convert it with float32 "
        "inputs; weights and activations may have fewer bits.",
    )
    sizes = [size if isinstance(size, int) and size > 0 else None for size in shape]
    channels_first = len(sizes) == 4 and sizes[1] in (1, 3) and sizes[3] not in (1, 3)
    remedy = (
        "Channels come first in it: convert it with channels last." if channels_first else "Convert it so."
    )
    check(
        len(sizes) == 4 and not channels_first,
        f"'{path}' takes inputs of shape {sizes}. Expected: [batch, height, width, channels]. {remedy}",
    )
    classes = found[-1] if len(found) == 2 else None
    if not isinstance(classes, int) or classes < 2:
        raise InputError(f"The output of '{path}' has the shape {list(found)}. Expected: [batch, classes].")
    return classes
