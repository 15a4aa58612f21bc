"""Checks of labels, whose values may be known only when a compiled function runs; for any Keras backend."""

from typing import Any

import keras
from keras import ops

from athe_tf.utils.errors import InputError
from athe_tf.utils.images_and_labels import NUMBER_CLASSES, label_rule
from athe_tf.utils.keras_compat import has_values

# Comparisons with a number of classes beyond their range would wrap around.
_NARROW = ("int8", "uint8", "int16", "uint16")


def checked_labels(labels, classes: int):
    """Labels as int32; an error unless each of them, int or float, is an integer in `[0, classes)`."""
    labels = ops.convert_to_tensor(labels)
    dtype = keras.backend.standardize_dtype(labels.dtype)
    if dtype in _NARROW:
        labels = ops.cast(labels, "int32")
    # False for NaN.
    valid = (labels >= 0) & (labels < classes)
    if keras.backend.is_float_dtype(dtype):
        valid = valid & (labels == ops.floor(labels))
    found = ("min=", ops.min(labels), ", max=", ops.max(labels), f". {NUMBER_CLASSES}")
    return _checked(ops.cast(labels, "int32"), ops.all(valid), label_rule(classes), *found)


def is_soft(labels) -> bool:
    """Whether labels are probabilities `[N, L]`, one-hot or soft, and not the numbers of classes."""
    shape: Any = getattr(labels, "shape", ())
    return len(shape if getattr(shape, "rank", 0) is not None else ()) == 2 and shape[-1] != 1


def most_probable(labels):
    """The class of each label as int32: of probabilities the most probable one."""
    return ops.cast(ops.argmax(labels, axis=-1) if is_soft(labels) else labels, "int32")


def checked_probabilities(labels):
    """One-hot or soft labels; an error unless every row consists of probabilities that add up to 1.

    Where errors cannot be raised, as in functions compiled by XLA, wrong labels become NaN.
    """
    labels = ops.convert_to_tensor(labels)
    sums = ops.sum(labels, axis=-1, keepdims=True)
    # A label in half precision may be off by 0.001. False for NaN.
    valid = (labels >= 0) & (ops.abs(sums - 1) <= 0.01)
    rule = "One-hot and soft labels must not be negative and add up to 1 for every image. Received: min="
    found = (ops.min(labels), ", sums from ", ops.min(sums), " to ", ops.max(sums))
    labels = _checked(labels, ops.all(valid), rule, *found, ". Use `sample_weight` to weight images.")
    return ops.where(valid, labels, float("nan"))


def _checked(value, condition, *parts):
    """`value`, if `condition` holds; else an error, unless JAX compiles the function that this is part of."""
    if keras.backend.backend() == "tensorflow":
        # Not at the top: the other backends work without TensorFlow.
        from athe_tf.utils.graph_checks import checked

        return checked(value, condition, *parts)
    if not has_values():
        return value
    try:
        holds = bool(condition)
    except TypeError:  # a value that is being traced has no truth value in JAX
        return value
    if not holds:
        raise InputError("".join(part if isinstance(part, str) else f"{float(part):g}" for part in parts))
    return value
