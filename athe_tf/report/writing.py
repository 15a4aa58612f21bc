"""Writes reports to disk."""

import json
import pathlib
import re

from athe_tf.drawing.files import NEEDS_MATPLOTLIB, charts_of, svg_text, write_pdf
from athe_tf.jobs.ownership import check_ours, signed
from athe_tf.report.comparison import Comparison, compare
from athe_tf.report.evidence import evidence_json, evidence_page
from athe_tf.report.machine_files import junit, sarif
from athe_tf.report.model_card import model_card
from athe_tf.report.pages import render, render_comparison
from athe_tf.report.reading import as_saved
from athe_tf.report.robustbench import keep_filled_in, model_info
from athe_tf.report.tables import TABLES
from athe_tf.utils.errors import InputError, check, first_line
from athe_tf.utils.files import FULL, replacing, write_text
from athe_tf.utils.registry import import_optional

#: The files that `write` writes next to an `evaluation.json`.
WRITTEN = ("report.html", "model_card.md", "model_info.json", "evidence.html", "robustness_evidence.json")
#: Endings of pages.
PAGES = (".html", ".htm")
#: And the outcome of requirements, if there are any.
OUTCOME = ("requirements.xml", "requirements.sarif")


def write(evaluation, folder=None) -> list[pathlib.Path]:
    """Writes the report, model card, evidence and `model_info.json` next to an `evaluation.json`.

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
    check_ours(*(place / name for name in (*WRITTEN, *OUTCOME)))
    info, path = model_info(saved), place / WRITTEN[2]
    if path.exists():
        info = keep_filled_in(info, json.loads(path.read_text(encoding="utf-8")))
    texts = (
        signed(render(saved)), signed(model_card(saved)), json.dumps(info, indent=2, default=str) + "\n",
        signed(evidence_page(saved)), evidence_json(saved),
    )  # fmt: skip
    written = dict(zip(WRITTEN, texts, strict=True))
    if saved.result.requirements:
        written |= dict(zip(OUTCOME, (signed(junit(saved)), sarif(saved)), strict=True))
    else:
        for name in OUTCOME:
            (place / name).unlink(missing_ok=True)  # of other requirements
    return [_write(place / name, text) for name, text in written.items()]


def write_comparison(evaluations, *outputs) -> Comparison:
    """Compares several evaluations, on a page and as tables.

    Example:

    >>> print(athe_tf.report.write_comparison(["runs/a", "runs/b"], "comparison.html", "table.tex"))

    Args:
        evaluations: At least two, each as `write` takes it.
        *outputs: Files to write: LaTeX (`.tex`), CSV (`.csv`), Markdown (`.md`) or a page (`.html`).

    Returns:
        The comparison; `print` it for a table.
    """
    for path in map(pathlib.Path, outputs):
        check(
            path.suffix in (*TABLES, *PAGES),
            f"A comparison is a page (.html) or a table ({', '.join(TABLES)}). Received: '{path}'.",
        )
    check_ours(*outputs)
    comparison = compare([as_saved(evaluation) for evaluation in evaluations])
    for path in map(pathlib.Path, outputs):
        text = TABLES.get(path.suffix, render_comparison)(comparison)
        _write(path, text if path.suffix == ".csv" else signed(text))
    return comparison


def write_figures(page: str, folder) -> list[pathlib.Path]:
    """Writes every chart of a page to a folder, as SVG and as PDF.

    Example:

    >>> page = athe_tf.report.render(athe_tf.report.read_evaluation("runs/demo"))
    >>> paths = athe_tf.report.write_figures(page, "figures")

    Args:
        page: What `render` returns, or the text of a page.
        folder: Where to write; created if necessary.

    Returns:
        The paths of the files.
    """
    place, written = pathlib.Path(folder), []
    import_optional("matplotlib", NEEDS_MATPLOTLIB)  # before the first file is written
    for number, chart in enumerate(charts_of(page), start=1):
        title = re.search('aria-label="([^":.]*)', chart)
        name = re.sub(r"\W+", "_", title[1].strip().lower())[:40] if title else "chart"
        path = place / f"{number:02}_{name}.svg"
        check_ours(path)
        _write(path, signed(svg_text(chart)))
        # A PDF cannot say whose it is: it belongs to the SVG beside it.
        with replacing(path.with_suffix(".pdf")) as temporary:
            write_pdf(chart, temporary)
        written += [path, path.with_suffix(".pdf")]
    return written


def _write(path: pathlib.Path, text: str) -> pathlib.Path:
    try:
        # JSON can hold lone surrogates, which no encoding has.
        write_text(path, text, errors="backslashreplace")
    except OSError as error:
        if error.errno in FULL:  # a failure of the system, not of the user
            raise
        raise InputError(f"Cannot write '{path}': {first_line(error)}.") from error
    return path
