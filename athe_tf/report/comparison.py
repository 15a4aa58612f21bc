"""Several evaluations side by side, like a table in a paper: rows are models, columns are attacks."""

import dataclasses
import itertools
import json
import statistics
import textwrap
from collections.abc import Mapping, Sequence

import numpy as np

from athe_tf.drawing.charts import Bar, bar_chart, figure
from athe_tf.drawing.figures import Figure
from athe_tf.drawing.markup import fragment, notes, side_by_side, table, tag
from athe_tf.report.format import NOTHING, plural, points, value_text
from athe_tf.report.reading import SavedEvaluation, default_settings
from athe_tf.results import charts
from athe_tf.results.intervals import interval_of, mcnemar, paired_interval, seeds_interval
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
# Characters of a label, of the head of a column, and of a line on the terminal.
LABEL, HEAD, LINE = 60, 40, 160
#: Positions of images that changed sides, at most, in a line.
MOST_IMAGES = 6


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
    """A model: its name, the evaluations of its seeds, and the attacks that all models have."""

    label: str
    evaluations: tuple[SavedEvaluation, ...]
    common: tuple[str, ...] = ()

    def cell(self, column: str) -> Cell | None:
        """The accuracy in a column, or `None` unless every seed has it."""
        found = [entries(one.result, self.common).get(column) for one in self.evaluations]
        known = [entry for entry in found if entry is not None]
        if len(known) < len(found):
            return None
        return Cell(tuple(share for share, _ in known), known[0][1] if len(known) == 1 else None)

    @property
    def seeds(self) -> list:
        return [one.config["seed"] for one in self.evaluations if one.config]

    @property
    def robust(self) -> list[np.ndarray]:
        """The flags of every seed in the worst case; empty unless all of them are known."""
        found = [robust_flags(one.result, self.common) for one in self.evaluations]
        return [] if any(flags is None for flags in found) else found  # type: ignore[return-value]

    @property
    def origin(self) -> list[str]:
        """Where the numbers come from."""
        folders = [str(one.folder) for one in self.evaluations if one.folder is not None]
        several = f"mean and standard deviation of seeds {', '.join(map(str, self.seeds))}"
        return [*folders, several] if len(self.evaluations) > 1 else folders


@dataclasses.dataclass(frozen=True)
class Difference:
    """How much larger the worst case of a model is than that of another one, and whether that is chance.

    Attributes:
        row: The label of the model.
        reference: The label of the other one.
        value: The difference of the accuracies.
        interval: Its 95% interval, or `None` if there is no test for these evaluations.
        test: What the interval comes from.
        p_value: That of McNemar's exact test, for two evaluations of the same images.
        broken: The images that every seed of the reference and no seed of the model classifies correctly.
        rescued: The reverse.
    """

    row: str
    reference: str
    value: float
    interval: tuple[float, float] | None
    test: str
    p_value: float | None = None
    broken: tuple[int, ...] = ()
    rescued: tuple[int, ...] = ()

    @property
    def is_clear(self) -> bool:
        """Whether the interval excludes 0."""
        return self.interval is not None and not self.interval[0] <= 0 <= self.interval[1]

    @property
    def text(self) -> str:
        """The difference, its interval and the test."""
        parts = [self.test]
        if self.interval is not None:
            parts.insert(0, "95% interval {:+.2f} to {:+.2f}".format(*(100 * end for end in self.interval)))
        if self.p_value is not None:
            parts.append(f"p = {self.p_value:.2g}")
        return f"{100 * self.value:+.2f} points ({', '.join(parts)})"

    @property
    def changed(self) -> str:
        """How many images changed sides, and the positions of the first ones."""
        sides = ("newly broken", self.broken), ("newly robust", self.rescued)
        return ", ".join(f"{plural(len(one), 'image')} {side}{first_few(one)}" for side, one in sides)

    def __str__(self) -> str:
        return f"{self.row} minus {self.reference}: {self.text}; {self.changed}"


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Rows and columns, and warnings about comparing them; `print` it for a table.

    Example:

    >>> comparison = athe_tf.report.compare([athe_tf.report.read_evaluation(f) for f in ("runs/a", "runs/b")])
    >>> print(comparison)

    Attributes:
        columns: Clean, the attacks, the worst case.
        rows: The models.
        warnings: Why the rows cannot be compared; then no winner is named.
        notes: What a reader should know about the columns.
    """

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def best(self, column: str) -> float | None:
        """The highest accuracy of a column; `None` unless there are several comparable rows."""
        cells = [cell for cell in (row.cell(column) for row in self.rows) if cell is not None]
        return max(cell.mean for cell in cells) if len(cells) > 1 and not self.warnings else None

    @property
    def differences(self) -> list[Difference]:
        """How much more robust each model is than the first one; empty if they cannot be compared."""
        measured = [] if self.warnings else [row for row in self.rows if row.cell(WORST)]
        return [difference(measured[0], row) for row in measured[1:]]

    @property
    def verdict(self) -> str:
        """Which model is the most robust, and whether the difference is more than chance."""
        if self.warnings:
            return "These evaluations were not made in the same way, so no winner is named."
        found = [(cell, row) for row in self.rows if (cell := row.cell(WORST))]
        if not found:
            return "No attack was run within the threat model, so robustness is unknown."
        (highest, first), *others = sorted(found, key=lambda pair: -pair[0].mean)
        if not others:
            return f"{first.label}: {highest}% in the worst case."
        (next_highest, second), gap = others[0], difference(others[0][1], first)
        text = (
            f"{first.label} is the most robust, with {highest}% in the worst case, ahead of {second.label} "
            f"with {next_highest}%. The difference is {gap.text}."
        )
        within = overlap(highest, next_highest) if gap.interval is None else not gap.is_clear
        return text + (" The difference is within the uncertainty of these numbers." if within else "")

    @property
    def grid(self) -> list[list[str]]:
        """The head and the rows of the table, as texts."""
        head = ["accuracy in %", *(shortened(column, HEAD) for column in self.columns)]
        return [
            head,
            *([row.label, *(str(row.cell(c) or NOTHING) for c in self.columns)] for row in self.rows),
        ]

    def plot(self) -> Figure:
        """Clean and worst-case accuracy of every model."""
        drawn = []
        for series, column in ((charts.CLEAN, CLEAN), (charts.WORST, WORST)):
            found = [(row.label, row.cell(column)) for row in self.rows]
            bars = [Bar(label, cell.mean, cell.bounds, series) for label, cell in found if cell]
            drawn += [figure(bar_chart(bars, column), f"{column.capitalize()} accuracy.")] if bars else []
        return Figure(side_by_side(*drawn))

    def _repr_html_(self) -> str:
        head, *rows = self.grid
        texts = [*map(str, self.differences), *self.notes, *self.warnings]
        return fragment(table(["", *head[1:]], rows, caption=head[0]), tag("p", self.verdict), notes(texts))

    def __str__(self) -> str:
        tables: list[str] = []
        for block in in_blocks(self.grid):
            head, *body = aligned(block)
            tables += [head, "-" * len(head), *body, ""]
        texts = [f"{row.label}: {', '.join(row.origin)}" for row in self.rows]
        texts += map(str, self.differences)
        texts += [*([self.verdict] if len(self.rows) > 1 else []), *self.notes]
        texts += [f"Warning: {text}" for text in self.warnings]
        wrapped = ("\n  ".join(textwrap.wrap(one_line(text), LINE - 2)) for text in texts)
        return "\n".join([*tables, *wrapped])


def first_few(images: Sequence[int]) -> str:
    """The positions of the first images, in parentheses.

    Example:

    >>> first_few([3, 14]), first_few([])
    (' (3, 14)', '')
    """
    shown = [*map(str, images[:MOST_IMAGES]), *(["…"] if len(images) > MOST_IMAGES else [])]
    return f" ({', '.join(shown)})" if shown else ""


def shortened(text: str, length: int) -> str:
    """A text of at most so many characters.

    Example:

    >>> shortened("trades + he (scale 15, momentum 0.9)", 24)
    'trades + he (scale 15, …'
    """
    return text if len(text) <= length else text[: length - 1] + "…"


def aligned(rows: list[list[str]]) -> list[str]:
    """Lines with aligned columns: the first to the left, the others to the right.

    Example:

    >>> aligned([["a", "clean"], ["long", "9.5"]])
    ['a     clean', 'long    9.5']
    """
    rows = [[one_line(cell) for cell in row] for row in rows]
    first, *others = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join([row[0].ljust(first), *map(str.rjust, row[1:], others)]) for row in rows]


def in_blocks(grid: list[list[str]]) -> list[list[list[str]]]:
    """The same table in several blocks, each narrow enough for a terminal; all have the first column.

    Example:

    >>> in_blocks([["a", "b", "c"], ["1", "2" * 90, "3" * 90]]) == [[["a", "b"], ["1", "2" * 90]],
    ...                                                             [["a", "c"], ["1", "3" * 90]]]
    True
    """
    first, *columns = [list(column) for column in zip(*grid, strict=True)]
    blocks: list[list[list[str]]] = [[first]]
    for column in columns:
        if len(aligned([list(row) for row in zip(*blocks[-1], column, strict=True)])[0]) > LINE:
            blocks.append([first])
        blocks[-1].append(column)
    return [[list(row) for row in zip(*block, strict=True)] for block in blocks]


def compare(evaluations: Sequence[SavedEvaluation]) -> Comparison:
    """Groups evaluations whose runs differ only in the seed, and warns if rows cannot be compared.

    The worst case is that over the attacks that all evaluations have.

    Example:

    >>> evaluations = [athe_tf.report.read_evaluation(folder) for folder in ("runs/a", "runs/b")]
    >>> comparison = athe_tf.report.compare(evaluations)

    Args:
        evaluations: What `read_evaluation` returns for each.
    """
    check(len(evaluations) > 0, "There is nothing to compare. Expected an evaluation. Received: [].")
    common, left_out = common_attacks([one.result for one in evaluations])
    groups, warnings = group_seeds(evaluations, common)
    labels = name_rows([group[0] for group in groups])
    rows = tuple(Row(label, tuple(group), common) for label, group in zip(labels, groups, strict=True))
    named = [(row.label, one.result) for row in rows for one in row.evaluations]
    notes = [f"{one.folder}: {note}" for one in evaluations for note in one.notes]
    if left_out and common:
        notes.append(
            f"The worst case is that over the attacks that all models have: {', '.join(common)}. Left out: "
            f"{', '.join(map(str, left_out))}."
        )
    if len(groups) > 2:
        notes.append(f"Intervals and p-values are not corrected for comparing {len(groups)} models.")
    found = (*warnings, *comparability(named, common, left_out))
    return Comparison(columns(evaluations, common), rows, found, tuple(notes))


def common_attacks(results: Sequence[Result]) -> tuple[tuple[str, ...], dict[str, list[str]]]:
    """The labels of the attacks that count in every evaluation, run in the same way.

    Also those of the other attacks, with the settings that differ.

    A setting that only one of them has is of a later version of athe_tf, and has its default there.
    """
    found = [{one.label(attack): attack for attack in one.counted} for one in results]
    common, left_out = [], {}
    for label in dict.fromkeys(itertools.chain(*found)):
        several = [attacks[label] for attacks in found if label in attacks]
        settings = [attack.settings for attack in several]
        shared = in_all(settings)
        # A radius or a norm that differs is named once, as what the evaluations were measured by.
        changed = [key for key in differing(shared) if key not in ("epsilon", "norm")]
        if changed or len(several) < len(results) or len({one.image_count for one in several}) > 1:
            left_out[label] = changed
        else:
            common.append(label)
    return tuple(common), left_out


def robust_flags(result: Result, common: Sequence[str]) -> np.ndarray | None:
    """Whether each image survives the common attacks; `None` if the file does not say it."""
    attacks = [one for one in result.counted if result.label(one) in common]
    known = len(result.correct) and attacks and all(one.robust is not None for one in attacks)
    return result.survivors(attacks) if known else None


def entries(result: Result, common: Sequence[str] = ()) -> dict[str, tuple[float, Sequence[float] | None]]:
    """From the columns of the table to `(accuracy, interval)`."""
    found: dict[str, tuple[float, Sequence[float] | None]] = {
        CLEAN: (result.clean_accuracy, result.clean_interval)
    }
    found |= {result.label(attack): (attack.accuracy, attack.interval) for attack in result.ran}
    flags = robust_flags(result, common)
    everything = {result.label(one) for one in result.counted} <= set(common)
    if result.worst_case_accuracy is not None and (everything or flags is None):
        found[WORST] = (result.worst_case_accuracy, result.worst_case_interval)
    elif flags is not None:
        found[WORST] = (float(flags.mean()), interval_of(flags))
    if result.corruptions and "mca" in result.corruptions:
        found[CORRUPTIONS] = (result.corruptions["mca"], None)
    return found


def columns(evaluations: Sequence[SavedEvaluation], common: Sequence[str] = ()) -> tuple[str, ...]:
    """Clean, all attacks in order of appearance, the worst case, corruptions."""
    seen = dict.fromkeys(column for one in evaluations for column in entries(one.result, common))
    last = [column for column in (WORST, CORRUPTIONS) if column in seen]
    return (*(column for column in seen if column not in last), *last)


def difference(reference: Row, row: Row) -> Difference:
    """How much more robust a model is than the reference, in the worst case."""
    before, after = (_by_seed(each) for each in (reference, row))
    flags, single = (reference.robust, row.robust), len(before) == len(after) == 1
    value = statistics.fmean(after.values()) - statistics.fmean(before.values())
    found: dict = {
        "interval": None,
        "test": "not tested: needs several seeds of both, or one of each with flags per image",
    }
    if min(len(before), len(after)) > 1:
        paired = before.keys() == after.keys()
        test = (
            f"paired t over {len(after)} seeds"
            if paired
            else f"Welch's t, {len(before)} and {len(after)} seeds"
        )
        pairs = [before[seed] for seed in before], [after[seed] for seed in (before if paired else after)]
        found |= {"interval": seeds_interval(*pairs, paired=paired), "test": test}
    if all(flags) and len({len(each) for several in flags for each in several}) == 1:
        always_before, always_after = (np.all(each, axis=0) for each in flags)
        never_before, never_after = (~np.any(each, axis=0) for each in flags)
        lost, won = np.flatnonzero(always_before & never_after), np.flatnonzero(never_before & always_after)
        found |= {"broken": tuple(lost.tolist()), "rescued": tuple(won.tolist())}
        if single:
            counts = len(lost), len(won)
            found |= {"interval": paired_interval(*counts, len(always_after)), "p_value": mcnemar(*counts)}
            found["test"] = "McNemar's test on the same images"
    return Difference(row.label, reference.label, value, **found)


def _by_seed(row: Row) -> dict:
    """The worst case of every seed; of a single model, whose seed may be unknown, under any name."""
    cell = row.cell(WORST)
    assert cell is not None
    return dict(zip(row.seeds if len(cell.values) > 1 else [None], cell.values, strict=True))


def overlap(one: Cell, other: Cell) -> bool:
    """Whether the bounds of two cells overlap."""
    lows, highs = zip(one.bounds, other.bounds, strict=True)
    return max(lows) <= min(highs)


def group_seeds(
    evaluations: Sequence[SavedEvaluation], common: Sequence[str] = ()
) -> tuple[list[list[SavedEvaluation]], list[str]]:
    """Groups evaluations by everything but the seed; also returns warnings about repeated seeds."""
    groups: dict[str, list[SavedEvaluation]] = {}
    for position, one in enumerate(evaluations):
        groups.setdefault(_identity(one, common) or f"alone {position}", []).append(one)
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


def _identity(one: SavedEvaluation, common: Sequence[str]) -> str | None:
    """Everything that must agree between the seeds of one row; `None` if the run is unknown."""
    if one.config is None:
        return None
    measured = [getattr(one.result, key) for key in MEASURED_BY]
    # Attacks that all evaluations have were run in the same way, whatever their versions call a setting.
    attacks = [
        [one.result.label(each), {} if one.result.label(each) in common else each.settings]
        for each in one.result.attacks
    ]
    return json.dumps([settings_of(one), measured, attacks], sort_keys=True, default=str)


def settings_of(one: SavedEvaluation) -> dict:
    """The settings of a run but its seed; those that its version did not know have their defaults."""
    config = one.config or {}
    found = {**default_settings(config.get("framework", "")), **config}
    return {name: value for name, value in found.items() if name not in OF_ONE_RUN}


def name_rows(firsts: Sequence[SavedEvaluation]) -> list[str]:
    """A name per row: framework and head, with further settings or a number if those are not unique."""
    labels = []
    for one in firsts:
        label = _short_name(one)
        alike = [other for other in firsts if _short_name(other) == label]
        settings, varied = settings_of(one), varying_settings(alike)
        extra = ", ".join(f"{name} {value_text(settings.get(name))}" for name in varied if one.config)
        labels.append(shortened(f"{label} ({extra})" if extra else label, LABEL))
    return [
        f"{shortened(label, LABEL - 6)} [{1 + labels[:position].count(label)}]"
        if labels.count(label) > 1
        else label
        for position, label in enumerate(labels)
    ]


def _short_name(one: SavedEvaluation) -> str:
    if one.config is None:
        return one.result.model
    head = one.config["head"]
    return one.config["framework"] if head == "linear" else f"{one.config['framework']} + {head}"


def varying_settings(evaluations: Sequence[SavedEvaluation]) -> list[str]:
    """The settings that all runs have, other than the seed, and that differ between them."""
    return differing(in_all([settings_of(one) for one in evaluations if one.config]))


def in_all(several: Sequence[Mapping]) -> list[dict]:
    """The same settings without those that not all have.

    Example:

    >>> in_all([{"seed": 0, "steps": 10}, {"seed": 1, "scale": 15.0}])
    [{'seed': 0}, {'seed': 1}]
    """
    return [{key: one[key] for key in one if all(key in other for other in several)} for one in several]


def differing(several: Sequence[Mapping]) -> list[str]:
    """The names of the settings that are not the same everywhere.

    Example:

    >>> differing([{"seed": 0, "steps": 10}, {"seed": 0, "steps": 20, "scale": 15.0}])
    ['steps', 'scale']
    """
    names = dict.fromkeys(name for one in several for name in one)
    return [name for name in names if any(one.get(name) != several[0].get(name) for one in several)]


def comparability(
    named: Sequence[tuple[str, Result]], common: Sequence[str], left_out: Mapping[str, list[str]]
) -> list[str]:
    """Warnings about `(row, evaluation)` pairs that were not measured in the same way."""
    warnings = []
    for key, noun in MEASURED_BY.items():
        described = [(row, value_text(getattr(result, key))) for row, result in named]
        warnings += _if_different(described, f"different {noun}")
    if not warnings:
        warnings += _other_images([result for _, result in named])
    # The worst case over the common attacks needs the flags per image of models that were attacked by more.
    labels = [{result.label(one) for one in result.counted} for _, result in named]
    flags = [robust_flags(result, common) for _, result in named]
    if not common or any(f is None and one - {*common} for f, one in zip(flags, labels, strict=True)):
        counted = [(row, ", ".join(sorted(one))) for (row, _), one in zip(named, labels, strict=True)]
        warnings += _if_different(counted, "worst cases over different attacks")
        changed = {label: ", ".join(keys) for label, keys in left_out.items() if keys}
        warnings += [
            f"Not comparable, {label} was run with different settings: {keys}."
            for label, keys in changed.items()
        ]
    return warnings


def _if_different(described: Sequence[tuple[str, str]], what: str) -> list[str]:
    """A warning if the descriptions of rows differ."""
    found: dict[str, dict[str, None]] = {}
    for row, value in described:
        found.setdefault(value, {})[row] = None
    if len(found) < 2:
        return []
    parts = [f"{value or 'none'} ({', '.join(rows)})" for value, rows in found.items()]
    return [f"Not comparable, {what}: {'; '.join(parts)}."]


def _other_images(results: Sequence[Result]) -> list[str]:
    """The same number of images of the same data, but in another order or from another part."""
    labels = [one.labels for one in results if one.labels is not None]
    prints = {one.images_fingerprint for one in results if one.images_fingerprint is not None}
    if not all(np.array_equal(one, labels[0]) for one in labels):
        return ["Not comparable, different images: the labels of the evaluations differ."]
    return ["Not comparable, different images: their digests differ."] if len(prints) > 1 else []
