"""Finds evaluations whose numbers cannot be compared, and why."""

from collections.abc import Sequence

from athe_tf.report.accessors import counts, label, ran
from athe_tf.report.format import value_text

Named = Sequence[tuple[str, dict]]
MEASURED_BY = {"dataset": "data", "epsilon": "epsilons", "norm": "norms", "examples": "numbers of images"}


def comparability(named: Named) -> list[str]:
    """Warnings about `(row, evaluation)` pairs that were not measured in the same way."""
    warnings = []
    for key, noun in MEASURED_BY.items():
        described = [(row, value_text(data[key])) for row, data in named]
        warnings += _if_different(described, f"different {noun}")
    if not warnings:
        warnings += _other_images(named)
    counted = [(row, _attacks_that_count(data)) for row, data in named]
    warnings += _if_different(counted, "worst cases over different attacks")
    return warnings + _attack_settings(named)


def _if_different(described: Sequence[tuple[str, str]], what: str) -> list[str]:
    """A warning if the descriptions of rows differ."""
    found: dict[str, dict[str, None]] = {}
    for row, value in described:
        found.setdefault(value, {})[row] = None
    if len(found) < 2:
        return []
    parts = [f"{value or 'none'} ({', '.join(rows)})" for value, rows in found.items()]
    return [f"Not comparable, {what}: {'; '.join(parts)}."]


def _other_images(named: Named) -> list[str]:
    """The same number of images of the same data, but in another order or from another part."""
    labels = [data["labels"] for _, data in named if "labels" in data]
    if all(one == labels[0] for one in labels):
        return []
    return ["Not comparable, different images: the labels of the evaluations differ."]


def _attacks_that_count(data: dict) -> str:
    return ", ".join(sorted(label(one, data) for one in ran(data) if counts(one)))


def _attack_settings(named: Named) -> list[str]:
    """Attacks of the same name that were run with different settings."""
    found: dict[str, list[dict]] = {}
    for _, data in named:
        for attack in ran(data):
            found.setdefault(label(attack, data), []).append(attack.get("settings", {}))
    warnings = []
    for name, several in found.items():
        # Different epsilons are named above already.
        keys = dict.fromkeys(key for one in several for key in one if key not in ("epsilon", "norm"))
        differing = [key for key in keys if any(one.get(key) != several[0].get(key) for one in several)]
        listed = ", ".join(differing)
        if differing:
            warnings.append(f"Not comparable, {name} was run with different settings: {listed}.")
    return warnings
