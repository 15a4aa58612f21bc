"""Nothing in a text that comes from a file acts on the terminal."""

import pytest

from athe_tf.programs.command_line import Program, print_line
from athe_tf.programs.report import ReportConfig
from athe_tf.report.comparison import compare
from athe_tf.report.reading import SavedEvaluation
from athe_tf.results import Result
from athe_tf.utils.errors import InputError
from athe_tf.utils.streams import one_line, printable
from tests.report_case import small_evaluation

HOSTILE = [
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07red",
    "\x1b]8;;http://example.com\x1b\\red\x1b]8;;\x1b\\",
    "\x9b31mred",
    "\x1bcred",
    "\x00r\x08e\x7fd\r",
    "\u202ered\u202c",
    "red\x1b",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_escape_sequences_are_removed(text):
    assert printable(text) == "red"


def test_a_sequence_without_an_end_does_not_hide_the_rest():
    assert printable("red\x1b]0;and a remedy") == "red0;and a remedy"


def test_the_rest_stays():
    text = "M\u00fcller \u2013 8/255\n\tpgd-20 [31m]"
    assert printable(text) == text and one_line(text) == "M\u00fcller \u2013 8/255 pgd-20 [31m]"


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_of_it_is_printed(text, capsys, monkeypatch):
    def action(config, extra):
        print_line(text)
        raise InputError(f"No such attack: {text}.")

    monkeypatch.setattr("sys.argv", ["bin/report", "a"])
    with pytest.raises(SystemExit):
        Program("bin/report", "", "", ReportConfig, action).run()
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("red\n", "bin/report: No such attack: red.\n")


def test_a_name_cannot_add_a_row_to_a_table():
    data = small_evaluation(model="mine\nrobust net  99.99  99.99")
    data["attacks"][0]["name"] = "pgd\n-20\x1b[2J"
    table = str(compare([SavedEvaluation(Result.from_dict(data))]))
    assert "\x1b" not in table and "\nrobust net" not in table and "pgd -20" in table
