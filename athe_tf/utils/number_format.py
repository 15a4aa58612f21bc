"""Numbers as text: fractions such as `8/255` are read and written everywhere."""

import math

from athe_tf.utils.errors import InputError

# Shown for a missing number: an en dash.
NOTHING = "\N{EN DASH}"


def parse_number(text) -> float:
    """Parses `0.031`, `8/255` or a number.

    Example:

    >>> parse_number("8/255")
    0.03137254901960784
    """
    if isinstance(text, (int, float)):
        return float(text)
    try:
        numerator, slash, denominator = str(text).partition("/")
        return float(numerator) / float(denominator) if slash else float(numerator)
    except (ValueError, ZeroDivisionError):
        raise InputError(f"Expected a number such as 0.031 or 8/255. Received: {text!r}.") from None


def format_number(value: float) -> str:
    """Formats multiples of 1/255 as fractions, unless a short decimal is exact.

    Example:

    >>> format_number(8 / 255), format_number(0.031), format_number(0.2)
    ('8/255', '0.031', '0.2')
    """
    decimal = f"{value:g}"
    pixels = value * 255
    if float(decimal) != value and abs(pixels) < 255 and abs(pixels - round(pixels)) < 1e-9:
        return f"{round(pixels)}/255"
    return decimal


def format_duration(seconds: float) -> str:
    """Writes a time as people say it.

    Example:

    >>> format_duration(1.24), format_duration(75), format_duration(7260), format_duration(200000)
    ('1.2 s', '1 min 15 s', '2 h 1 min', '2.3 days')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 2 * 86400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole / 86400:.1f} days"


def percent(share: float | None, digits: int = 2) -> str:
    """A share of 1 as a percentage.

    Example:

    >>> percent(0.5125), percent(None)
    ('51.25%', '\u2013')
    """
    return NOTHING if is_absent(share) else f"{100 * share:.{digits}f}%"  # type: ignore[operator]


def is_absent(number: float | None) -> bool:
    """Whether there is no number to show."""
    return number is None or not math.isfinite(number)
