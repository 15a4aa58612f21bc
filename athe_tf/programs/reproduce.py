"""`bin/reproduce`: trains and evaluates what a table of a paper needs, and prints the table."""

import csv
import dataclasses
import pathlib
import shlex
import statistics
from typing import Any

from athe_tf.jobs.journal import differences
from athe_tf.programs import evaluate, train
from athe_tf.programs.command_line import Flag, Program, print_line
from athe_tf.programs.config import EvaluateConfig
from athe_tf.programs.evaluation_job import repeat_command
from athe_tf.programs.interruption import INTERRUPTION
from athe_tf.programs.reproduce_plan import (
    PlannedRow,
    PlannedRun,
    ReproduceConfig,
    TablePlan,
    make_plan,
    papers,
)
from athe_tf.programs.workdir import Workdir
from athe_tf.report.comparison import aligned
from athe_tf.report.format import NOTHING, plural
from athe_tf.results.file_format import Transfer
from athe_tf.results.intervals import mean_interval
from athe_tf.results.result import EVALUATION, Result
from athe_tf.utils.errors import InputError, check

EXAMPLES = """
bin/reproduce --table=3 --preset=mini --plan
bin/reproduce --table=2 --preset=small --data_dir=/data/tfds
bin/reproduce --table=pas --preset=paper --seeds=0,1,2
"""
MEASURE = "Add --plan to a command of bin/train to measure its time and memory on this machine."
PLAN = Flag("plan", "Print the commands and what is done already; then stop.")
#: Measures of a run that are no accuracies.
TIMES = ("minutes", "minutes_per_epoch")


def action(config: ReproduceConfig, extra: dict) -> int:
    """Fills the table, or describes what that would take; returns the exit code."""
    plan = make_plan(config)
    if extra["plan"]:
        print_line(describe(plan))
        return 0
    return fill(plan)


def describe(plan: TablePlan) -> str:
    """What would be run, and in which state it is."""
    seeds = plan.seeds_text.capitalize()
    images = (
        "all test images" if plan.max_examples is None else f"the first {plan.max_examples:,} test images"
    )
    lines = [f"Table {plan.table}. Budget: {plan.preset.summary}. {seeds}; {images}.", "", "Runs:"]
    for run in plan.runs:
        done, begun = Workdir(run.folder).finished, Workdir(run.folder).backup.exists()
        lines += [f"  {run.command}", f"    {'finished' if done else 'to resume' if begun else 'to train'}"]
    lines += ["", "Evaluations:"]
    for one in plan.evaluations:
        lines += [f"  {repeat_command(one)}", f"    {'finished' if is_done(one) else 'to run'}"]
    if not plan.evaluations:
        lines.append("  none: the table has training times")
    missing = [run for run in plan.runs if not Workdir(run.folder).finished]
    lines += ["", f"To train: {plural(len(missing), 'run')}. {MEASURE}"]
    lines += [f"Left out: {row}. {why}" for row, why in plan.left_out]
    return "\n".join(lines)


def fill(plan: TablePlan) -> int:
    """Trains what is missing, evaluates what is missing, and prints the table."""
    for run in plan.runs:
        workdir = Workdir(run.folder)
        workdir.check_free(run.config)
        if not workdir.finished and (code := _alone(run.command, train.action, run.config)):
            return code
    for one in plan.evaluations:
        if not is_done(one) and (code := _alone(repeat_command(one), evaluate.action, one)):
            return code
    print_line(show_table(plan))
    return 0


def _alone(command: str, step, config) -> int:
    """One step; its networks do not stay in memory for the next."""
    print_line(command)
    code = step(config, {"plan": False})
    import keras

    keras.utils.clear_session()
    INTERRUPTION.remark = "The same command continues with the rest."
    return code


@dataclasses.dataclass(frozen=True)
class Measured:
    """One number of one run: percent or minutes, and its 95% interval over images, or `None`."""

    value: float
    interval: tuple[float, float] | None = None


def minutes(run: PlannedRun, measure: str) -> Measured:
    """The training time, with validation."""
    with open(Workdir(run.folder).metrics, newline="") as file:
        seconds = [float(row["seconds"]) for row in csv.DictReader(file)]
    return Measured((sum(seconds) if measure == "minutes" else statistics.fmean(seconds)) / 60)


def accuracy(result: Result, measure: str, metric: str = "accuracy") -> Measured:
    """The accuracy, or the error, that an evaluation found, in percent; named as in `configs/papers.json`."""
    share, interval = _share(result, measure)
    if metric == "error":
        share, interval = 1 - share, None if interval is None else (1 - interval[1], 1 - interval[0])
    return Measured(100 * share, None if interval is None else (100 * interval[0], 100 * interval[1]))


def _share(result: Result, measure: str) -> tuple[float, Any]:
    kind, _, rest = measure.partition(":")
    if measure == "clean":
        return result.clean_accuracy, result.clean_interval
    if measure == "worst_case" and result.worst_case_accuracy is not None:
        return result.worst_case_accuracy, result.worst_case_interval
    if measure == "mCA" and result.corruptions is not None:
        return result.corruptions["mca"], None
    if kind == "corruption" and result.corruptions is not None:
        return statistics.fmean(_known(result.corruptions["accuracy"][rest])), None
    if kind == "transfer" and result.transfer is not None:
        return _transferred(result.transfer, result.model, rest), None
    for attack in result.ran:
        if attack.name == measure:
            return attack.accuracy, attack.interval
    raise InputError(f"The evaluation of '{result.model}' has no '{measure}'. Delete it, and run again.")


def _transferred(transfer: Transfer, model: str, attack: str) -> float:
    """The accuracy of the model on adversarial examples of the one substitute."""
    column = transfer["targets"].index(model)
    (source,) = (name for name in transfer["targets"] if name != model)
    return _known(transfer["accuracy"][transfer["sources"].index(f"{source}, {attack}")])[column]


def _known(shares: list[float | None]) -> list[float]:
    """Shares that an evaluation of ours always has; files of others may leave some out."""
    known = [share for share in shares if share is not None]
    check(len(known) == len(shares), "The evaluation lacks accuracies. Delete it, and run again.")
    return known


def cell(found: list[Measured]) -> str:
    """The mean over seeds with its interval; for one seed, the interval over images."""
    if not found:
        return NOTHING
    values = [one.value for one in found]
    interval = found[0].interval if len(found) == 1 else mean_interval(values)
    text = f"{statistics.fmean(values):.2f}"
    return text if interval is None else f"{text} ({interval[0]:.2f} to {interval[1]:.2f})"


def is_done(one: EvaluateConfig) -> bool:
    """Whether the evaluation is in its folder, made with the same flags; `--data_dir` may differ."""
    if not (pathlib.Path(str(one.output)) / EVALUATION).exists():
        return False
    ours, stored = (
        dict(word.partition("=")[::2] for word in shlex.split(command)[1:])
        for command in (repeat_command(one), Result.load(one.output).command or "")
    )
    return set(differences(ours, stored, "{name}")) <= {"--data_dir"}


def measured_cells(planned: PlannedRow) -> list[list[str]]:
    """The lines of a row: one per column of the paper."""
    results = [Result.load(one.output) for one in planned.evaluations]
    lines = []
    for column in planned.row["columns"]:
        measure, metric = column["measure"], planned.row["metric"]
        if measure in TIMES:
            found = [minutes(run, measure) for run in planned.runs]
        else:
            found = [accuracy(one, measure, metric) for one in results]
        own = [accuracy(one, column["own_scale"], metric) for one in results] if "own_scale" in column else []
        name = f"{column['name']}, minutes" if measure in TIMES else column["name"]
        published = f"{column['published']:.2f}" if "published" in column else NOTHING
        lines.append([planned.row["row"], name, cell(found), cell(own), published])
    return lines


def show_table(plan: TablePlan) -> str:
    """The table: our numbers with intervals, the paper's beside them, and the budget of ours."""
    paper = papers()["papers"][plan.rows[0].row["paper"]]
    head = ["row", "column", "ours", "ours at the model's scale", "paper"]
    body = [line for row in plan.rows for line in measured_cells(row)]
    first, *others = aligned([head, *body])
    metric = "Errors" if plan.rows[0].row["metric"] == "error" else "Accuracies"
    images = plan.max_examples or "all"
    over = "seeds, by Student's t" if len(plan.seeds) > 1 else "images; one seed says nothing about others"
    notes = [
        f"{metric} in %, unless a column says otherwise. Our budget: {plan.preset.summary}; "
        f"{plan.seeds_text}; test images: {images}.",
        f"In brackets: 95% intervals over {over}.",
        "The paper's numbers are of the full recipe. At another budget, compare differences between rows.",
        *(f"{planned.row['row']}: {planned.row['note']}" for planned in plan.rows if "note" in planned.row),
        *(f"Left out: {row}. {why}" for row, why in plan.left_out),
    ]
    return "\n".join([f"Table {plan.table}: {paper}", "", first, "-" * len(first), *others, "", *notes])


SUMMARY = "fills a table of a paper: trains and evaluates what is missing."
PROGRAM = Program("bin/reproduce", SUMMARY, EXAMPLES, ReproduceConfig, action, [PLAN])
main = PROGRAM.run

if __name__ == "__main__":
    main()
