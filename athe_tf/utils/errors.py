"""Errors for invalid input, and checks that raise them."""

import numbers
from typing import Any


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
