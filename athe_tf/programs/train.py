"""`bin/train`: trains a robust classifier."""

import dataclasses
import sys

from athe_tf.distribution.settings import read_settings
from athe_tf.programs.command_line import run, say
from athe_tf.programs.config import TrainConfig
from athe_tf.programs.start_tensorflow import start_tensorflow
from athe_tf.programs.workdir import Workdir, default_workdir, find_initial_model

EXAMPLES = """
bin/train --flagfile=configs/digits_trades_he.flags --workdir=runs/digits
bin/train --flagfile=configs/cifar_trades_he.flags --plan
bin/train --flagfile=configs/cifar_trades_he.flags --data_dir=/data/tfds --seed=1
"""
PLAN = (
    "plan",
    "Print steps, network passes, measured seconds a step, total time and memory; then stop.",
    False,
)


def main() -> None:
    """The program."""
    run("bin/train", "trains a robust image classifier.", EXAMPLES, TrainConfig, action, extra=[PLAN])


def action(config: TrainConfig, flags) -> int:
    """Trains, or plans, what the flags say, and returns the exit code."""
    if config.workdir is None:
        config = dataclasses.replace(config, workdir=default_workdir(config))
    workdir = Workdir(config.workdir)
    workdir.check_free(config)
    if workdir.finished and not flags["plan"].value:
        say(f"The run in {workdir.folder} is finished; its best model is {workdir.best}.")
        return 0
    settings = read_settings(config)
    if config.initial_model is not None and not workdir.backup.exists():
        find_initial_model(config.initial_model)
    start_tensorflow()
    # Imported here: what stands above answers before TensorFlow starts.
    from athe_tf.distribution.strategy import WorkerLost, start
    from athe_tf.programs.build import make_splits
    from athe_tf.programs.cost_estimate import describe_plan
    from athe_tf.programs.run import train

    if flags["plan"].value:
        say(describe_plan(config, make_splits(config)))
        return 0
    spread = start(settings)
    try:
        train(config, make_splits(config), workdir, sys.stdout.isatty(), say, spread)
    except WorkerLost as error:
        print(f"bin/train: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    main()
