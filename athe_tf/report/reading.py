"""Reads what an evaluation wrote, and what the training run of the model left behind."""

import contextlib
import csv
import dataclasses
import math
import os
import pathlib
import zipfile
from typing import Any

import numpy as np

from athe_tf.evaluation.example_arrays import SHOWN
from athe_tf.report.analyses import SavedAnalysis, find_analyses, read_analyses
from athe_tf.report.json_files import check_finite, check_schema, check_version, read_json, schema
from athe_tf.utils.digests import file_digest
from athe_tf.utils.errors import InputError, check, first_line

EVALUATION = "evaluation.json"
CONFIG = "config.json"
EXAMPLES = "examples.npz"
#: The version of `evaluation.json` and of a run's `config.json` that this library writes.
FORMAT = 2
# What the arrays of `examples.npz` contain: kinds of NumPy, and the least and the largest value.
IMAGE_ARRAYS = ("clean", "adversarial")
EXAMPLE_VALUES = {
    "clean": ("f", 0, 1),
    "adversarial": ("f", 0, 1),
    "attack": ("U", None, None),
    "norm": ("f", 0, 1e6),
}
MOST_CLASSES = 10**9
MOST_BYTES = 2**30
# Numbers of `metrics.csv` that are larger are taken as infinite: no axis can show them.
LARGEST = 1e30
AGAIN = "Run the evaluation again."


@dataclasses.dataclass(frozen=True)
class SavedEvaluation:
    """Everything that a report is made of.

    Example:

    >>> evaluation = athe_tf.report.read_evaluation("runs/demo")
    >>> evaluation.data["worst_case_accuracy"]

    Attributes:
        data: The content of `evaluation.json`.
        examples: The arrays of `examples.npz`, or `None`.
        training: The rows of the run's `metrics.csv`, one per epoch; empty without a run.
        best_epoch: The epoch of the run's best model, or `None`.
        config: The settings of the run that determine its result, or `None` without a run.
        folder: Where the evaluation was read from, or `None`.
        notes: What a reader should know about the files.
        analyses: Analyses of the model, with their pictures.
    """

    data: dict
    examples: dict[str, np.ndarray] | None = None
    training: list[dict[str, float]] = dataclasses.field(default_factory=list)
    best_epoch: int | None = None
    config: dict[str, Any] | None = None
    folder: pathlib.Path | None = None
    notes: tuple[str, ...] = ()
    analyses: tuple[SavedAnalysis, ...] = ()


def as_saved(source, examples=None, folder=None) -> SavedEvaluation:
    """Everything that a report is made of, from whatever form an evaluation has.

    Args:
        source: A `Result` of `athe_tf.evaluate`, the dictionary of an `evaluation.json`, a folder, or a
            `SavedEvaluation`, which is returned as it is.
        examples: Arrays of adversarial examples. Defaults to those of the result.
        folder: The folder of the evaluation, if it has one.
    """
    if isinstance(source, SavedEvaluation):
        return source
    folder = None if folder is None else pathlib.Path(folder)
    if hasattr(source, "to_dict"):
        examples = source.pictures if examples is None else examples
        return _joined(source.to_dict(folder), examples, folder)
    if isinstance(source, dict):
        check_examples(examples or {}, "These arrays")
        check_finite(source, "This dictionary")
        return _joined(source, examples, folder, check_evaluation(source, "This dictionary"))
    return read_evaluation(source)


def read_evaluation(path) -> SavedEvaluation:
    """Reads the evaluation in a folder, which may be a training run with one evaluation inside it.

    Example:

    >>> evaluation = athe_tf.report.read_evaluation("runs/demo")

    Args:
        path: The folder.
    """
    folder = find_evaluation(path)
    data = read_json(folder / EVALUATION, AGAIN)
    notes = check_evaluation(data, f"'{folder / EVALUATION}'")
    return _joined(data, read_examples(folder), folder, notes)


def check_evaluation(data: Any, place: str) -> tuple[str, ...]:
    """Raises `InputError` unless data are an evaluation; returns what a reader should know about them."""
    version = check_version(data, place, FORMAT, f"Or else: {AGAIN}")
    try:
        # Format 1 is the same without a number.
        check_schema({**data, "format": FORMAT} if isinstance(data, dict) else data, "evaluation")
        check_lengths(data)
    except InputError as error:
        older = f" It has format {version}." if isinstance(data, dict) and version < FORMAT else ""
        raise InputError(f"{place} is not a valid evaluation: {error}.{older} {AGAIN}") from None
    if version == FORMAT:
        return ()
    return (
        f"This evaluation has format {version}, written by an older version of athe_tf that knew less. "
        f"{AGAIN[:-1]} to get format {FORMAT}.",
    )


def check_lengths(data: dict) -> None:
    """Raises `InputError` unless lists that belong together have one length; JSON Schema cannot say it."""
    for place, lengths in _parallel(data):
        message = f"at '{place}': expected lists of one length, received lists of {lengths} items"
        check(len(set(lengths)) == 1, message)


def _parallel(data: dict):
    """`(place, lengths)` of all lists that are read side by side."""
    if "per_class" in data:
        yield "per_class", [len(data["per_class"][key]) for key in ("clean", "worst_case", "count")]
    angles = data.get("angles", {})
    for place, part in (("angles", angles), ("angles.adversarial", angles.get("adversarial"))):
        if part:
            yield place, [len(angles["edges"]) - 1, len(part["true"]), len(part["nearest_wrong"])]
    if "corruptions" in data:
        part = data["corruptions"]
        yield "corruptions", [len(part["severities"]), *map(len, part["accuracy"].values())]
    if "transfer" in data:
        part = data["transfer"]
        yield "transfer.accuracy", [len(part["sources"]), len(part["accuracy"])]
        yield "transfer.accuracy", [len(part["targets"]), *map(len, part["accuracy"])]


def find_evaluation(path) -> pathlib.Path:
    """The folder of `evaluation.json`: the given one, or the only one inside it."""
    folder = pathlib.Path(path)
    if folder.name == EVALUATION and folder.is_file():
        return folder.parent
    check(folder.exists(), f"There is no folder '{folder}'. Expected a folder that contains {EVALUATION}.")
    check(folder.is_dir(), f"Expected a folder with {EVALUATION}. Received a file: '{folder}'.")
    if (folder / EVALUATION).is_file():
        return folder
    inside = sorted(file.parent for file in folder.glob(f"*/{EVALUATION}"))
    check(len(inside) > 0, f"There is no {EVALUATION} in '{folder}'. Save the result of an evaluation there.")
    found = ", ".join(map(str, inside))
    check(len(inside) == 1, f"There are several evaluations in '{folder}': {found}. Name one of them.")
    return inside[0]


def read_examples(folder: pathlib.Path) -> dict[str, np.ndarray] | None:
    """The adversarial examples of `examples.npz`, or `None` if there is no such file."""
    path = folder / EXAMPLES
    if not os.path.lexists(path):
        return None
    check(path.is_file(), f"'{path}' is not a file. Expected an archive of images. Remove it.")
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > MOST_BYTES:
            raise ValueError(f"it has {size:,} bytes of images, more than {MOST_BYTES:,}")
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: np.asarray(stored[name]) for name in stored.files}
    except Exception as error:  # zip, its compressions and the format of arrays have errors of their own
        raise InputError(f"'{path}' is not an archive of images: {first_line(error)}. Remove it.") from error
    check_examples(arrays, f"'{path}'")
    return arrays


def check_examples(arrays: dict[str, np.ndarray], place: str) -> None:
    """Raises `InputError` unless arrays are adversarial examples, or none."""
    if not arrays:
        return
    found = {name: np.asarray(arrays[name]) for name in SHOWN if name in arrays}
    shapes = {name: found[name].shape if name in found else "missing" for name in SHOWN}
    count, image = len(np.atleast_1d(found.get("clean", ()))), np.shape(found.get("clean", ()))
    expected = {name: image if name in IMAGE_ARRAYS else (count,) for name in SHOWN}
    check(
        shapes == expected and len(image) == 4 and all(image[1:]),
        f"{place} are not adversarial examples. Expected arrays of one length, with `clean` and "
        f"`adversarial` of one shape [N, H, W, C]. Received: {shapes}. Remove them.",
    )
    for name, array in found.items():
        kinds, least, most = EXAMPLE_VALUES.get(name, ("iu", 0, MOST_CLASSES))
        fits = array.dtype.kind in kinds
        fits = fits and (kinds == "U" or bool(((array >= least) & (array <= most)).all()))  # not for NaN
        expectation = "texts" if kinds == "U" else f"numbers from {least} to {most}"
        check(
            fits,
            f"{place} are not adversarial examples. Expected {expectation} in `{name}`. Received: "
            f"{array.dtype}, {_range(array)}. Remove them.",
        )


def _range(array: np.ndarray) -> str:
    if array.dtype.kind not in "fiu" or not array.size:
        return f"shape {array.shape}"
    return f"from {array.min():g} to {array.max():g}"


def with_analyses(evaluation: SavedEvaluation, folder) -> SavedEvaluation:
    """The evaluation with the analyses of a folder instead of those that were found with it.

    Example:

    >>> evaluation = with_analyses(athe_tf.report.read_evaluation("runs/demo"), "analysis")

    Args:
        evaluation: An evaluation.
        folder: A folder with files of analyses.
    """
    analyses, notes = read_analyses(pathlib.Path(folder))
    reason = f" {notes[0]}" if notes else ""
    check(len(analyses) > 0, f"There are no finished analyses with pictures in '{folder}'.{reason}")
    return dataclasses.replace(evaluation, analyses=tuple(analyses), notes=(*evaluation.notes, *notes))


def _joined(data: dict, examples, folder: pathlib.Path | None, notes=()) -> SavedEvaluation:
    """Joins an evaluation with what is beside it: its training run, and analyses."""
    evaluation = _with_run(data, examples, folder, notes)
    place = None if folder is None else find_analyses(folder)
    if place is None:
        return evaluation
    analyses, remarks = read_analyses(place)
    return dataclasses.replace(evaluation, analyses=tuple(analyses), notes=(*evaluation.notes, *remarks))


def _with_run(data: dict, examples, folder: pathlib.Path | None, notes=()) -> SavedEvaluation:
    """Joins an evaluation with what its training run left behind."""
    if "run" not in data:
        return SavedEvaluation(data, examples, folder=folder, notes=notes)
    run = pathlib.Path(folder or ".") / data["run"]
    problem = problem_with_run(data, run)
    if problem is not None:
        note = f"The training run '{data['run']}' is left out: {problem}."
        return SavedEvaluation(data, examples, folder=folder, notes=(*notes, note))
    return SavedEvaluation(
        data, examples, read_metrics(run), read_best_epoch(run), read_config(run), folder, notes
    )


def problem_with_run(data: dict, run: pathlib.Path) -> str | None:
    """Why the files of a training run must not be shown; `None` if the run is the one that was evaluated.

    An evaluation may come from somebody else. It names a folder relative to its own, and the digest of the
    `config.json` there: nobody can make a page show a file whose content they do not know.
    """
    if pathlib.PurePath(data["run"]).is_absolute():
        return "it is not named relative to the evaluation"
    if "run_digest" not in data:
        return "the evaluation has no digest to recognize it by"
    try:
        if not (run / CONFIG).is_file():
            return f"there is no {CONFIG} in this folder, seen from the evaluation"
        same = file_digest(run / CONFIG) == data["run_digest"]
    except (OSError, ValueError) as error:
        return f"it cannot be read ({error})"
    return None if same else f"its {CONFIG} is another one than at the time of the evaluation"


def read_config(run: pathlib.Path) -> dict[str, Any]:
    """The settings that determine the result of a run: the keys of the schema, and no others."""
    path, remedy = run / CONFIG, "Remove `run` from the evaluation, or train again."
    values = read_json(path, remedy)
    check_version(values, f"'{path}'", FORMAT, remedy)
    try:
        check_schema(values, "config")
    except InputError as error:
        raise InputError(f"'{path}' is not the config of a training run: {error}. {remedy}") from None
    known = [key for key in schema("config")["properties"] if key in values]
    settings = {key: values[key] for key in known if key not in ("format", "options")}
    return {**values.get("options", {}), **settings}


def read_best_epoch(run: pathlib.Path) -> int | None:
    """The epoch of the model that the run kept as its best; `None` if it kept none."""
    path = run / "best.json"
    best = read_json(path, "Train again.") if path.is_file() else None
    epoch = best.get("epoch") if isinstance(best, dict) else None
    return epoch if isinstance(epoch, int) and not isinstance(epoch, bool) and epoch >= 0 else None


def read_metrics(run: pathlib.Path) -> list[dict[str, float]]:
    """The rows of `metrics.csv`: cells that are not numbers are omitted, infinite ones are NaN.

    Training may diverge; a chart then has a gap.
    """
    path = run / "metrics.csv"
    if not path.is_file():
        return []
    try:
        with open(path, newline="", encoding="utf-8") as file:
            rows = [_numbers(row) for row in csv.DictReader(file)]
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"Cannot read '{path}': {error}. Remove it, or train again.") from error
    return [row for row in rows if math.isfinite(row.get("epoch", math.nan))]


def _numbers(row: dict) -> dict[str, float]:
    found = {}
    for name, text in row.items():
        with contextlib.suppress(TypeError, ValueError):
            number = float(text)
            found[name] = number if abs(number) < LARGEST else math.nan
    return found
