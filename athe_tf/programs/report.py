"""`bin/report`: pages of one evaluation, or of several side by side."""

import pathlib

from athe_tf.programs.command_line import run, say
from athe_tf.programs.config import ReportConfig
from athe_tf.report.comparison import compare
from athe_tf.report.reading import read_evaluation
from athe_tf.report.writing import write, write_comparison

EXAMPLES = """
bin/report runs/demo
bin/report runs/a runs/b runs/c --output=runs/comparison.html
"""


def main() -> None:
    """The program."""
    run("bin/report", "shows evaluations as pages, and compares them.", EXAMPLES, ReportConfig, action)


def action(config: ReportConfig, flags) -> None:
    """Writes what the command line asks for, and prints the table."""
    if len(config.folders) == 1:
        paths = write(config.folders[0])
        say(compare([read_evaluation(config.folders[0])]))
    else:
        page = pathlib.Path(config.output or "comparison.html")
        comparison = write_comparison(config.folders, page)
        say(comparison)
        paths = [page]
    say()
    for path in paths:
        say(f"Written to {path}.")


if __name__ == "__main__":
    main()
