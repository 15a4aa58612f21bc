"""ONNX and LiteRT files as victims: logits from another runtime, without gradients."""

import json
import pathlib
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from athe_tf.attacks.engine.victim import Victim
from athe_tf.saving.converted_file import card_path
from athe_tf.utils.digests import file_digest
from athe_tf.utils.errors import InputError, check


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
    check(path.is_file(), f"There is no model file '{path}'.")
    run, classes = (_onnx if path.suffix == ".onnx" else _litert)(path)
    digest = file_digest(path)

    def logits(x):
        found = tf.numpy_function(run, [tf.cast(x, tf.float32)], tf.float32, stateful=False)
        return tf.ensure_shape(found, [None, classes])

    return Victim(
        logits,
        scale=_card(path).get("scale") or 1.0,
        num_classes=classes,
        name=path.name,
        facts=_card(path),
        differentiable=False,
        digest=lambda: digest,
    )


def _card(path: pathlib.Path) -> dict:
    beside = card_path(path)
    if not beside.exists():
        return {}
    try:
        card = json.loads(beside.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(
            f"The card '{beside}' cannot be read: {error}. Export the model again, or remove the card."
        ) from error
    return card if isinstance(card, dict) else {}


def _onnx(path: pathlib.Path) -> tuple[Callable, int]:
    try:
        import onnxruntime
    except ImportError as error:
        raise InputError(
            f"onnxruntime is needed to open '{path}'. Install it with: pip install 'athe_tf[onnx]'."
        ) from error
    try:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as error:
        raise _unreadable(path, error) from error
    inputs, outputs = session.get_inputs(), session.get_outputs()
    _check_count(path, len(inputs), len(outputs))
    _check_input(path, inputs[0].shape, inputs[0].type == "tensor(float)", inputs[0].type)
    name = inputs[0].name
    return lambda x: session.run(None, {name: x})[0], _classes(path, outputs[0].shape)


def _litert(path: pathlib.Path) -> tuple[Callable, int]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # TensorFlow's interpreter is deprecated
            interpreter = _interpreter_class()(str(path))
    except (ValueError, RuntimeError) as error:
        raise _unreadable(path, error) from error
    inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()
    _check_count(path, len(inputs), len(outputs))
    kind = np.dtype(inputs[0]["dtype"])
    _check_input(path, inputs[0]["shape_signature"], kind == np.float32, kind.name)
    return _LitertFunction(interpreter), _classes(path, outputs[0]["shape_signature"])


class _LitertFunction:
    """From images to logits, one batch at a time: an interpreter is not safe in several threads."""

    def __init__(self, interpreter):
        self.interpreter = interpreter
        self.images = interpreter.get_input_details()[0]["index"]
        self.logits = interpreter.get_output_details()[0]["index"]
        self.shape: tuple[int, ...] | None = None
        self.lock = threading.Lock()

    def __call__(self, x: np.ndarray) -> np.ndarray:
        with self.lock:
            if self.shape != x.shape:
                self.interpreter.resize_tensor_input(self.images, x.shape)
                self.interpreter.allocate_tensors()
                self.shape = x.shape
            self.interpreter.set_tensor(self.images, x)
            self.interpreter.invoke()
            return self.interpreter.get_tensor(self.logits)


def _interpreter_class() -> Any:
    """The interpreter of LiteRT; TensorFlow's own, which is deprecated, where LiteRT is not installed."""
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError:
        return tf.lite.Interpreter
    return Interpreter


def _unreadable(path: pathlib.Path, error: Exception) -> InputError:
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return InputError(
        f"The model file '{path}' cannot be read: {first.rstrip('.')}. Export or copy it again."
    )


def _check_count(path: pathlib.Path, inputs: int, outputs: int) -> None:
    check(
        (inputs, outputs) == (1, 1),
        f"'{path}' has {inputs} inputs and {outputs} outputs. Expected: one input, images, and one output, "
        "logits. Export a model that has only these.",
    )


def _check_input(path: pathlib.Path, shape: Sequence, is_float32: bool, kind: str) -> None:
    found = [size if isinstance(size, int) and size > 0 else None for size in map(_plain, shape)]
    check(
        is_float32,
        f"'{path}' takes inputs of type {kind}. Expected: float32 images in [0, 1]. Convert it with float32 "
        "inputs; weights and activations may have fewer bits.",
    )
    channels_first = len(found) == 4 and found[1] in (1, 3) and found[3] not in (1, 3)
    check(
        len(found) == 4 and not channels_first,
        f"'{path}' takes inputs of shape {found}. Expected: [batch, height, width, channels]. "
        + (
            "Channels come first in it: convert it with channels last."
            if channels_first
            else "Convert it so."
        ),
    )


def _plain(size: Any) -> Any:
    return int(size) if isinstance(size, (int, np.integer)) else size


def _classes(path: pathlib.Path, shape: Sequence) -> int:
    classes = _plain(shape[-1]) if len(shape) == 2 else None
    check(
        isinstance(classes, int) and classes >= 2,
        f"The output of '{path}' has the shape {list(shape)}. Expected: [batch, classes].",
    )
    return int(classes)  # type: ignore[arg-type]
