"""`bin/train`: trains a robust classifier."""

import dataclasses
import sys

from athe_tf import data
from athe_tf.cli.program import run
from athe_tf.cli.quiet import start_tensorflow
from athe_tf.config import TrainConfig
from athe_tf.workdir import Workdir, default_workdir

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


def action(config: TrainConfig, flags) -> None:
    """Trains, or plans, what the flags say."""
    if config.workdir is None:
        config = dataclasses.replace(config, workdir=default_workdir(config))
    workdir = Workdir(config.workdir)
    workdir.check_free(config)
    if workdir.finished and not flags["plan"].value:
        print(f"The run in {workdir.folder} is finished; its best model is {workdir.best}.")
        return
    start_tensorflow()
    splits = data.load(
        config.dataset,
        data_dir=config.data_dir,
        validation_size=config.validation_size,
        image_size=config.image_size,
    )
    # Imported here: what stands above answers before TensorFlow starts.
    from athe_tf.training.plan import describe_plan
    from athe_tf.training.run import train

    if flags["plan"].value:
        print(describe_plan(config, splits))
        return
    train(config, splits, workdir, bar=sys.stdout.isatty(), write=print)


if __name__ == "__main__":
    main()
