"""`bin/report`: pages of one evaluation, or of several side by side."""

import dataclasses
import pathlib

from athe_tf.jobs.locks import lock_name, locked, locked_folder
from athe_tf.jobs.ownership import STATE
from athe_tf.programs.command_line import NOT_MET, Program, print_line
from athe_tf.report.comparison import compare
from athe_tf.report.gate import GateOptions, is_met, judge
from athe_tf.report.pages import render, render_comparison
from athe_tf.report.reading import read_evaluation, with_analyses
from athe_tf.report.writing import write, write_comparison, write_figures
from athe_tf.results.file_format import Requirement
from athe_tf.results.text_table import requirement_line
from athe_tf.utils.errors import check
from athe_tf.utils.options import listed, option

EXAMPLES = """
bin/report runs/demo
bin/report runs/demo --require="worst_case>=0.45" --require=checks --baseline=OLD --max_drop=0.02
bin/report --merge OUT
bin/report runs/demo --analysis=pictures
bin/report runs/a runs/b runs/c --output=comparison.html,table.tex --figures=figures
"""


@listed
@dataclasses.dataclass(frozen=True)
class ReportConfig(GateOptions):
    """A report of one evaluation, or of several side by side."""

    folders: tuple[str, ...] = option(
        (), "Folders of bin/evaluate, or training runs with one evaluation inside.", positional=True
    )
    output: tuple[str, ...] = option(
        (),
        "When several are compared: files to write, separated by commas: the table for LaTeX (.tex, with "
        "booktabs and graphicx), as CSV (.csv) or Markdown (.md), or a page (.html). [comparison.html]",
    )
    figures: str | None = option(None, "Folder for every chart of the page as SVG and PDF. Needs matplotlib.")
    merge: bool = option(
        False,
        "Make one evaluation of all shards in a folder, the --output of bin/evaluate --shard. Opens the "
        "model and the images, and runs the sanity checks.",
    )
    analysis: str | None = option(
        None,
        "Folder of bin/analyze whose pictures the report shows. [analysis, in the evaluation or beside it]",
    )

    def __post_init__(self):
        self.check_gate()
        check(
            len(self.folders) > 0,
            "Specify which evaluations to report on, as bin/report runs/a/evaluation runs/b.",
        )
        twice = {folder for folder in self.folders if self.folders.count(folder) > 1}
        check(not twice, f"Name each evaluation once. Received twice: {', '.join(sorted(twice))}.")
        check(
            not self.merge or len(self.folders) == 1,
            "--merge takes one folder, which contains all shards of an evaluation. Received: "
            f"{' '.join(self.folders)}. Copy the shards into one folder.",
        )
        check(
            not self.output or len(self.folders) > 1,
            "--output is for comparisons; a single report is written next to its evaluation. "
            f"Received: --output={','.join(self.output)} and one folder.",
        )
        check(
            len(self.folders) == 1 or not (self.require or self.baseline),
            "--require and --baseline judge one evaluation. Received: "
            f"{len(self.folders)} folders. Give one, or leave them out to compare all.",
        )
        check(
            self.analysis is None or len(self.folders) == 1,
            "--analysis is for the report of one evaluation; comparisons do not show pictures of analyses. "
            f"Received: --analysis={self.analysis} and {len(self.folders)} folders.",
        )


def action(config: ReportConfig, extra: dict) -> int:
    """Writes the pages, and prints the table; merges the shards of an evaluation before, if asked to."""
    if config.merge:
        from athe_tf.programs.evaluate import merge_shards  # everything else here needs no attacks

        return merge_shards(config.folders[0], config)
    evaluations = [read_evaluation(folder) for folder in config.folders]
    if config.analysis is not None:
        evaluations = [with_analyses(evaluations[0], config.analysis)]
    required: list[Requirement] = []
    if len(evaluations) == 1:
        baseline = None if config.baseline is None else read_evaluation(config.baseline)
        (saved,) = evaluations = [dataclasses.replace(evaluations[0], baseline=baseline)]
        before = [one["requirement"] for one in saved.result.requirements]
        required = judge(saved, config, baseline)
        for one in required:
            if one["requirement"] not in before:
                one["detail"] = f"{one.get('detail', '')}; declared after the evaluation".lstrip("; ")
        saved.result.requirements = required or saved.result.requirements
        with locked_folder(str(evaluations[0].folder), STATE):
            paths = write(evaluations[0])
        comparison = compare(evaluations)
    else:
        paths = [pathlib.Path(path) for path in config.output or ["comparison.html"]]
        with locked(paths[0].parent, lock_name(paths[0].name)):
            comparison = write_comparison(evaluations, *paths)
    print_line(comparison)
    if config.figures is not None:
        page = render(evaluations[0]) if len(evaluations) == 1 else render_comparison(comparison)
        paths += write_figures(page, config.figures)
    print_line()
    for path in paths:
        print_line(f"Written to {path}.")
    for one in required:
        print_line(requirement_line(one))
    return 0 if is_met(required) else NOT_MET


SUMMARY = "shows evaluations as pages, and compares them."
PROGRAM = Program("bin/report", SUMMARY, EXAMPLES, ReportConfig, action)
main = PROGRAM.run

if __name__ == "__main__":
    main()
