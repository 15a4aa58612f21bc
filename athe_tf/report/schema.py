"""What stands in an `evaluation.json`, and the check that it does.

A shape is the name of a kind of value, a list (of any length) of a shape, or a dictionary from keys to
shapes, where a key that ends with a question mark may be absent and the key `...` stands for all keys.
"""

import numbers
from typing import Any

from athe_tf.utils.errors import InputError

CHECKS = {
    "a text": lambda value: isinstance(value, str),
    "a number": lambda value: _is_number(value),
    "a number or null": lambda value: value is None or _is_number(value),
    "a whole number": lambda value: isinstance(value, numbers.Integral) and not isinstance(value, bool),
    "true or false": lambda value: isinstance(value, bool),
    "two numbers": lambda value: (
        isinstance(value, (list, tuple)) and len(value) == 2 and all(_is_number(part) for part in value)
    ),
    "anything": lambda value: True,
}
TEXT, NUMBER, MAYBE_NUMBER, WHOLE, FLAG, PAIR, ANYTHING = (
    "a text", "a number", "a number or null", "a whole number", "true or false", "two numbers", "anything",
)  # fmt: skip

ATTACK = {
    "name": TEXT,
    "not_run?": TEXT,
    "examples?": WHOLE,
    "accuracy?": NUMBER,
    "interval?": PAIR,
    "seconds?": NUMBER,
    "queries?": NUMBER,
    "gradients?": NUMBER,
    "nonfinite_gradients?": NUMBER,
    "median_norm?": MAYBE_NUMBER,
    "epsilon?": NUMBER,
    "settings?": {...: ANYTHING},
    "in_worst_case?": FLAG,
    "remarks?": [TEXT],
    "stages?": [{"name": TEXT, "accuracy": NUMBER, "seconds?": NUMBER}],
    "norms?": [MAYBE_NUMBER],
}
RELIABILITY = {
    "ece": MAYBE_NUMBER,
    "bins": [{"confidence": MAYBE_NUMBER, "accuracy": MAYBE_NUMBER, "count": NUMBER}],
}
ANGLES = {"edges?": [NUMBER], "true": [NUMBER], "nearest_wrong": [NUMBER]}
EVALUATION = {
    "model": TEXT,
    "dataset": TEXT,
    "examples": WHOLE,
    "epsilon": TEXT,
    "norm": TEXT,
    "seed?": WHOLE,
    "clean_accuracy": NUMBER,
    "clean_interval?": PAIR,
    "worst_case_accuracy": NUMBER,
    "worst_case_interval?": PAIR,
    "attacks": [ATTACK],
    "warnings?": [TEXT],
    "versions?": {...: ANYTHING},
    "verdict?": TEXT,
    "protocol?": TEXT,
    "command?": TEXT,
    "settings?": {...: ANYTHING},
    "run?": TEXT,
    "classes?": WHOLE,
    "labels?": [WHOLE],
    "per_class?": {"clean": [MAYBE_NUMBER], "worst_case": [MAYBE_NUMBER], "count": [WHOLE]},
    "curve?": [{"epsilon": NUMBER, "accuracy": NUMBER, "interval?": PAIR}],
    "checks?": [{"name": TEXT, "status": TEXT, "detail?": TEXT, "numbers?": {...: ANYTHING}}],
    "calibration?": {"clean?": RELIABILITY, "adversarial?": RELIABILITY},
    "angles?": {**ANGLES, "edges": [NUMBER], "adversarial?": ANGLES},
    "corruptions?": {
        "generated?": FLAG,
        "severities": [WHOLE],
        "accuracy": {...: [MAYBE_NUMBER]},
        "groups?": {...: MAYBE_NUMBER},
        "protocol?": TEXT,
        "remarks?": [TEXT],
        "mca?": NUMBER,
        "mce?": NUMBER,
    },
    "verify?": [{
        "tool": TEXT,
        "attack": TEXT,
        "ours?": NUMBER,
        "theirs?": NUMBER,
        "difference?": NUMBER,
        "not_run?": TEXT,
    }],
    "transfer?": {
        "sources": [TEXT],
        "targets": [TEXT],
        "attack?": TEXT,
        "accuracy": [[MAYBE_NUMBER]],
    },
}  # fmt: skip


def _is_number(value) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def check_evaluation(data: Any) -> None:
    """Raises `InputError`, with the place that does not fit, unless `data` is an evaluation."""
    _check(data, EVALUATION, "")
    for place, lengths in _parallel(data):
        if len(set(lengths)) > 1:
            raise InputError(f"the lists in '{place}' should be of one length, and have {lengths} items")


def _parallel(data: dict):
    """`(place, lengths)` of all lists that are read side by side."""
    if "per_class" in data:
        yield "per_class", [len(data["per_class"][key]) for key in ("clean", "worst_case", "count")]
    angles = data.get("angles", {})
    for place, part in (("angles", angles), ("angles.adversarial", angles.get("adversarial"))):
        if part:
            edges = part.get("edges", angles["edges"])
            yield place, [len(edges) - 1, len(part["true"]), len(part["nearest_wrong"])]
    if "corruptions" in data:
        part = data["corruptions"]
        yield "corruptions", [len(part["severities"]), *map(len, part["accuracy"].values())]
    if "transfer" in data:
        part = data["transfer"]
        yield "transfer.accuracy", [len(part["sources"]), len(part["accuracy"])]
        yield "transfer.accuracy", [len(part["targets"]), *map(len, part["accuracy"])]


def _check(value, shape, place: str) -> None:
    if isinstance(shape, dict):
        _require(isinstance(value, dict), "named values", place, value)
        _check_keys(value, shape, place)
    elif isinstance(shape, list):
        _require(isinstance(value, (list, tuple)), "a list", place, value)
        for position, item in enumerate(value):
            _check(item, shape[0], f"{place}[{position}]")
    else:
        _require(CHECKS[shape](value), shape, place, value)


def _check_keys(value: dict, shape: dict, place: str) -> None:
    if ... in shape:
        for key, item in value.items():
            _check(item, shape[...], _inside(place, key))
        return
    for key, inner in shape.items():
        name = key.rstrip("?")
        if name in value:
            _check(value[name], inner, _inside(place, name))
        elif key == name:
            raise InputError(f"it lacks '{_inside(place, name)}'")


def _inside(place: str, key: str) -> str:
    return f"{place}.{key}" if place else str(key)


def _require(holds: bool, expected: str, place: str, value) -> None:
    if not holds:
        shown = repr(value)
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        raise InputError(f"'{place or 'the whole'}' should be {expected}, and is {shown}")
