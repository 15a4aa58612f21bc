"""What the runs of a table cost, from the headers of `configs/` and measured speeds. No TensorFlow."""

import dataclasses
import re

from athe_tf.programs.evaluation_job import repeat_command
from athe_tf.programs.recipes import recipe_folder
from athe_tf.programs.reproduce_measures import is_done
from athe_tf.programs.reproduce_table import PlannedRun, TablePlan
from athe_tf.programs.train import PROGRAM
from athe_tf.programs.workdir import Workdir
from athe_tf.report.format import plural
from athe_tf.utils.number_format import format_duration

#: Passes of single images per second, by network, and where that was measured.
SPEEDS = {
    # 180.5 images per second with 23 passes each.
    "wrn-10-1": (4150, "two CPU cores (docs/benchmarks.md)"),
    # 23 passes of 48,896 images in 19.2 minutes on four GPUs.
    "wrn-34-10": (976, "four P100 or 2080 Ti GPUs (the HE paper's time per epoch)"),
    # 30 epochs with 5 passes of 48,896 images in 11.38 minutes.
    "preact_resnet18_fast": (10740, "one P100 or 2080 Ti in mixed precision (the HE paper, Table 3)"),
}


@dataclasses.dataclass(frozen=True)
class RunCost:
    """The cost of a training run, without its validation."""

    passes_per_step: int
    images: int
    epochs: int
    network: str

    @property
    def passes(self) -> int:
        """Passes of single images through the network."""
        return self.passes_per_step * self.images * self.epochs

    @property
    def seconds(self) -> float | None:
        """The time, if the speed of the network is known."""
        return self.passes / SPEEDS[self.network][0] if self.network in SPEEDS else None


def cost_of(run: PlannedRun) -> RunCost:
    """The cost of a run: that of its recipe, with as many attack steps and epochs as it has."""
    text = (recipe_folder() / f"{run.recipe}.flags").read_text()
    header = " ".join(re.findall(r"^# *(.*)$", text, re.M))
    passes, steps = (
        int(re.search(rf"([\d,]+) {what}", header)[1].replace(",", ""))  # type: ignore[index]
        for what in ("network passes per step", "steps per epoch")
    )
    recipe = PROGRAM.read(["bin/train", f"--flagfile={recipe_folder() / run.recipe}.flags"])[0]
    if run.config.framework != "standard":
        # An attack step is one pass forward and one backward.
        passes += 2 * (run.config.attack_steps - recipe.attack_steps)
    return RunCost(passes, steps * recipe.batch_size, run.config.epochs, run.config.model)


def describe(plan: TablePlan) -> str:
    """What would be run, in which state it is, and what it costs."""
    seeds = plan.seeds_text.capitalize()
    images = (
        "all test images" if plan.max_examples is None else f"the first {plan.max_examples:,} test images"
    )
    lines = [f"Table {plan.table}. Budget: {plan.preset.summary}. {seeds}; {images}.", "", "Runs:"]
    for run in plan.runs:
        cost = cost_of(run)
        lines += [f"  {run.command}", f"    {state_of(run)}; {cost_text(cost)}"]
    lines += ["", "Evaluations:"]
    for one in plan.evaluations:
        lines += [f"  {repeat_command(one)}", f"    {'finished' if is_done(one) else 'to run'}"]
    if not plan.evaluations:
        lines.append("  none: the table has training times")
    lines += ["", total_text([run for run in plan.runs if not Workdir(run.folder).finished])]
    lines += [f"Left out: {row}. {why}" for row, why in plan.left_out]
    return "\n".join(lines)


def state_of(run: PlannedRun) -> str:
    """Whether a run is finished, was interrupted, or has to be started."""
    workdir = Workdir(run.folder)
    return "finished" if workdir.finished else "to resume" if workdir.backup.exists() else "to train"


def cost_text(cost: RunCost) -> str:
    """The cost of one run."""
    passes = f"{cost.passes_per_step} network passes per step, {cost.epochs} epochs"
    if cost.seconds is None:
        return f"{passes}; `bin/train --plan` measures the time"
    return f"{passes}; about {format_duration(cost.seconds)} on {SPEEDS[cost.network][1]}"


def total_text(runs: list[PlannedRun]) -> str:
    """The cost of all runs that are not finished."""
    costs = [cost_of(run) for run in runs]
    known = [cost.seconds for cost in costs if cost.seconds is not None]
    text = f"To train: {plural(len(costs), 'run')}, {sum(cost.passes for cost in costs):.2g} passes of images"
    if known:
        unknown = len(costs) - len(known)
        text += f"; about {format_duration(sum(known))}"
        text += f" and {plural(unknown, 'run')} of unknown speed" if unknown else ""
    return f"{text}. Validation and evaluation come on top."
