"""What the settings of all programs are made of."""

import dataclasses
import math

from athe_tf.utils.errors import check
from athe_tf.utils.registry import unknown_name

DISTRIBUTION_HELP = (
    "auto, one (device), mirrored (the GPUs of this machine), multi_worker (TF_CONFIG or Slurm) or tpu; see "
    "docs/distributed.md."
)
DEVICES_HELP = "Numbers of the GPUs to use, such as 0,1; or cpu. [all GPUs, else the CPU]"
CPU_REPLICAS_HELP = "Make so many devices of the CPU, to try out what several GPUs do."


def option(default, help: str, **metadata):
    """A field with its help text. `runtime=True` marks what does not change the result of a run."""
    return dataclasses.field(default=default, metadata={"help": help, **metadata})


def check_name(argument: str, value, names) -> None:
    """Refuses a value that is none of these names."""
    if value not in names:
        raise unknown_name(argument, str(value), names)


def check_positive(config, *names) -> None:
    """Refuses settings that are neither left out nor larger than 0."""
    for name in names:
        value = getattr(config, name)
        if value is not None:
            check(
                math.isfinite(value) and value > 0,
                f"--{name} must be larger than 0 and finite. Received: --{name}={value:g}.",
            )


def check_not_negative(config, *names) -> None:
    """Refuses settings that are neither left out nor a number from 0 on."""
    for name in names:
        value = getattr(config, name)
        if value is not None:
            check(
                math.isfinite(value) and value >= 0,
                f"--{name} must not be negative, and finite. Received: --{name}={value:g}.",
            )
