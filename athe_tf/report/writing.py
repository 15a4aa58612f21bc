"""Writes reports to disk."""

import json
import pathlib

from athe_tf.errors import InputError
from athe_tf.files import replacing
from athe_tf.report.comparison import Comparison, compare
from athe_tf.report.comparison_page import render_comparison
from athe_tf.report.html import render_evaluation
from athe_tf.report.model_card import model_card
from athe_tf.report.reading import read_evaluation
from athe_tf.report.robustbench import model_info


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
    texts = {
        "report.html": render_evaluation(evaluation),
        "model_card.md": model_card(evaluation),
        "model_info.json": json.dumps(model_info(evaluation), indent=2) + "\n",
    }
    return [_write(evaluation.folder / name, text) for name, text in texts.items()]  # type: ignore[operator]


def write_comparison(folders, output) -> Comparison:
    """Puts several evaluations side by side, on one page.

    Args:
        folders: As `write` takes them, at least two.
        output: The page to write.

    Returns:
        The comparison; `print` it for a table.
    """
    comparison = compare([read_evaluation(folder) for folder in folders])
    _write(pathlib.Path(output), render_comparison(comparison))
    return comparison


def _write(path: pathlib.Path, text: str) -> pathlib.Path:
    try:
        with replacing(path) as temporary:
            # JSON can hold halves of characters, which no encoding has.
            temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise InputError(f"Cannot write '{path}': {error.strerror}.") from error
    return path
