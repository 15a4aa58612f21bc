"""Reads what `bin/evaluate` wrote, and what the training run of the model left behind."""

import csv
import dataclasses
import json
import pathlib
import zipfile
from typing import Any

import numpy as np

from athe_tf.programs.config import TrainConfig
from athe_tf.report.schema import check_evaluation
from athe_tf.utils.errors import InputError, check

EVALUATION = "evaluation.json"
EXAMPLES = "examples.npz"
# Settings of a run that do not change its result.
RUNTIME = {field.name for field in dataclasses.fields(TrainConfig) if field.metadata.get("runtime")}
DEFAULTS = {field.name: field.default for field in dataclasses.fields(TrainConfig)}


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """All that a report is made of.

    Attributes:
        data: What stands in `evaluation.json`.
        examples: The arrays of `examples.npz`, or `None`.
        training: The rows of the run's `metrics.csv`, one an epoch; empty without one.
        config: The settings of the run that matter for its result, or `None` without a run.
        folder: Where the evaluation was read from, or `None`.
    """

    data: dict
    examples: dict[str, np.ndarray] | None = None
    training: list[dict[str, float]] = dataclasses.field(default_factory=list)
    config: dict[str, Any] | None = None
    folder: pathlib.Path | None = None


def make_evaluation(data: dict, examples=None, folder: pathlib.Path | None = None) -> Evaluation:
    """Joins an evaluation with what its training run left behind."""
    try:
        check_evaluation(data)
    except InputError as error:
        place = f"'{folder / EVALUATION}'" if folder else "This dictionary"
        raise InputError(
            f"{place} is not an evaluation: {error}. Write it again with bin/evaluate."
        ) from None
    run = find_run(data, folder)
    return Evaluation(data, examples, read_metrics(run), read_config(run), folder)


def read_evaluation(path) -> Evaluation:
    """The evaluation in a folder, which may be a training run with one evaluation inside it."""
    folder = find_evaluation(path)
    file = folder / EVALUATION
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"Cannot read '{file}': {error.strerror}.") from error
    except ValueError as error:
        raise InputError(f"'{file}' is not JSON: {error}. Write it again with bin/evaluate.") from error
    return make_evaluation(data, read_examples(folder), folder)


def find_evaluation(path) -> pathlib.Path:
    """The folder of `evaluation.json`: the one given, or the only one inside it."""
    folder = pathlib.Path(path)
    if folder.name == EVALUATION and folder.is_file():
        return folder.parent
    check(folder.exists(), f"There is no folder '{folder}'. Give the --output of bin/evaluate.")
    check(folder.is_dir(), f"Expected a folder with {EVALUATION}. Received a file: '{folder}'.")
    if (folder / EVALUATION).is_file():
        return folder
    inside = sorted(file.parent for file in folder.glob(f"*/{EVALUATION}"))
    check(
        len(inside) > 0,
        f"There is no {EVALUATION} in '{folder}'. Write one with bin/evaluate --model=M --output={folder}.",
    )
    check(
        len(inside) == 1,
        f"There are several evaluations in '{folder}': {', '.join(map(str, inside))}. Name one of them.",
    )
    return inside[0]


def read_examples(folder: pathlib.Path) -> dict[str, np.ndarray] | None:
    """The images of `examples.npz`, or `None` where there is no such file."""
    path = folder / EXAMPLES
    if not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"'{path}' is not an archive of images: {error}. Remove it.") from error


def find_run(data: dict, folder: pathlib.Path | None) -> pathlib.Path | None:
    """The folder of the training run that an evaluation names, if it is still there.

    A run that was moved together with the evaluation inside it is found beside it.
    """
    if "run" not in data:
        return None
    candidates = [pathlib.Path(data["run"])]
    if folder is not None and folder.resolve().parent.name == candidates[0].name:
        candidates.insert(0, folder.resolve().parent)
    return next((path for path in candidates if (path / "config.json").is_file()), None)


def read_config(run: pathlib.Path | None) -> dict[str, Any] | None:
    """The settings that make a run what it is; those that its version did not know have their defaults."""
    if run is None:
        return None
    path = run / "config.json"
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        known = {**DEFAULTS, **values}
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"'{path}' is not the config of a run: {error}") from error
    return {key: _settled(value) for key, value in known.items() if key not in RUNTIME}


def _settled(value):
    """Lists of a JSON file and tuples of a default compare as the same."""
    return tuple(value) if isinstance(value, list) else value


def read_metrics(run: pathlib.Path | None) -> list[dict[str, float]]:
    """The rows of `metrics.csv`; cells that are not numbers are left out."""
    if run is None or not (run / "metrics.csv").is_file():
        return []
    try:
        with open(run / "metrics.csv", newline="", encoding="utf-8") as file:
            return [_numbers(row) for row in csv.DictReader(file)]
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"Cannot read '{run / 'metrics.csv'}': {error}.") from error


def _numbers(row: dict) -> dict[str, float]:
    found = {}
    for name, text in row.items():
        try:
            found[name] = float(text)
        except (TypeError, ValueError):
            continue
    return found
