"""Reads what an evaluation wrote, and what the training run of the model left behind."""

import contextlib
import csv
import dataclasses
import math
import pathlib
import zipfile
from typing import Any

import numpy as np

from athe_tf.report.json_files import check_schema, check_version, read_json, schema
from athe_tf.utils.errors import InputError, check

EVALUATION = "evaluation.json"
EXAMPLES = "examples.npz"
EXAMPLE_ARRAYS = (
    "clean", "adversarial", "label", "clean_prediction", "adversarial_prediction", "attack", "norm"
)  # fmt: skip
#: The version of `evaluation.json` and of a run's `config.json` that this library writes.
FORMAT = 2
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
    """

    data: dict
    examples: dict[str, np.ndarray] | None = None
    training: list[dict[str, float]] = dataclasses.field(default_factory=list)
    best_epoch: int | None = None
    config: dict[str, Any] | None = None
    folder: pathlib.Path | None = None
    notes: tuple[str, ...] = ()


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
        return _with_run(source.to_dict(), examples, folder)
    if isinstance(source, dict):
        check_examples(examples or {}, "These arrays")
        return _with_run(source, examples, folder, check_evaluation(source, "This dictionary"))
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
    return _with_run(data, read_examples(folder), folder, notes)


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
    if not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"'{path}' is not an archive of images: {error}. Remove it.") from error
    check_examples(arrays, f"'{path}'")
    return arrays


def check_examples(arrays: dict[str, np.ndarray], place: str) -> None:
    """Raises `InputError` unless arrays are adversarial examples, or none."""
    shapes = {name: np.shape(arrays.get(name, 0)) for name in EXAMPLE_ARRAYS}
    clean = shapes["clean"]
    fits = len(clean) == 4 and all(clean[1:]) and shapes["adversarial"] == clean
    fits = fits and all(shape[:1] == clean[:1] for shape in shapes.values())
    numbers = ("clean", "adversarial", "norm")
    check(
        not arrays or (fits and all(np.asarray(arrays[name]).dtype.kind in "fiu" for name in numbers)),
        f"{place} are not adversarial examples. Expected arrays of one length, with numbers `clean` and "
        f"`adversarial` of one shape [N, H, W, C]. Received: {shapes}. Remove them.",
    )


def _with_run(data: dict, examples, folder: pathlib.Path | None, notes=()) -> SavedEvaluation:
    """Joins an evaluation with what its training run left behind."""
    run = find_run(data, folder)
    if run is None:
        return SavedEvaluation(data, examples, folder=folder, notes=notes)
    return SavedEvaluation(
        data, examples, read_metrics(run), read_best_epoch(run), read_config(run), folder, notes
    )


def find_run(data: dict, folder: pathlib.Path | None) -> pathlib.Path | None:
    """The folder of the training run that an evaluation names, if it still exists.

    A run that was moved together with the evaluation inside it is found next to it.
    """
    if "run" not in data:
        return None
    candidates = [pathlib.Path(data["run"])]
    if folder is not None and folder.resolve().parent.name == candidates[0].name:
        candidates.insert(0, folder.resolve().parent)
    return next((path for path in candidates if (path / "config.json").is_file()), None)


def read_config(run: pathlib.Path) -> dict[str, Any]:
    """The settings that determine the result of a run: the keys of the schema, and no others."""
    path, remedy = run / "config.json", "Remove `run` from the evaluation, or train again."
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
    return epoch if isinstance(epoch, int) else None


def read_metrics(run: pathlib.Path) -> list[dict[str, float]]:
    """The rows of `metrics.csv`; cells that are not numbers are omitted."""
    path = run / "metrics.csv"
    if not path.is_file():
        return []
    try:
        with open(path, newline="", encoding="utf-8") as file:
            return [_numbers(row) for row in csv.DictReader(file)]
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"Cannot read '{path}': {error}.") from error


def _numbers(row: dict) -> dict[str, float]:
    found = {}
    for name, text in row.items():
        with contextlib.suppress(TypeError, ValueError):
            found[name] = float(text)
    return {name: value for name, value in found.items() if not math.isinf(value)}
