"""What a notebook shows of a result and of a comparison."""

import numpy as np
import pytest

import athe_tf
from athe_tf.report.comparison import compare
from athe_tf.report.reading import read_evaluation
from athe_tf.results.charts import minimum_norms
from tests.page_parts import Page
from tests.report_case import CONFIG, example_images, full_evaluation, small_evaluation, write_evaluation


@pytest.fixture
def result(tmp_path):
    data = full_evaluation() | {"class_names": [f"kind{number}" for number in range(10)]}
    write_evaluation(tmp_path / "a", data, CONFIG, examples=example_images(8))
    return read_evaluation(tmp_path / "a").result


def test_a_result_is_a_table_with_its_verdict(result):
    page = Page(result._repr_html_())
    (rows,) = page.tables.values()
    assert rows[1] == ["clean", "95.20%", "93.3%", "97.1%", ""] and rows[-1][:2] == ["worst case", "62.40%"]
    assert ["feature", "not run"] in [row[:2] for row in rows] and result.verdict in page.text
    assert "Warning: Cross-entropy at scale 1" in page.text and not page.all("pre")


def test_the_plot_has_bars_and_the_curve(result):
    figure = result.plot()
    assert len(figure.charts) == 2 and "2 charts" in repr(figure)
    assert (
        'aria-label="Accuracy by attack' in figure.charts[0] and "Accuracy over epsilon" in figure.charts[1]
    )
    assert Page(figure._repr_html_()).all("svg")


def test_only_minimum_norm_attacks_have_a_curve_of_their_own(result):
    """Others stop at the radius: the length of what they found says nothing about smaller ones."""
    for attack in result.ran:
        attack.norms, attack.minimum_norm = np.full(result.examples, 0.1), attack is result.ran[0]
    assert [line.name for line in minimum_norms(result, 0.2)] == [result.ran[0].name]


def test_examples_have_names_of_classes(result):
    page = Page(result.show_examples(2)._repr_html_())
    assert len(page.all("img")) == 6 and "class kind0" in page.text and "clean: kind1" in page.text
    result.pictures = None
    with pytest.raises(athe_tf.InputError, match="no adversarial examples"):
        result.show_examples()


def test_a_figure_is_saved_by_its_ending(result, tmp_path):
    pytest.importorskip("matplotlib")
    for ending, start in ((".svg", b"<svg"), (".pdf", b"%PDF"), (".html", b"<div")):
        result.plot().save(tmp_path / f"a{ending}")
        assert (tmp_path / f"a{ending}").read_bytes().startswith(start)
    with pytest.raises(athe_tf.InputError, match="as .svg, .pdf or .html. Received: 'a.png'"):
        result.plot().save(tmp_path / "a.png")
    with pytest.raises(athe_tf.InputError, match="no chart"):
        result.show_examples().save(tmp_path / "b.svg")


def test_a_comparison_is_a_table_and_bars(tmp_path):
    for name, share in (("a", 0.5), ("b", 0.6)):
        write_evaluation(tmp_path / name, small_evaluation(share, model=name))
    found = compare([read_evaluation(tmp_path / name) for name in "ab"])
    page = Page(found._repr_html_())
    assert page.tables["accuracy in %"][1:] == [
        ["a", "90.00", "50.00", "50.00"],
        ["b", "90.00", "60.00", "60.00"],
    ]
    assert found.verdict in page.text and len(found.plot().charts) == 2
