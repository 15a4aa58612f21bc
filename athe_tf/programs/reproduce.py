"""`bin/reproduce`: trains and evaluates what a table of a paper needs, and prints the table."""

from athe_tf.programs import evaluate, train
from athe_tf.programs.command_line import Flag, Program, say
from athe_tf.programs.config import EvaluateConfig
from athe_tf.programs.interruption import INTERRUPTION
from athe_tf.programs.reproduce_plan import PlannedRun, ReproduceConfig, TablePlan, make_plan
from athe_tf.programs.reproduce_table import is_done, show_table
from athe_tf.programs.workdir import Workdir
from athe_tf.report.format import plural

EXAMPLES = """
bin/reproduce --table=3 --preset=mini --plan
bin/reproduce --table=2 --preset=small --data_dir=/data/tfds
bin/reproduce --table=pas --preset=paper --seeds=0,1,2
"""
MEASURE = "Add --plan to a command of bin/train to measure its time and memory on this machine."
PLAN = Flag("plan", bool, bool, "Print the commands and what is done already; then stop.")


def action(config: ReproduceConfig, extra: dict) -> int:
    """Fills the table, or describes what that would take; returns the exit code."""
    plan = make_plan(config)
    if extra["plan"]:
        say(describe(plan))
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
        lines += [f"  {run.command}", f"    {state_of(run)}"]
    lines += ["", "Evaluations:"]
    for one in plan.evaluations:
        lines += [f"  {evaluate.repeat_command(one)}", f"    {'finished' if is_done(one) else 'to run'}"]
    if not plan.evaluations:
        lines.append("  none: the table has training times")
    missing = [run for run in plan.runs if not Workdir(run.folder).finished]
    lines += ["", f"To train: {plural(len(missing), 'run')}. {MEASURE}"]
    lines += [f"Left out: {row}. {why}" for row, why in plan.left_out]
    return "\n".join(lines)


def state_of(run: PlannedRun) -> str:
    """Whether a run is finished, was interrupted, or has to be started."""
    workdir = Workdir(run.folder)
    return "finished" if workdir.finished else "to resume" if workdir.backup.exists() else "to train"


def fill(plan: TablePlan) -> int:
    """Trains what is missing, evaluates what is missing, and prints the table."""
    for run in plan.runs:
        code = train_run(run)
        if code:
            return code
    for one in plan.evaluations:
        code = evaluate_run(one)
        if code:
            return code
    say(show_table(plan))
    return 0


def train_run(run: PlannedRun) -> int:
    """Trains, resumes, or leaves a run that is finished as it is; returns the exit code."""
    Workdir(run.folder).check_free(run.config)
    if Workdir(run.folder).finished:
        return 0
    say(run.command)
    return _alone(train.action, run.config, {"plan": False})


def evaluate_run(one: EvaluateConfig) -> int:
    """Evaluates unless that is done; returns the exit code."""
    if is_done(one):
        return 0
    say(evaluate.repeat_command(one))
    return _alone(evaluate.action, one, {})


def _alone(step, config, extra: dict) -> int:
    """One step; its networks do not stay in memory for the next."""
    code = step(config, extra)
    import keras

    keras.utils.clear_session()
    INTERRUPTION.remark = "The same command continues with the rest."
    return code


SUMMARY = "fills a table of a paper: trains and evaluates what is missing."
PROGRAM = Program("bin/reproduce", SUMMARY, EXAMPLES, ReproduceConfig, action, [PLAN])
main = PROGRAM.run

if __name__ == "__main__":
    main()
