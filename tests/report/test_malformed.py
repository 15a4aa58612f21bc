"""Malformed files end with a message and exit code 2, and nothing is written; one of each kind.

`python -m benchmarks.malformed` has all of them.
"""

import pathlib

import pytest

from athe_tf.drawing.plot import number_axis
from athe_tf.programs import report
from athe_tf.report.pages import render
from athe_tf.report.reading import read_evaluation
from benchmarks.malformed.reports import NUMBERS, cases
from tests.page_parts import Page
from tests.report_case import CONFIG, small_evaluation, write_evaluation


def one_of_each_kind(folder):
    """All cases, but of those that differ only in the place of a number only the first place."""
    others = {".".join(map(str, path)) for path in NUMBERS[1:]}
    return [case for case in cases(folder) if case[0].split(" ")[1] not in others]


def files(folder):
    return sorted(pathlib.Path(folder).rglob("*"))


def test_malformed_files_end_with_a_message_and_nothing_is_written(tmp_path, monkeypatch, capsys):
    found = one_of_each_kind(tmp_path)
    before = files(tmp_path)
    assert len(found) > 60
    for name, command in found:
        monkeypatch.setattr("sys.argv", command)
        with pytest.raises(SystemExit) as ended:
            report.main()
        message = capsys.readouterr().err
        assert ended.value.code == 2, (name, message)
        # The message names the file, or the folder of a file that does not count as one.
        assert message.startswith("bin/report: ") and command[1] in message, (name, message)
    assert files(tmp_path) == before


METRICS = """epoch,loss,val_loss,val_robust_accuracy,note
1,2.5,inf,0.2,first
2,nan,-inf,0.3
3,1.5,1e200,text,,,too many
oops,1,1,1
inf,1,1,1
4,-0.5,2.0,0.4
"""


def test_a_run_that_diverged_is_drawn_with_gaps(tmp_path):
    write_evaluation(tmp_path / "run", small_evaluation(), CONFIG)
    (tmp_path / "run" / "metrics.csv").write_text(METRICS)
    evaluation = read_evaluation(tmp_path / "run")
    assert [row["epoch"] for row in evaluation.training] == [1, 2, 3, 4]
    lines = [
        part for part in Page(render(evaluation)).all("path") if part.get("class", "").startswith("line")
    ]
    drawn = [part["d"] for part in lines if part["d"] != "M0 6H28"]  # but the samples of the legend
    assert any(path.count("M") == 2 for path in drawn)  # the loss: epoch 1, a gap, epochs 3 and 4
    assert not [path for path in drawn if "nan" in path or "inf" in path]


@pytest.mark.parametrize("content", ["", "epoch,loss\n", "epoch\n1\n", "loss\n1\n", "epoch,loss\n1,inf\n"])
def test_a_table_without_curves_does_not_prevent_the_page(content, tmp_path):
    write_evaluation(tmp_path / "run", small_evaluation(), CONFIG)
    (tmp_path / "run" / "metrics.csv").write_text(content)
    assert "Settings of the training run" in Page(render(read_evaluation(tmp_path / "run"))).text


@pytest.mark.parametrize(
    "low, high", [(0.0, 0.0), (0.0, 5e-324), (1e30, 1e30), (-1e30, 1e30), (1e16, 1e16 + 2)]
)
def test_every_axis_has_a_few_ticks(low, high):
    axis = number_axis(low, high, "")
    assert axis.high > axis.low == low and 1 <= len(axis.ticks) <= 12
