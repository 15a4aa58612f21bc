"""Reads what an evaluation wrote, and what the training run of the model left behind."""

import contextlib
import csv
import dataclasses
import functools
import importlib.resources
import json
import math
import pathlib
from typing import Any

import numpy as np

from athe_tf.drawing.png import SIGNATURE
from athe_tf.results.file_format import AGAIN, FORMAT, evaluation_schema
from athe_tf.results.json_files import check_finite, check_schema, check_version, read_json
from athe_tf.results.pictures import check_examples
from athe_tf.results.result import Result, find_evaluation
from athe_tf.training.options import OPTIONS
from athe_tf.utils.digests import file_digest
from athe_tf.utils.errors import InputError, check

CONFIG = "config.json"
#: The version of a run's `config.json` that this library writes.
CONFIG_FORMAT = 2
#: Options of frameworks that format 1, which had them at the top level, called otherwise.
RENAMED = {"nfgsm_noise": "noise", "gradalign": "alignment", "llr_preset": "preset", "llr_variant": "variant"}
# Numbers of `metrics.csv` that are larger are taken as infinite: no axis can show them.
LARGEST = 1e30
#: The folder of analyses inside an evaluation, or beside it.
ANALYSES = "analysis"
# The largest size of all pictures of analyses together, so that a page stays small.
MAX_BYTES = 2**20
ANALYZE_AGAIN = "Run the analysis again."


@functools.cache
def schema(name: str) -> dict:
    """The JSON Schema (draft 2020-12) of `evaluation.json` or of a run's `config.json`.

    Example:

    >>> schema("evaluation")["properties"]["format"]["const"]
    3

    Args:
        name: `"evaluation"` or `"config"`.
    """
    if name == "evaluation":
        return evaluation_schema()
    files = importlib.resources.files("athe_tf.report")
    return json.loads(files.joinpath("schemas", f"{name}.schema.json").read_text(encoding="utf-8"))


@dataclasses.dataclass(frozen=True)
class SavedAnalysis:
    """An analysis: what it shows in a few words, what to see in its pictures, and these as PNG files."""

    name: str
    summary: str
    caption: str
    pictures: tuple[bytes, ...]


@dataclasses.dataclass(frozen=True)
class SavedEvaluation:
    """Everything that a report is made of.

    Example:

    >>> evaluation = athe_tf.report.read_evaluation("runs/demo")
    >>> evaluation.result.worst_case_accuracy

    Attributes:
        result: What `evaluation.json` and `examples.npz` say.
        training: The rows of the run's `metrics.csv`, one per epoch; empty without a run.
        best_epoch: The epoch of the run's best model, or `None`.
        config: The settings of the run that determine its result, or `None` without a run.
        folder: Where the evaluation was read from, or `None`.
        notes: What a reader should know about the files.
        analyses: Analyses of the model, with their pictures.
        baseline: The evaluation of another model, such as the one shipped so far, to compare with.
    """

    result: Result
    training: list[dict[str, float]] = dataclasses.field(default_factory=list)
    best_epoch: int | None = None
    config: dict[str, Any] | None = None
    folder: pathlib.Path | None = None
    notes: tuple[str, ...] = ()
    analyses: tuple[SavedAnalysis, ...] = ()
    baseline: "SavedEvaluation | None" = None

    @property
    def data(self) -> dict:
        """The content of `evaluation.json`."""
        return self.result.to_dict(self.folder)

    @property
    def examples(self) -> dict[str, np.ndarray] | None:
        """The arrays of `examples.npz`, or `None`."""
        return self.result.pictures


def as_saved(source, examples=None, folder=None) -> SavedEvaluation:
    """Everything that a report is made of, from whatever form an evaluation has.

    Args:
        source: A `Result` of `athe_tf.evaluate`, the dictionary of an `evaluation.json`, a folder, or a
            `SavedEvaluation`, which is returned unchanged.
        examples: Arrays of adversarial examples. Defaults to the result's.
        folder: The folder of the evaluation, if it has one.
    """
    if isinstance(source, SavedEvaluation):
        return source
    folder = None if folder is None else pathlib.Path(folder)
    if isinstance(source, Result):
        result = source.as_saved(folder)
    elif isinstance(source, dict):
        check_examples(examples or {}, "These arrays")
        check_finite(source, "This dictionary")
        result = Result.from_dict(source)
    else:
        return read_evaluation(source)
    result.pictures = result.pictures if examples is None else examples
    return _joined(result, folder)


def read_evaluation(path) -> SavedEvaluation:
    """Reads the evaluation in a folder, which may be a training run with one evaluation inside it.

    Example:

    >>> evaluation = athe_tf.report.read_evaluation("runs/demo")

    Args:
        path: The folder.
    """
    folder = find_evaluation(path)
    return _joined(Result.load(folder), folder)


def with_analyses(evaluation: SavedEvaluation, folder) -> SavedEvaluation:
    """The evaluation with the analyses of a folder instead of its own."""
    analyses, notes = read_analyses(pathlib.Path(folder))
    reason = f" {notes[0]}" if notes else ""
    check(len(analyses) > 0, f"There are no finished analyses with pictures in '{folder}'.{reason}")
    return dataclasses.replace(evaluation, analyses=tuple(analyses), notes=(*evaluation.notes, *notes))


def _joined(result: Result, folder: pathlib.Path | None) -> SavedEvaluation:
    """Joins an evaluation with what is beside it: its training run, and analyses."""
    notes = []
    if result.format < 2:
        notes.append(
            f"This evaluation has format {result.format}, written by an older version of athe_tf that knew "
            f"less. {AGAIN[:-1]} to get format {FORMAT}."
        )
    parts: dict[str, Any] = {}
    if result.run is not None:
        run = pathlib.Path(folder or ".") / result.run
        problem = problem_with_run(result, run)
        if problem is None:
            parts = {"training": read_metrics(run), "best_epoch": read_best_epoch(run)}
            parts["config"] = read_config(run)
        else:
            notes.append(f"The training run '{result.run}' is left out: {problem}.")
    # Resolved: the parent of a relative path such as `.` has no name.
    places = () if folder is None else (folder / ANALYSES, folder.resolve().parent / ANALYSES)
    place = next((place for place in places if any(place.glob("*.json"))), None)
    analyses, remarks = ([], []) if place is None else read_analyses(place)
    return SavedEvaluation(result, folder=folder, notes=(*notes, *remarks), analyses=tuple(analyses), **parts)


def problem_with_run(result: Result, run: pathlib.Path) -> str | None:
    """Why the files of a training run must not be shown; `None` if the run is the one that was evaluated.

    An evaluation may come from somebody else. It names a folder relative to its own, and the digest of the
    `config.json` there: nobody can make a page show a file whose content they do not know.
    """
    if pathlib.PurePath(result.run or "").is_absolute():
        return "it is not named relative to the evaluation"
    if result.run_digest is None:
        return "the evaluation has no digest to recognize it by"
    try:
        if not (run / CONFIG).is_file():
            return f"there is no {CONFIG} in this folder, seen from the evaluation"
        same = file_digest(run / CONFIG) == result.run_digest
    except (OSError, ValueError) as error:
        return f"it cannot be read ({error})"
    return None if same else f"its {CONFIG} is another one than at the time of the evaluation"


def read_config(run: pathlib.Path) -> dict[str, Any]:
    """The settings that determine the result of a run: the keys of the schema, and no others.

    Format 1 wrote the options of all frameworks; those of others than the run's own are left out.
    """
    path, remedy = run / CONFIG, "Remove `run` from the evaluation, or train again."
    values = read_json(path, remedy)
    check_version(values, f"'{path}'", CONFIG_FORMAT, remedy)
    try:
        check_schema(values, schema("config"))
    except InputError as error:
        raise InputError(f"'{path}' is not the config of a training run: {error}. {remedy}") from None
    known = [key for key in schema("config")["properties"] if key in values]
    settings = {RENAMED.get(key, key): values[key] for key in known if key not in ("format", "options")}
    foreign = {field.name for table in OPTIONS.values() for field in dataclasses.fields(table)}
    foreign -= default_settings(values["framework"]).keys()
    return {**values.get("options", {}), **{key: settings[key] for key in settings if key not in foreign}}


def default_settings(framework: str) -> dict[str, Any]:
    """The settings of a run that says nothing, such as one of an older version of athe_tf.

    Example:

    >>> defaults = default_settings("trades")
    >>> defaults["beta"], defaults["momentum"], "replays" in defaults
    (6.0, 0.9, False)
    """
    settings = schema("config")["properties"].items()
    own = dataclasses.fields(OPTIONS[framework]) if framework in OPTIONS else ()
    found = {name: rules["default"] for name, rules in settings if "default" in rules}
    return found | {field.name: field.default for field in own}


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


def read_analyses(folder: pathlib.Path) -> tuple[list[SavedAnalysis], list[str]]:
    """The finished analyses of a folder, and remarks about files that are left out."""
    found, notes, size = [], [], 0
    for path in sorted(folder.glob("*.json")):
        try:
            analysis = read_analysis(path)
            size += sum(map(len, analysis.pictures)) if analysis else 0
            check(size <= MAX_BYTES, f"The pictures up to '{path}' have more than {MAX_BYTES:,} bytes.")
        except InputError as error:
            notes.append(f"An analysis is left out: {error}")
            continue
        if analysis is not None:
            found.append(analysis)
    return found, notes


def read_analysis(path: pathlib.Path) -> SavedAnalysis | None:
    """An analysis from its JSON file; `None` if the file is another one, or has no pictures yet."""
    content = read_json(path, ANALYZE_AGAIN)
    if not isinstance(content, dict) or content.get("athe_tf") != "analysis":
        return None
    name, summary, caption, pictures = (
        content.get(key) for key in ("analysis", "summary", "caption", "pictures")
    )
    if not (isinstance(name, str) and isinstance(summary, str) and isinstance(caption, str)):
        raise InputError(f"'{path}' has no name, summary or caption. {ANALYZE_AGAIN}")
    if not isinstance(pictures, list):
        raise InputError(f"'{path}' has no list of pictures. {ANALYZE_AGAIN}")
    found = tuple(read_picture(path.parent, picture) for picture in pictures)
    return SavedAnalysis(name, summary, caption, found) if found else None


def read_picture(folder: pathlib.Path, name) -> bytes:
    """The content of a PNG file of a folder; no path that leads elsewhere is followed."""
    plain = isinstance(name, str) and pathlib.PurePath(name).name == name
    check(plain, f"'{folder}' names a picture outside of it: {str(name)[:60]!r}. {ANALYZE_AGAIN}")
    path = folder / name
    check(path.is_file() and not path.is_symlink(), f"There is no picture '{path}'. {ANALYZE_AGAIN}")
    check(path.stat().st_size <= MAX_BYTES, f"'{path}' has more than {MAX_BYTES:,} bytes. {ANALYZE_AGAIN}")
    content = path.read_bytes()
    check(content.startswith(SIGNATURE), f"'{path}' is not a PNG file. {ANALYZE_AGAIN}")
    return content
