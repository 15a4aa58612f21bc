"""Several evaluations side by side, like a table in a paper: rows are models, columns are attacks."""

import dataclasses
import json
import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from athe_tf.report.format import NOTHING, points, value_text
from athe_tf.report.reading import SavedEvaluation
from athe_tf.results.result import Result
from athe_tf.utils.errors import check
from athe_tf.utils.streams import one_line

CLEAN, WORST, CORRUPTIONS = "clean", "worst case", "mCA"
# Entries of a config in which runs of one row may differ.
OF_ONE_RUN = ("seed", "notes")
#: What must agree between evaluations that are compared, in words.
MEASURED_BY = {
    "dataset": "data",
    "epsilon_text": "epsilons",
    "norm": "norms",
    "examples": "numbers of images",
}


@dataclasses.dataclass(frozen=True)
class Cell:
    """The accuracy of a model under an attack: a share of 1 per seed, and the interval of a single one."""

    values: tuple[float, ...]
    interval: Sequence[float] | None = None

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def deviation(self) -> float | None:
        """The standard deviation over seeds (with n - 1), or `None` for a single seed."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def bounds(self) -> Sequence[float]:
        """The interval of a single evaluation, or one standard deviation around the mean of several."""
        if self.deviation is not None:
            return max(0.0, self.mean - self.deviation), min(1.0, self.mean + self.deviation)
        return self.interval or (self.mean, self.mean)

    def __str__(self) -> str:
        if self.deviation is None:
            return points(self.mean)
        return f"{points(self.mean)} ± {points(self.deviation)}"


@dataclasses.dataclass(frozen=True)
class Row:
    """A model: its name, and the evaluations of its seeds."""

    label: str
    evaluations: tuple[SavedEvaluation, ...]

    def cell(self, column: str) -> Cell | None:
        """The accuracy in a column, or `None` unless every seed has it."""
        found = [entries(one.result).get(column) for one in self.evaluations]
        known = [entry for entry in found if entry is not None]
        if len(known) < len(found):
            return None
        return Cell(tuple(share for share, _ in known), known[0][1] if len(known) == 1 else None)

    @property
    def seeds(self) -> list:
        return [one.config["seed"] for one in self.evaluations if one.config]

    @property
    def origin(self) -> list[str]:
        """Where the numbers come from."""
        folders = [str(one.folder) for one in self.evaluations if one.folder is not None]
        several = f"mean and standard deviation of seeds {', '.join(map(str, self.seeds))}"
        return [*folders, several] if len(self.evaluations) > 1 else folders


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Rows and columns, and warnings about comparing them; `print` it for a table.

    Example:

    >>> comparison = athe_tf.report.compare([athe_tf.report.read_evaluation(f) for f in ("runs/a", "runs/b")])
    >>> print(comparison)
    """

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    warnings: tuple[str, ...]

    def best(self, column: str) -> float | None:
        """The highest accuracy of a column; `None` unless there are several comparable rows."""
        cells = [cell for cell in (row.cell(column) for row in self.rows) if cell is not None]
        return max(cell.mean for cell in cells) if len(cells) > 1 and not self.warnings else None

    def __str__(self) -> str:
        body = [[row.label, *(str(row.cell(c) or NOTHING) for c in self.columns)] for row in self.rows]
        head, *lines = aligned([["accuracy in %", *self.columns], *body])
        origins = [one_line(f"{row.label}: {', '.join(row.origin)}") for row in self.rows]
        warnings = [one_line(f"Warning: {text}") for text in self.warnings]
        return "\n".join([head, "-" * len(head), *lines, "", *origins, *warnings])


def aligned(rows: list[list[str]]) -> list[str]:
    """Lines with aligned columns: the first to the left, the others to the right.

    Example:

    >>> aligned([["a", "clean"], ["long", "9.5"]])
    ['a     clean', 'long    9.5']
    """
    rows = [[one_line(cell) for cell in row] for row in rows]
    first, *others = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join([row[0].ljust(first), *map(str.rjust, row[1:], others)]) for row in rows]


def compare(evaluations: Sequence[SavedEvaluation]) -> Comparison:
    """Groups evaluations whose runs differ only in the seed, and warns if rows cannot be compared.

    Example:

    >>> evaluations = [athe_tf.report.read_evaluation(folder) for folder in ("runs/a", "runs/b")]
    >>> comparison = athe_tf.report.compare(evaluations)

    Args:
        evaluations: What `read_evaluation` returns for each.
    """
    check(len(evaluations) > 0, "There is nothing to compare. Expected an evaluation. Received: [].")
    groups, warnings = group_seeds(evaluations)
    labels = name_rows([group[0] for group in groups])
    rows = tuple(Row(label, tuple(group)) for label, group in zip(labels, groups, strict=True))
    named = [(row.label, one.result) for row in rows for one in row.evaluations]
    notes = [f"{one.folder}: {note}" for one in evaluations for note in one.notes]
    return Comparison(columns(evaluations), rows, tuple(warnings + notes + comparability(named)))


def entries(result: Result) -> dict[str, tuple[float, Sequence[float] | None]]:
    """From the columns of the table to `(accuracy, interval)`."""
    found: dict[str, tuple[float, Sequence[float] | None]] = {
        CLEAN: (result.clean_accuracy, result.clean_interval)
    }
    found |= {result.label(attack): (attack.accuracy, attack.interval) for attack in result.ran}
    if result.worst_case_accuracy is not None:
        found[WORST] = (result.worst_case_accuracy, result.worst_case_interval)
    if result.corruptions and "mca" in result.corruptions:
        found[CORRUPTIONS] = (result.corruptions["mca"], None)
    return found


def columns(evaluations: Sequence[SavedEvaluation]) -> tuple[str, ...]:
    """Clean, all attacks in order of appearance, the worst case, corruptions."""
    seen = dict.fromkeys(column for one in evaluations for column in entries(one.result))
    last = [column for column in (WORST, CORRUPTIONS) if column in seen]
    return (*(column for column in seen if column not in last), *last)


def group_seeds(evaluations: Sequence[SavedEvaluation]) -> tuple[list[list[SavedEvaluation]], list[str]]:
    """Groups evaluations by everything but the seed; also returns warnings about repeated seeds."""
    groups: dict[str, list[SavedEvaluation]] = {}
    for position, one in enumerate(evaluations):
        groups.setdefault(_identity(one) or f"alone {position}", []).append(one)
    found: list[list[SavedEvaluation]] = []
    warnings = []
    for group in groups.values():
        seeds = [one.config["seed"] for one in group if one.config]
        if len(set(seeds)) < len(seeds):
            # A mean over the same run twice would look more certain than it is.
            folders = ", ".join(str(one.folder) for one in group)
            warnings.append(
                f"These have the same settings and the same seed, and are not averaged: {folders}."
            )
            found.extend([one] for one in group)
        else:
            found.append(group)
    return found, warnings


def _identity(one: SavedEvaluation) -> str | None:
    """Everything that must agree between the seeds of one row; `None` if the run is unknown."""
    if one.config is None:
        return None
    settings = {name: value for name, value in one.config.items() if name not in OF_ONE_RUN}
    measured = [getattr(one.result, key) for key in MEASURED_BY]
    attacks = [[each.name, each.epsilon, each.settings] for each in one.result.attacks]
    return json.dumps([settings, measured, attacks], sort_keys=True, default=str)


def name_rows(firsts: Sequence[SavedEvaluation]) -> list[str]:
    """A name per row: framework and head, with further settings or a number if those are not unique."""
    labels = []
    for one in firsts:
        label = _short_name(one)
        varied = varying_settings([other for other in firsts if _short_name(other) == label])
        extra = ", ".join(f"{name} {value_text(one.config.get(name))}" for name in varied if one.config)
        labels.append(f"{label} ({extra})" if extra else label)
    return [
        f"{label} [{1 + labels[:position].count(label)}]" if labels.count(label) > 1 else label
        for position, label in enumerate(labels)
    ]


def _short_name(one: SavedEvaluation) -> str:
    if one.config is None:
        return one.result.model
    head = one.config["head"]
    return one.config["framework"] if head == "linear" else f"{one.config['framework']} + {head}"


def varying_settings(evaluations: Sequence[SavedEvaluation]) -> list[str]:
    """The settings, other than the seed, that differ between the runs."""
    configs = [one.config for one in evaluations if one.config]
    return [name for name in differing(configs) if name not in OF_ONE_RUN]


def differing(several: Sequence[Mapping]) -> list[str]:
    """The names of the settings that are not the same everywhere.

    Example:

    >>> differing([{"seed": 0, "steps": 10}, {"seed": 0, "steps": 20, "scale": 15.0}])
    ['steps', 'scale']
    """
    names = dict.fromkeys(name for one in several for name in one)
    return [name for name in names if any(one.get(name) != several[0].get(name) for one in several)]


def comparability(named: Sequence[tuple[str, Result]]) -> list[str]:
    """Warnings about `(row, evaluation)` pairs that were not measured in the same way."""
    warnings = []
    for key, noun in MEASURED_BY.items():
        described = [(row, value_text(getattr(result, key))) for row, result in named]
        warnings += _if_different(described, f"different {noun}")
    if not warnings:
        warnings += _other_images(named)
    counted = [(row, ", ".join(sorted(result.label(one) for one in result.counted))) for row, result in named]
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


def _other_images(named: Sequence[tuple[str, Result]]) -> list[str]:
    """The same number of images of the same data, but in another order or from another part."""
    labels = [result.labels for _, result in named if result.labels is not None]
    if all(np.array_equal(one, labels[0]) for one in labels):
        return []
    return ["Not comparable, different images: the labels of the evaluations differ."]


def _attack_settings(named: Sequence[tuple[str, Result]]) -> list[str]:
    """Attacks of the same name that were run with different settings."""
    found: dict[str, list[dict]] = {}
    for _, result in named:
        for attack in result.ran:
            found.setdefault(result.label(attack), []).append(attack.settings)
    warnings = []
    for name, several in found.items():
        # Different epsilons are named above already.
        keys = [key for key in differing(several) if key not in ("epsilon", "norm")]
        if keys:
            warnings.append(f"Not comparable, {name} was run with different settings: {', '.join(keys)}.")
    return warnings
