"""Writes reports to disk."""

import json
import pathlib

from athe_tf.report.comparison import Comparison, compare
from athe_tf.report.comparison_page import render_comparison
from athe_tf.report.evaluation_page import render_evaluation
from athe_tf.report.model_card import model_card
from athe_tf.report.reading import read_evaluation
from athe_tf.report.robustbench import model_info
from athe_tf.utils.errors import InputError
from athe_tf.utils.files import write_text
from athe_tf.utils.ownership import check_ours, signed

#: What `write` writes beside an `evaluation.json`.
WRITTEN = ("report.html", "model_card.md", "model_info.json")


def write(folder) -> list[pathlib.Path]:
    """Writes `report.html`, `model_card.md` and `model_info.json` beside an `evaluation.json`.

    Example:

    >>> athe_tf.report.write("runs/demo/evaluation")
    [PosixPath('runs/demo/evaluation/report.html'), ...]

    Args:
        folder: A folder that `bin/evaluate` wrote, or a training run with one evaluation inside it.

    Returns:
        The paths of the files.
    """
    evaluation = read_evaluation(folder)
    assert evaluation.folder is not None  # it was read from one
    check_ours(*(evaluation.folder / name for name in WRITTEN))
    texts = (
        signed(render_evaluation(evaluation)),
        signed(model_card(evaluation)),
        json.dumps(model_info(evaluation), indent=2) + "\n",
    )
    return [_write(evaluation.folder / name, text) for name, text in zip(WRITTEN, texts, strict=True)]


def write_comparison(folders, output) -> Comparison:
    """Puts several evaluations side by side, on one page.

    Args:
        folders: As `write` takes them, at least two.
        output: The page to write.

    Returns:
        The comparison; `print` it for a table.
    """
    check_ours(output)
    comparison = compare([read_evaluation(folder) for folder in folders])
    _write(pathlib.Path(output), signed(render_comparison(comparison)))
    return comparison


def _write(path: pathlib.Path, text: str) -> pathlib.Path:
    try:
        # JSON can hold halves of characters, which no encoding has.
        write_text(path, text, errors="backslashreplace")
    except OSError as error:
        raise InputError(f"Cannot write '{path}': {error.strerror}.") from error
    return path
