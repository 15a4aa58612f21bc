"""Numbers of an evaluation as readers want them."""

import math
from typing import Any

from athe_tf.utils.number_format import format_number

# What stands for a number that is not there: an en dash.
NOTHING = "\N{EN DASH}"


def percent(share: float | None, digits: int = 2) -> str:
    """A share of 1 in per cent.

    Example:

    >>> percent(0.5125), percent(None)
    ('51.25 %', '\u2013')
    """
    return NOTHING if _absent(share) else f"{100 * share:.{digits}f} %"  # type: ignore[operator]


def points(share: float | None, digits: int = 2) -> str:
    """A share of 1 in per cent, without the sign, for tables whose heading has it."""
    return NOTHING if _absent(share) else f"{100 * share:.{digits}f}"  # type: ignore[operator]


def interval_text(interval) -> str:
    """A 95 % interval in per cent."""
    return NOTHING if interval is None else f"{100 * interval[0]:.1f} to {100 * interval[1]:.1f}"


def duration(seconds: float | None) -> str:
    """Seconds as people say them.

    Example:

    >>> duration(1.234), duration(75), duration(7260)
    ('1.2 s', '1 min 15 s', '2 h 1 min')
    """
    if seconds is None or _absent(seconds):
        return NOTHING
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def count(number: float | None) -> str:
    """A whole number with separators."""
    return NOTHING if _absent(number) else f"{number:,.0f}"


def decimal(number: float | None) -> str:
    """A number with the digits that matter."""
    return NOTHING if _absent(number) else f"{number:.4g}"


def value_text(value: Any) -> str:
    """The value of a setting."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return format_number(value) if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return ", ".join(f"{key} {value_text(inner)}" for key, inner in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(value_text(inner) for inner in value)
    return str(value)


def sentence(text: str) -> str:
    """The text with a capital at its start.

    Example:

    >>> sentence("logits are logits"), sentence("FGSM is weaker")
    ('Logits are logits', 'FGSM is weaker')
    """
    return text[:1].upper() + text[1:]


def plural(number: int, noun: str) -> str:
    """A number with its noun.

    Example:

    >>> plural(1, "image"), plural(2, "image")
    ('1 image', '2 images')
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _absent(number: float | None) -> bool:
    return number is None or not math.isfinite(number)
