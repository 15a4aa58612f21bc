"""Numbers as people write them: `8/255` is a number everywhere, and is printed as one."""

from athe_tf.utils.errors import InputError


def parse_number(text) -> float:
    """Reads `0.031`, `8/255` or a number.

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
    """Writes whole 255ths as people do, unless a short decimal says the same.

    Example:

    >>> format_number(8 / 255), format_number(0.031), format_number(0.2)
    ('8/255', '0.031', '0.2')
    """
    decimal = f"{value:g}"
    pixels = value * 255
    if float(decimal) != value and abs(pixels) < 255 and abs(pixels - round(pixels)) < 1e-9:
        return f"{round(pixels)}/255"
    return decimal
