"""A comparison as LaTeX, CSV and Markdown, for a paper, a spreadsheet and a pull request."""

import csv
import io
import re
from collections.abc import Callable

from athe_tf.report.comparison import Cell, Comparison
from athe_tf.report.format import NOTHING, points
from athe_tf.report.model_card import grid, plain
from athe_tf.version import __version__

# What LaTeX understands as a command, and how it is written as a letter.
_LATEX = {letter: rf"\{letter}" for letter in "&%$#_{}"} | {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "±": r"$\pm$", NOTHING: "--", "…": r"\ldots{}",
}  # fmt: skip


def latex(text: str) -> str:
    r"""A text as LaTeX prints it; letters that it does not know without a package become question marks.

    Example:

    >>> latex("pad_crop & 5%")
    'pad\\_crop \\& 5\\%'
    """
    written = (_LATEX.get(letter, letter) for letter in " ".join(text.split()))
    return re.sub(r"[^\x20-\x7e]", "?", "".join(written))


def to_latex(comparison: Comparison) -> str:
    """A `table` with the rules of booktabs; its caption is the verdict."""

    def cell(found: Cell | None, best: float | None) -> str:
        if found is None:
            return "--"
        value = rf"\mathbf{{{points(found.mean)}}}" if found.mean == best else points(found.mean)
        spread = "" if found.deviation is None else rf" \pm {points(found.deviation)}"
        return f"${value}{spread}$"

    columns = comparison.columns
    rows = [
        [latex(row.label), *(cell(row.cell(each), comparison.best(each)) for each in columns)]
        for row in comparison.rows
    ]
    remarks = [str(one) for one in comparison.differences] if len(comparison.rows) > 2 else []
    caption = [comparison.verdict, "Accuracy in percent.", *comparison.notes, *remarks, *comparison.warnings]
    return "\n".join([
        r"% Needs \usepackage{booktabs}.", r"\begin{table}", r"\centering",
        rf"\caption{{{' '.join(map(latex, caption))}}}", rf"\begin{{tabular}}{{l{'r' * len(columns)}}}",
        r"\toprule", " & ".join(["model", *map(latex, columns)]) + r" \\", r"\midrule",
        *(" & ".join(row) + r" \\" for row in rows), r"\bottomrule", r"\end{tabular}", r"\end{table}", "% ",
    ])  # fmt: skip


def to_csv(comparison: Comparison) -> str:
    """One line per model and column, as shares of 1; differences of the worst case follow."""
    file = io.StringIO()
    lines = csv.writer(file, lineterminator="\n")
    lines.writerow(["model", "measure", "mean", "deviation", "low", "high", "seeds", "athe_tf"])
    for row in comparison.rows:
        for column in comparison.columns:
            if found := row.cell(column):
                bounds = found.interval or ("", "")
                spread = "" if found.deviation is None else found.deviation
                lines.writerow(
                    [row.label, column, found.mean, spread, *bounds, len(found.values), __version__]
                )
    for one in comparison.differences:
        name = f"worst case minus that of {one.reference}"
        lines.writerow([one.row, name, one.value, "", *(one.interval or ("", "")), "", __version__])
    return file.getvalue()


def to_markdown(comparison: Comparison) -> str:
    """A table for GitHub, with the verdict below it."""
    head, *rows = ([plain(cell) for cell in line] for line in comparison.grid)
    texts = [*map(str, comparison.differences), comparison.verdict, *comparison.notes, *comparison.warnings]
    return "\n\n".join([grid(head, rows), *map(plain, texts)]) + "\n"


#: The tables by the ending of their file.
TABLES: dict[str, Callable[[Comparison], str]] = {".tex": to_latex, ".csv": to_csv, ".md": to_markdown}
