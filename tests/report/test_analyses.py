"""The analyses of a report: where they are found, and what is left out."""

import os
import sys

import pytest

import athe_tf
from athe_tf.programs import report as program
from athe_tf.report.reading import read_evaluation
from tests.page_parts import Page
from tests.report_case import small_evaluation, write_analysis, write_evaluation


@pytest.fixture
def evaluation(tmp_path):
    return write_evaluation(tmp_path / "run", small_evaluation())


def page_of(folder):
    return Page(athe_tf.report.render(read_evaluation(folder)))


@pytest.mark.parametrize("place", ["analysis", "../analysis"])
def test_analyses_inside_and_beside_an_evaluation_are_shown(evaluation, place):
    assert "analyses" not in page_of(evaluation).sections()
    write_analysis(evaluation / place)
    page = page_of(evaluation)
    assert "analyses" in page.sections()
    assert "linearity : distance of the loss from its tangent" in page.text
    (picture,) = page.all("img")
    assert picture["src"].startswith("data:image/png;base64,iVBOR")
    assert picture["alt"] == "Lower is more linear. 4 images."


def test_an_unfinished_analysis_and_other_files_are_not_shown(evaluation):
    write_analysis(evaluation / "analysis", pictures=[])
    (evaluation / "analysis" / "other.json").write_text("[1]")
    saved = read_evaluation(evaluation)
    assert saved.analyses == () and saved.notes == ()


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"pictures": ["../secret.png"]}, "names a picture outside of it"),
        ({"pictures": ["linked.png"]}, "There is no picture"),
        ({"pictures": ["text.png"]}, "is not a PNG file"),
        ({"pictures": ["large.png"]}, "has more than 1,048,576 bytes"),
        ({"pictures": "linearity.png"}, "has no list of pictures"),
        ({"caption": 3}, "has no name, summary or caption"),
    ],
)
def test_an_analysis_that_cannot_be_shown_is_left_out_with_the_reason(evaluation, changes, reason):
    folder = evaluation / "analysis"
    write_analysis(folder, **changes)
    write_analysis(folder, "hessian")
    (evaluation / "secret.png").write_bytes((folder / "linearity.png").read_bytes())
    os.symlink(evaluation / "secret.png", folder / "linked.png")
    (folder / "text.png").write_text("no picture")
    (folder / "large.png").write_bytes((folder / "linearity.png").read_bytes() + bytes(2**20))
    saved = read_evaluation(evaluation)
    assert [analysis.name for analysis in saved.analyses] == ["hessian"]
    (note,) = saved.notes
    assert reason in note


def test_the_pictures_of_a_page_are_limited_in_total(evaluation):
    for name in ("a", "b", "c"):
        write_analysis(evaluation / "analysis", name)
        picture = evaluation / "analysis" / f"{name}.png"
        picture.write_bytes(picture.read_bytes() + bytes(400_000))
    saved = read_evaluation(evaluation)
    assert [analysis.name for analysis in saved.analyses] == ["a", "b"]
    assert "c.json' have more than" in saved.notes[0]


def run_program(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["bin/report", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        program.main()
    return stopped.value.code


def test_a_folder_of_analyses_can_be_named(evaluation, tmp_path, monkeypatch, capsys):
    write_analysis(tmp_path / "elsewhere", "hessian")
    assert run_program(monkeypatch, evaluation, f"--analysis={tmp_path / 'elsewhere'}") == 0
    assert "hessian" in Page((evaluation / "report.html").read_text()).text
    assert run_program(monkeypatch, evaluation, f"--analysis={tmp_path / 'none'}") == 2
    assert "There are no finished analyses" in capsys.readouterr().err
