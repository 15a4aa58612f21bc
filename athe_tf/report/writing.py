"""Writes reports to disk."""

import json
import pathlib

from athe_tf.jobs.ownership import check_ours, signed
from athe_tf.report.comparison import Comparison, compare
from athe_tf.report.model_card import model_card
from athe_tf.report.pages import render, render_comparison
from athe_tf.report.reading import as_saved
from athe_tf.report.robustbench import keep_filled_in, model_info
from athe_tf.utils.errors import InputError, check, first_line
from athe_tf.utils.files import FULL, write_text

#: The files that `write` writes next to an `evaluation.json`.
WRITTEN = ("report.html", "model_card.md", "model_info.json")


def write(evaluation, folder=None) -> list[pathlib.Path]:
    """Writes `report.html`, `model_card.md` and `model_info.json` next to an `evaluation.json`.

    Example:

    >>> athe_tf.report.write("runs/demo/evaluation")
    [PosixPath('runs/demo/evaluation/report.html'), ...]

    Args:
        evaluation: The folder of an evaluation, or a training run with one evaluation inside it; or a
            `Result` of `athe_tf.evaluate`, or a `SavedEvaluation`.
        folder: Where to write. Defaults to the folder that the evaluation was read from.

    Returns:
        The paths of the files.
    """
    saved = as_saved(evaluation, folder=folder)
    place = saved.folder if folder is None else pathlib.Path(folder)
    check(place is not None, "This evaluation was not read from a folder. Name a `folder` to write to.")
    assert place is not None
    check_ours(*(place / name for name in WRITTEN))
    info, path = model_info(saved), place / WRITTEN[-1]
    if path.exists():
        info = keep_filled_in(info, json.loads(path.read_text(encoding="utf-8")))
    texts = signed(render(saved)), signed(model_card(saved)), json.dumps(info, indent=2, default=str) + "\n"
    return [_write(place / name, text) for name, text in zip(WRITTEN, texts, strict=True)]


def write_comparison(evaluations, output) -> Comparison:
    """Compares several evaluations on one page.

    Example:

    >>> print(athe_tf.report.write_comparison(["runs/a", "runs/b"], "comparison.html"))

    Args:
        evaluations: At least two, each as `write` takes it.
        output: The page to write.

    Returns:
        The comparison; `print` it for a table.
    """
    check_ours(output)
    comparison = compare([as_saved(evaluation) for evaluation in evaluations])
    _write(pathlib.Path(output), signed(render_comparison(comparison)))
    return comparison


def _write(path: pathlib.Path, text: str) -> pathlib.Path:
    try:
        # JSON can hold lone surrogates, which no encoding has.
        write_text(path, text, errors="backslashreplace")
    except OSError as error:
        if error.errno in FULL:  # a failure of the system, not of the user
            raise
        raise InputError(f"Cannot write '{path}': {first_line(error)}.") from error
    return path
