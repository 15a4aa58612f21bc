"""Several evaluations side by side, as the tables of papers: rows are models, columns are attacks."""

import dataclasses
import json
import statistics
from collections.abc import Sequence
from typing import Any

from athe_tf.report.accessors import label as attack_label
from athe_tf.report.accessors import ran, worst_case
from athe_tf.report.comparability import comparability
from athe_tf.report.format import NOTHING, points, value_text
from athe_tf.report.reading import Evaluation
from athe_tf.utils.errors import check

CLEAN, WORST, CORRUPTIONS = "clean", "worst case", "mCA"


@dataclasses.dataclass(frozen=True)
class Cell:
    """The accuracy of a model under an attack: one value for each seed.

    Attributes:
        values: Shares of 1.
        interval: The 95 % interval of a single value, or `None`.
    """

    values: tuple[float, ...]
    interval: tuple[float, float] | None = None

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def deviation(self) -> float | None:
        """The standard deviation between seeds (with n - 1), or `None` of a single one."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    def __str__(self) -> str:
        if self.deviation is None:
            return points(self.mean)
        return f"{points(self.mean)} ± {points(self.deviation)}"


@dataclasses.dataclass(frozen=True)
class Row:
    """A model: its name, and the evaluations of its seeds."""

    label: str
    evaluations: tuple[Evaluation, ...]

    def cell(self, column: str) -> Cell | None:
        """The accuracy in a column, or `None` unless every seed has it."""
        found = [entries(one.data).get(column) for one in self.evaluations]
        known = [entry for entry in found if entry is not None]
        if len(known) < len(found):
            return None
        interval = known[0][1] if len(known) == 1 else None
        bounds = (interval[0], interval[1]) if interval else None
        return Cell(tuple(share for share, _ in known), bounds)

    @property
    def seeds(self) -> list:
        return [one.config["seed"] for one in self.evaluations if one.config]

    @property
    def folders(self) -> list[str]:
        return [str(one.folder) for one in self.evaluations if one.folder is not None]


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Rows and columns, and what to know before comparing them; `print` it for a table."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    warnings: tuple[str, ...]

    def best(self, column: str) -> float | None:
        """The highest accuracy of a column, where its rows may be compared and there are several."""
        cells = [cell for cell in (row.cell(column) for row in self.rows) if cell is not None]
        return max(cell.mean for cell in cells) if len(cells) > 1 and not self.warnings else None

    def __str__(self) -> str:
        body = [[row.label, *(str(row.cell(c) or NOTHING) for c in self.columns)] for row in self.rows]
        lines = aligned([["accuracy in %", *self.columns], *body])
        lines.insert(1, "-" * len(lines[0]))
        lines.append("")
        lines += [f"{row.label}: {', '.join(origin(row))}" for row in self.rows]
        lines += [f"Warning: {text}" for text in self.warnings]
        return "\n".join(lines)


def origin(row: Row) -> list[str]:
    """Where the numbers of a row come from."""
    if len(row.evaluations) == 1:
        return row.folders
    return [*row.folders, f"mean and standard deviation of seeds {', '.join(map(str, row.seeds))}"]


def aligned(rows: list[list[str]]) -> list[str]:
    """Lines with columns of one width: the first to the left, the others to the right.

    Example:

    >>> aligned([["a", "clean"], ["long", "9.5"]])
    ['a     clean', 'long    9.5']
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True)),
            ]
        )
        for row in rows
    ]


def compare(evaluations: Sequence[Evaluation]) -> Comparison:
    """Groups evaluations whose runs differ in the seed only, and warns where rows cannot be compared."""
    check(len(evaluations) > 0, "There is nothing to compare. Give folders of bin/evaluate.")
    groups, warnings = group_seeds(evaluations)
    labels = name_rows([group[0] for group in groups])
    rows = tuple(Row(label, tuple(group)) for label, group in zip(labels, groups, strict=True))
    named = [(row.label, one.data) for row in rows for one in row.evaluations]
    return Comparison(columns(evaluations), rows, tuple(warnings + comparability(named)))


def entries(data: dict) -> dict[str, tuple[float, Sequence[float] | None]]:
    """From the columns of the table to `(accuracy, interval)`."""
    found = {CLEAN: (data["clean_accuracy"], data.get("clean_interval"))}
    for attack in ran(data):
        found[attack_label(attack, data)] = (attack["accuracy"], attack.get("interval"))
    share, interval = worst_case(data)
    if share is not None:
        found[WORST] = (share, interval)
    if "mca" in data.get("corruptions", {}):
        found[CORRUPTIONS] = (data["corruptions"]["mca"], None)
    return found


def columns(evaluations: Sequence[Evaluation]) -> tuple[str, ...]:
    """Clean, all attacks in the order in which they appear, the worst case, corruptions."""
    seen = dict.fromkeys(column for one in evaluations for column in entries(one.data))
    last = [column for column in (WORST, CORRUPTIONS) if column in seen]
    return (*(column for column in seen if column not in last), *last)


def group_seeds(evaluations: Sequence[Evaluation]) -> tuple[list[list[Evaluation]], list[str]]:
    """Evaluations of the same settings and other seeds together; and warnings about seeds that come twice."""
    groups: dict[str, list[Evaluation]] = {}
    for position, one in enumerate(evaluations):
        groups.setdefault(_identity(one) or f"alone {position}", []).append(one)
    found: list[list[Evaluation]] = []
    warnings = []
    for group in groups.values():
        seeds = [one.config["seed"] for one in group if one.config]
        if len(set(seeds)) < len(seeds):
            # A mean over the same run twice would look surer than it is.
            folders = ", ".join(str(one.folder) for one in group)
            warnings.append(
                f"These have the same settings and a seed in common, and are not averaged: {folders}."
            )
            found.extend([one] for one in group)
        else:
            found.append(group)
    return found, warnings


def _identity(one: Evaluation) -> str | None:
    """All that must agree between the seeds of one row; `None` for a model whose run is not known."""
    if one.config is None:
        return None
    settings = {name: value for name, value in one.config.items() if name != "seed"}
    measured = [one.data[key] for key in ("dataset", "examples", "epsilon", "norm")]
    attacks = [
        [attack["name"], attack.get("epsilon"), attack.get("settings")] for attack in one.data["attacks"]
    ]
    return json.dumps([settings, measured, attacks], sort_keys=True, default=str)


def name_rows(firsts: Sequence[Evaluation]) -> list[str]:
    """A name for each row: framework and head, with more settings or a number where those come twice."""
    labels = []
    for one in firsts:
        label = _short_name(one)
        namesakes = [other for other in firsts if _short_name(other) == label]
        varied = [name for name in varying_settings(namesakes) if name != "seed"] if one.config else []
        extra = ", ".join(f"{name} {value_text(one.config[name])}" for name in varied if one.config)
        labels.append(f"{label} ({extra})" if extra else label)
    return [
        f"{label} [{1 + labels[:position].count(label)}]" if labels.count(label) > 1 else label
        for position, label in enumerate(labels)
    ]


def _short_name(one: Evaluation) -> str:
    if one.config is None:
        return one.data["model"]
    head = one.config["head"]
    return one.config["framework"] if head == "linear" else f"{one.config['framework']} + {head}"


def varying_settings(evaluations: Sequence[Evaluation]) -> dict[str, list[Any]]:
    """The settings of the runs that are not the same in all of them."""
    configs = [one.config for one in evaluations if one.config is not None]
    names = dict.fromkeys(name for config in configs for name in config)
    values = {name: [config.get(name) for config in configs] for name in names}
    return {name: found for name, found in values.items() if any(value != found[0] for value in found)}
