"""`bin/report`: pages of one evaluation, or of several side by side."""

import pathlib

from athe_tf.jobs.locks import lock_name, locked
from athe_tf.programs.command_line import Program, say
from athe_tf.programs.config import ReportConfig
from athe_tf.programs.output_folder import held
from athe_tf.report.comparison import compare
from athe_tf.report.reading import read_evaluation, with_analyses
from athe_tf.report.writing import write, write_comparison

EXAMPLES = """
bin/report runs/demo
bin/report --merge OUT
bin/report runs/demo --analysis=pictures
bin/report runs/a runs/b runs/c --output=runs/comparison.html
"""


def main() -> None:
    """The program."""
    summary = "shows evaluations as pages, and compares them."
    Program("bin/report", summary, EXAMPLES, ReportConfig, action).run()


def action(config: ReportConfig, extra: dict) -> int:
    """Writes the pages, and prints the table; merges the shards of an evaluation before, if asked to."""
    if config.merge:
        from athe_tf.programs.evaluate import merge_shards  # everything else here needs no attacks

        return merge_shards(config.folders[0])
    evaluations = [read_evaluation(folder) for folder in config.folders]
    if config.analysis is not None:
        evaluations = [with_analyses(evaluations[0], config.analysis)]
    if len(evaluations) == 1:
        with held(evaluations[0].folder):
            paths = write(evaluations[0])
        say(compare(evaluations))
    else:
        paths = [pathlib.Path(config.output or "comparison.html")]
        with locked(paths[0].parent, lock_name(paths[0].name)):
            comparison = write_comparison(evaluations, paths[0])
        say(comparison)
    say()
    for path in paths:
        say(f"Written to {path}.")
    return 0


if __name__ == "__main__":
    main()
