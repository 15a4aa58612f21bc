"""Checks of values that are known only when a compiled function runs, with readable errors.

TensorFlow reports a failed assertion on a page of graph nodes. An assertion made here has marks around its
message, by which `readable_errors` finds it and raises it as an `InputError`.
"""

import contextlib
import re
from collections.abc import Iterator

import tensorflow as tf

from athe_tf.utils.errors import InputError

_BEGIN, _END = "<athe_tf>", "</athe_tf>"
# What TensorFlow says of records whose checksum is wrong or that end too soon, and of files with too few.
_DAMAGED = re.compile(r"(corrupted|truncated) record at \d+|expected to contain \d+ elements? but[^.\[]*\d+")
_MESSAGE = re.compile(f"{_BEGIN}(.*?){_END}", re.DOTALL)


def checked(value, condition, *parts):
    """`value`, if `condition` holds; else an error, in a graph before anything is computed with `value`.

    XLA drops assertions: a function that it may compile needs another way to notice. The parts of the message
    are strings and scalar tensors.
    """
    if tf.executing_eagerly():
        if not bool(condition):
            raise InputError("".join(_text(part) for part in parts))
        return value
    with tf.control_dependencies([tf.debugging.Assert(condition, [_BEGIN, *parts, _END])]):
        return tf.identity(value)


def _text(part) -> str:
    if isinstance(part, str):
        return part
    return part.numpy().decode() if part.dtype == tf.string else f"{part.numpy():g}"


@contextlib.contextmanager
def readable_errors() -> Iterator[None]:
    """Raises failed assertions of `checked`, and damaged files, as `InputError` without a page of nodes."""
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        found = _MESSAGE.search(str(error))
        if found is None:
            raise
        # TensorFlow prints the parts of a message in brackets.
        raise InputError(found[1].removeprefix("] [").removesuffix("] [").replace("] [", "")) from None
    except (tf.errors.DataLossError, tf.errors.FailedPreconditionError) as error:
        found = _DAMAGED.search(str(error))
        if found is None:
            raise
        raise InputError(
            f"The files of the data set are incomplete or damaged: {found[0]}. Prepare or copy the set again."
        ) from None
