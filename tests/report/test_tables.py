"""A comparison as LaTeX, CSV and Markdown, and its charts as files."""

import csv
import io
import re
import xml.etree.ElementTree as ET

import pytest

import athe_tf
from athe_tf.drawing.files import charts_of, standalone
from athe_tf.report.comparison import compare
from athe_tf.report.pages import render
from athe_tf.report.tables import latex, to_csv, to_latex, to_markdown
from athe_tf.report.writing import write_comparison, write_figures
from tests.report.test_comparison import PGD, TRADES, evaluations, seeds
from tests.report_case import full_evaluation, small_evaluation


@pytest.fixture
def comparison(tmp_path):
    runs = [*seeds("a", TRADES, [0.6, 0.62]), ("b", small_evaluation(0.5), {**PGD, "framework": "fast_at"})]
    return compare(evaluations(tmp_path, *runs))


def test_the_latex_table_has_a_cell_per_column_and_the_verdict(comparison):
    text = to_latex(comparison)
    assert text.count(r"\begin{") == text.count(r"\end{") == 2
    assert r"\begin{tabular}{lrrr}" in text and text.count(r"\toprule") == text.count(r"\bottomrule") == 1
    head, *rows = [line.removesuffix(r" \\").split(" & ") for line in text.splitlines() if " & " in line]
    assert head == [r"accuracy in \%", "clean", "pgd-20", "worst case"]
    assert rows[0] == ["trades + he", r"\textbf{90.00 $\pm$ 0.00}", *[r"\textbf{61.00 $\pm$ 1.41}"] * 2]
    assert rows[1] == [r"fast\_at", r"\textbf{90.00}", "50.00", "50.00"]
    assert r"\caption{trades + he is the most robust, with 61.00 $\pm$ 1.41\% in the worst case" in text


def test_what_latex_would_take_as_a_command_is_a_letter():
    assert latex("50% of_x & {y} #1 $2 a\\b ~ ^ \N{EN DASH} ü") == (
        r"50\% of\_x \& \{y\} \#1 \$2 a\textbackslash{}b \textasciitilde{} \textasciicircum{} -- ?"
    )


def test_csv_has_one_line_per_number(comparison):
    lines = list(csv.DictReader(io.StringIO(to_csv(comparison))))
    worst = {line["model"]: line for line in lines if line["measure"] == "worst case"}
    assert float(worst["trades + he"]["mean"]) == pytest.approx(0.61)
    assert worst["trades + he"]["seeds"] == "2" and worst["fast_at"]["low"] == "0.43"
    assert lines[-1]["measure"] == "worst case minus that of trades + he"


def test_markdown_has_the_table_and_the_verdict(comparison):
    lines = to_markdown(comparison).splitlines()
    assert lines[2] == "| trades + he | 90.00 ± 0.00 | 61.00 ± 1.41 | 61.00 ± 1.41 |"
    assert len({line.count("|") for line in lines[:4]}) == 1 and comparison.verdict.split(",")[0] in lines[-1]


def test_tables_are_written_by_their_endings_and_replace_only_their_own(tmp_path):
    folders = [one.folder for one in evaluations(tmp_path, *seeds("a", TRADES, [0.6, 0.62]))]
    paths = [tmp_path / f"table{ending}" for ending in (".tex", ".csv", ".md", ".html")]
    for _ in range(2):
        write_comparison(folders, *paths)
    assert [path.read_text()[:9] for path in paths] == ["% Needs \\", "model,mea", "| accurac", "<!doctype"]
    for path in paths:
        path.write_text("mine")
        with pytest.raises(athe_tf.InputError, match="athe_tf did not write it"):
            write_comparison(folders, path)


def test_a_table_of_an_unknown_kind_is_refused(tmp_path):
    with pytest.raises(athe_tf.InputError, match="a page .* or a table .*Received: 'table.xlsx'"):
        write_comparison([tmp_path / "a", tmp_path / "b"], "table.xlsx")


def test_every_chart_of_a_page_becomes_an_svg_and_a_pdf(tmp_path):
    pytest.importorskip("matplotlib")
    page = render(full_evaluation())
    written = write_figures(page, tmp_path)
    assert len(written) == 2 * page.count('class="chart"') > 10
    for path in written:
        content = path.read_bytes()
        assert content.startswith(b"<svg" if path.suffix == ".svg" else b"%PDF")
    assert {path.name for path in written} >= {"01_accuracy_by_attack.svg", "01_accuracy_by_attack.pdf"}
    write_figures(page, tmp_path)  # again, over its own
    written[0].write_text("mine")
    with pytest.raises(athe_tf.InputError, match="athe_tf did not write it"):
        write_figures(page, tmp_path)


def test_a_chart_in_a_file_needs_no_style_sheet():
    """Every shape has the color that the page's style sheet gives it on white."""
    for chart in charts_of(render(full_evaluation())):
        root = standalone(chart)
        drawn = [
            one
            for one in root.iter()
            if one.tag.rpartition("}")[2] in ("path", "rect", "circle", "line", "text")
        ]
        assert drawn and not any("class" in one.attrib for one in root.iter())
        assert all(re.match("#|none", one.get("fill") or one.get("stroke") or "") for one in drawn)
    bars = standalone(charts_of(render(full_evaluation()))[0])
    assert {one.get("fill") for one in bars.iter() if one.get("height") == "16"} >= {"#0072b2", "#c4500a"}
    assert ET.tostring(bars).count(b"var(") == 0
