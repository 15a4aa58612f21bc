"""`bin/train`: trains a robust classifier."""

import contextlib
import dataclasses
import sys
import textwrap

from absl import flags

from athe_tf.distribution.settings import DistributionSettings
from athe_tf.models.names import is_file
from athe_tf.programs.accelerators import DEVICE, planned_device
from athe_tf.programs.command_line import Flag, Program, flags_of, print_line, warn_user, warnings_as_lines
from athe_tf.programs.config import TrainConfig
from athe_tf.programs.interruption import INTERRUPTION, RESTART_ALL
from athe_tf.programs.recipes import recipes
from athe_tf.programs.start_tensorflow import start_tensorflow
from athe_tf.programs.workdir import Workdir, default_workdir, find_initial_model
from athe_tf.training.options import OPTIONS, options_of
from athe_tf.utils.registry import import_optional

EXAMPLES = """
bin/train --flagfile=configs/digits_trades_he.flags --workdir=runs/digits
bin/train --flagfile=configs/cifar_trades_he.flags --plan
bin/train --flagfile=configs/cifar_trades_he.flags --data_dir=/data/tfds --seed=1
"""
NEEDED = (
    "A log for TensorBoard is shown by the package tensorboard, which is not installed. Install it with: pip "
    "install 'athe_tf[tensorboard]'."
)
PLAN = Flag("plan", "Print steps, passes, measured seconds per step, total time and memory; then stop.")


class TrainProgram(Program):
    """`bin/train`, whose flags contain the options of every framework."""

    def flags(self, arguments: list[str]) -> list[Flag]:
        found = flags_of(TrainConfig)
        after = [flag.name for flag in found].index("framework") + 1
        return [*found[:after], *framework_flags(chosen_framework(arguments)), *found[after:]]

    def _run(self, arguments: list[str]) -> int | None:
        if len(arguments) > 1:
            return super()._run(arguments)
        recipe_names = textwrap.wrap(", ".join(recipes()), 76)
        print_line(self.manual(arguments))
        print_line("\n  ".join(["Recipes, for --flagfile=NAME:", *recipe_names]))
        return 0


def chosen_framework(arguments: list[str]) -> str:
    """The value of `--framework`, read before all flags are known: `module:Name` adds its own flags."""
    values = flags.FlagValues()
    flags.DEFINE_string("framework", TrainConfig.framework, "", flag_values=values)
    try:
        values(arguments, known_only=True)
    except flags.Error:  # the command line is read again, and refused then
        return TrainConfig.framework
    return str(values["framework"].value)


def framework_flags(chosen: str) -> list[Flag]:
    """The options of all frameworks as flags, each once; the help names the frameworks."""
    found: dict[str, Flag] = {}
    owners: dict[str, list[str]] = {}
    others = {} if chosen in OPTIONS or ":" not in chosen else {chosen: options_of(chosen)}
    # The chosen framework comes first: it sets the type of a flag that several frameworks have.
    for name, options in {**others, **OPTIONS}.items():
        for flag in flags_of(options):
            found.setdefault(flag.name, flag)
            owners.setdefault(flag.name, []).append(name)
    return [
        dataclasses.replace(flag, help=f"Option of {' and '.join(owners[name])}. {flag.help}")
        for name, flag in found.items()
    ]


def action(config: TrainConfig, extra: dict) -> int:
    """Trains, or estimates the cost, as the flags say, and returns the exit code."""
    workdir = Workdir(config.workdir or default_workdir(config))
    workdir.check_free(config)
    if workdir.finished and not extra["plan"]:
        workdir.remove_leftovers()
        print_line(f"The run in {workdir.folder} is finished; its best model is {workdir.best}.")
        return 0
    settings, device = config.distribution_settings().resolve(), planned_device(extra)
    if config.tensorboard:
        import_optional("tensorboard", NEEDED)
    if is_file(config.model):
        find_initial_model(config.model)
    if config.initial_model is not None and not workdir.backup.exists():
        find_initial_model(config.initial_model)
    if extra["plan"]:
        start_tensorflow()
        from athe_tf.programs.build import make_splits
        from athe_tf.programs.cost_estimate import describe_plan

        print_line(describe_plan(config, make_splits(config), print_line, device))
        return 0
    INTERRUPTION.remark = "The same command resumes the run."
    is_chief = settings.cluster is None or settings.cluster.is_chief
    with workdir.held() if is_chief else contextlib.nullcontext():
        return run(config, workdir, settings)


def run(config: TrainConfig, workdir: Workdir, settings: DistributionSettings) -> int:
    """Trains, and returns the exit code."""
    start_tensorflow()
    # Imported here, so that all checks above are made before TensorFlow starts.
    from athe_tf.distribution import WorkerLost, initialize
    from athe_tf.programs.build import make_splits
    from athe_tf.programs.run import train

    distribution = initialize(settings, write=print_line)
    with warnings_as_lines("bin/train"):
        splits = make_splits(config, workdir.files)
    try:
        train(config, splits, workdir, sys.stdout.isatty(), print_line, distribution)
    except WorkerLost as error:
        warn_user("bin/train", error)
        return RESTART_ALL
    return 0


SUMMARY = "trains a robust image classifier."
PROGRAM = TrainProgram("bin/train", SUMMARY, EXAMPLES, TrainConfig, action, [PLAN, DEVICE])
main = PROGRAM.run

if __name__ == "__main__":
    main()
