"""A comparison as LaTeX, CSV and Markdown, for a paper, a spreadsheet and a pull request."""

import csv
import io
import re
from collections.abc import Callable

from athe_tf.report.comparison import Comparison
from athe_tf.report.format import NOTHING
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
    head, *rows = ([latex(cell) for cell in line] for line in comparison.grid)
    for line, row in zip(rows, comparison.rows, strict=True):
        for position, column in enumerate(comparison.columns, start=1):
            cell = row.cell(column)
            if cell is not None and cell.mean == comparison.best(column):
                line[position] = rf"\textbf{{{line[position]}}}"
    caption = [comparison.verdict, *comparison.notes, *comparison.warnings]
    return "\n".join([
        r"% Needs \usepackage{booktabs, graphicx}. A table wider than the text is made smaller.",
        r"\begin{table}", r"\centering", rf"\caption{{{' '.join(map(latex, caption))}}}",
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{l{'r' * len(rows[0][1:])}}}",
        r"\toprule", " & ".join(head) + r" \\", r"\midrule",
        *(" & ".join(row) + r" \\" for row in rows), r"\bottomrule", r"\end{tabular}}", r"\end{table}", "% ",
    ])  # fmt: skip


def to_csv(comparison: Comparison) -> str:
    """One line per model and column, as shares of 1; differences of the worst case follow."""
    lines: list[list] = [["model", "measure", "mean", "deviation", "low", "high", "seeds"]]
    for row in comparison.rows:
        for column in comparison.columns:
            if found := row.cell(column):
                spread, bounds = found.deviation, found.interval or (None, None)
                lines.append([row.label, column, found.mean, spread, *bounds, len(found.values)])
    for one in comparison.differences:
        name = f"worst case minus that of {one.reference}"
        lines.append([one.row, name, one.value, None, *(one.interval or (None, None)), None])
    file = io.StringIO()
    ours = ["athe_tf", *[__version__] * (len(lines) - 1)]
    csv.writer(file, lineterminator="\n").writerows([*line, us] for line, us in zip(lines, ours, strict=True))
    return file.getvalue()


def to_markdown(comparison: Comparison) -> str:
    """A table for GitHub, with the verdict below it."""
    head, *rows = ([plain(cell) for cell in line] for line in comparison.grid)
    texts = [*map(str, comparison.differences), comparison.verdict, *comparison.notes, *comparison.warnings]
    return "\n\n".join([grid(head, rows), *map(plain, texts)]) + "\n"


#: The tables by the ending of their file.
TABLES: dict[str, Callable[[Comparison], str]] = {".tex": to_latex, ".csv": to_csv, ".md": to_markdown}
