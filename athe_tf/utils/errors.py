"""Errors for invalid input, and checks that raise them."""

import numbers
import os
import re
from typing import Any

# Names of nodes and operations around the messages of TensorFlow.
_NODES = re.compile(r"\{\{.*?\}\}\s*|\s*\[Op:\w+\]")


class InputError(ValueError):
    """Invalid input from the user.

    The message says what is wrong, what was expected, what was received and, if possible, a remedy. The
    command-line programs print it without a traceback and exit with code 2.

    Example:

    >>> try:
    ...     athe_tf.models.build("wrn-34-1O", num_classes=10)
    ... except athe_tf.InputError as error:
    ...     print(str(error)[:55])
    Unknown model 'wrn-34-1O'. Did you mean 'wrn-34-10'? Av
    """


class NotApplicable(InputError):
    """An attack needs more information than the victim provides.

    Evaluation reports such an attack as *not run*, with this message, and never replaces it by another.
    """


class NoGradients(NotApplicable):
    """An attack follows gradients, and the victim's logits have none."""


def first_line(error: BaseException) -> str:
    r"""What another library's error says, as a part of a message of ours: one line, without a final period.

    Of an error of the operating system, the reason alone; the type of an error that says nothing.

    Example:

    >>> first_line(ValueError("\nThe file is damaged.\n  at byte 7"))
    'The file is damaged'
    """
    text = getattr(error, "strerror", None) or getattr(error, "message", None) or error
    lines = (line.strip() for line in _NODES.sub("", str(text)).splitlines())
    return next(filter(None, lines), type(error).__name__).rstrip(".")[:500]


# What Keras and TensorFlow write before the error that happened inside.
_BEFORE_CAUSE = re.compile(
    r"Exception encountered:|Exception encountered when calling [^\n]*\n|^\s*[\w.]*(?:Error|Exception): ",
    re.MULTILINE,
)
# What they write after it: the configuration of an object, the arguments of a call, an operation.
_AFTER_CAUSE = re.compile(r"\n\s*\n|\s*(?:Full object )?config[:=]|\s*Arguments received by|\s*\[\[")
_COLORS = re.compile(r"\x1b\[[\d;]*m")


def unreadable(path, error: BaseException) -> InputError:
    """The error for a file that the system does not let us read, to be raised `from error`."""
    return InputError(f"Cannot read '{path}': {first_line(error)}.")


def check_model_file(path) -> None:
    """Raises `InputError` unless there is a file."""
    check(os.path.isfile(path), f"There is no model file '{path}'.")


def unreadable_model(path, error: BaseException, remedy: str = "Export or copy it again.") -> InputError:
    """What to raise for a model file that another library cannot read."""
    return InputError(f"The model file '{path}' cannot be read: {cause(error)}. {remedy}")


def cause(error: BaseException) -> str:
    r"""What another library's error says at its root, as a part of a message of ours, like `first_line`.

    Keras and TensorFlow wrap the error that happened inside into several others, and write it last.

    Example:

    >>> cause(ValueError("Net is wrong.\n\nException encountered: Could not locate class 'Foo'."))
    "Could not locate class 'Foo'"
    """
    if isinstance(error, OSError):
        return first_line(error)
    text = _COLORS.sub("", _NODES.sub("", str(getattr(error, "message", None) or error)))
    wrapped = text.lstrip().startswith("Graph execution error")
    text, parts = text.strip(), _BEFORE_CAUSE.split(text)
    if len(parts) > 1 and parts[-1].strip():
        text = _AFTER_CAUSE.split(parts[-1].strip())[0]
    elif wrapped:
        text = _AFTER_CAUSE.split(text.split("\n\n")[-1].strip())[0]
    else:
        return first_line(error)
    return " ".join(text.split()).rstrip(".")[:500] or first_line(error)


def described(error: BaseException) -> str:
    """The type of another library's error, and what it says, if anything.

    Example:

    >>> described(KeyError("scale")), described(MemoryError())
    ("KeyError: 'scale'", 'MemoryError')
    """
    kind, line = type(error).__name__, first_line(error)
    return kind if line == kind else f"{kind}: {line}"


def check(condition: bool, message: str) -> None:
    """Raises `InputError(message)` unless `condition` holds."""
    if not condition:
        raise InputError(message)


def check_integer(argument: str, value: Any, least: int) -> None:
    """Raises `InputError` unless `value` is an integer of at least `least`."""
    check(
        isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= least,
        f"Invalid value for argument `{argument}`. Expected an integer of at least {least}. "
        f"Received: {argument}={value!r}.",
    )


def check_choice(argument: str, value: Any, choices) -> None:
    """Raises `InputError` unless `value` is one of `choices`."""
    check(
        value in choices,
        f"Invalid value for argument `{argument}`. Expected one of {sorted(choices)}. "
        f"Received: {argument}={value!r}.",
    )
