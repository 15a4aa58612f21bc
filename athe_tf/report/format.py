"""Numbers and settings as text."""

import math
from typing import Any

from athe_tf.results.result import Result
from athe_tf.utils.number_format import NOTHING, format_number, is_absent
from athe_tf.utils.number_format import percent as percent


def points(share: float | None, digits: int = 2) -> str:
    """A share of 1 as a percentage without its sign, for tables whose heading has it."""
    return NOTHING if is_absent(share) else f"{100 * share:.{digits}f}"  # type: ignore[operator]


def interval_text(interval) -> str:
    """An interval as percentages."""
    return NOTHING if interval is None else f"{100 * interval[0]:.1f} to {100 * interval[1]:.1f}"


def count(number: float | None) -> str:
    """A whole number with thousands separators."""
    return NOTHING if is_absent(number) else f"{number:,.0f}"


def decimal(number: float | None) -> str:
    """A number with four significant digits."""
    return NOTHING if is_absent(number) else f"{number:.4g}"


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
    """Capitalizes the first letter of a text.

    Example:

    >>> sentence("outputs are logits"), sentence("FGSM is weaker")
    ('Outputs are logits', 'FGSM is weaker')
    """
    return text[:1].upper() + text[1:]


def plural(number: int, noun: str) -> str:
    """A number with its noun.

    Example:

    >>> plural(1, "image"), plural(2, "image")
    ('1 image', '2 images')
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def threat_line(result: Result) -> str:
    """The threat model in one line, such as `linf, epsilon 8/255 · 1,000 images`."""
    parts = [f"{result.norm}, epsilon {result.epsilon_text}", plural(result.examples, "image")]
    if result.protocol is not None:
        parts.append(f"protocol {result.protocol}")
    return " · ".join(parts)
