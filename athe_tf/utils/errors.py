"""The error for input that cannot work, and the number formats that messages share."""

from typing import Any


class InputError(ValueError):
    """Something the user gave cannot be used.

    The message says what is wrong, what was expected, what was received and, where there is one, the
    remedy. The command-line programs print it without a traceback and exit with code 2.
    """


class NotApplicable(InputError):
    """An attack needs more than this victim offers.

    Evaluation reports such an attack as *not run*, with this message, and never replaces it by another.
    """


def check(condition: bool, message: str) -> None:
    """Raises `InputError(message)` unless `condition` holds."""
    if not condition:
        raise InputError(message)


def check_choice(argument: str, value: Any, choices) -> None:
    """Raises `InputError` unless `value` is one of `choices`."""
    if value not in choices:
        raise InputError(
            f"Invalid value for argument `{argument}`. Expected one of {sorted(choices)}. "
            f"Received: {argument}={value!r}."
        )
