"""Reads JSON files defensively, and checks them against JSON Schemas."""

import json
import math
import pathlib
from typing import Any

from athe_tf.utils.errors import InputError, unreadable

# Deeper nesting is not written by athe_tf, and would exhaust Python's stack.
MAX_DEPTH = 30
MAX_BYTES = 2**28


def read_json(path: pathlib.Path, remedy: str) -> Any:
    """The content of a JSON file; raises `InputError`, which ends with the remedy, if it cannot be read."""
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise ValueError(f"it has {size:,} bytes, more than {MAX_BYTES:,}")
        text, finite = path.read_text(encoding="utf-8"), _finite_number
        value = json.loads(text, parse_int=_integer, parse_float=finite, parse_constant=finite)
        _check_depth(value, MAX_DEPTH)
    except OSError as error:
        raise unreadable(path, error) from error
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise InputError(f"'{path}' is not valid JSON: {reason}. {remedy}") from error
    return value


def check_finite(data: dict, place: str) -> None:
    """Raises `InputError` if a dictionary contains what a JSON file cannot: NaN, for example."""
    try:
        json.dumps(data, allow_nan=False)
        _check_depth(data, MAX_DEPTH)
    except (TypeError, ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise InputError(f"{place} cannot be written as JSON: {reason}.") from error


def _integer(text: str) -> int:
    if len(text) > 19:  # as many characters as the largest number of 64 bits has
        raise ValueError(f"the number {text[:15]}... has more than 64 bits")
    return int(text)


def _finite_number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:15]} is not finite")
    return value


def _check_depth(value, depth: int) -> None:
    if depth == 0:
        raise RecursionError
    if isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            _check_depth(inner, depth - 1)


def check_schema(data: Any, schema: dict) -> None:
    """Raises `InputError`, with the place that does not fit, unless data fit a JSON Schema.

    Example:

    >>> check_schema({"seed": "a"}, {"properties": {"seed": {"type": "integer", "description": "a number"}}})
    Traceback (most recent call last):
        ...
    athe_tf.utils.errors.InputError: at 'seed': expected a number, received 'a'
    """
    import jsonschema  # here, so that a program answers a typo without it

    validator = jsonschema.Draft202012Validator(schema)
    # A value that does not fit says more than one that is missing.
    errors = sorted(validator.iter_errors(data), key=lambda error: error.validator == "required")
    if errors:
        raise InputError(_problem(errors[0]))


def _problem(error) -> str:
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path)
    place = place.removeprefix(".")
    if error.validator == "required":
        missing = next(key for key in error.validator_value if key not in error.instance)
        return f"'{f'{place}.{missing}' if place else missing}' is missing"
    expected = error.schema.get("description", "an object") if isinstance(error.schema, dict) else "nothing"
    received = repr(error.instance)
    received = received if len(received) <= 60 else received[:57] + "..."
    return f"at '{place or 'the top level'}': expected {expected}, received {received}"


def check_version(data: Any, place: str, latest: int, remedy: str) -> int:
    """The version of a file's format, 1 if it has none; raises `InputError` if that is not known here.

    The message names the `place` of the data, and ends with the `remedy`, a sentence.
    """
    version = data.get("format", 1) if isinstance(data, dict) else 1
    if not isinstance(version, int) or isinstance(version, bool) or not 1 <= version <= latest:
        raise InputError(
            f"This version of athe_tf reads formats 1 to {latest}. Received: {place} of format "
            f"{str(version)[:60]!r}. Update athe_tf. {remedy}"
        )
    return version
