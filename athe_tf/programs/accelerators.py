"""Plans for an accelerator that is not there: published peaks, and the share of them that is assumed."""

import dataclasses
from collections.abc import Callable, Sequence

from athe_tf.programs.command_line import Flag
from athe_tf.utils.errors import check
from athe_tf.utils.registry import unknown_name

#: The share of the peak that is assumed to be reached.
SHARE = 0.25


@dataclasses.dataclass(frozen=True)
class Accelerator:
    """Peaks in TFLOP/s without sparsity: of what TensorFlow takes for float32, and of 16 bits."""

    name: str
    single: float
    half: float

    def seconds(self, operations: float, half: bool = False) -> float:
        """How long so many floating-point operations take."""
        return operations / (SHARE * 1e12 * (self.half if half else self.single))

    def basis(self, operations: float, half: bool = False) -> str:
        """What the times are computed from, for an image."""
        peak = self.half if half else self.single
        return (
            f"computed, not measured: {operations / 1e9:.3g} GFLOP per pass and image, an assumed share of "
            f"{SHARE:.0%} of the peak of {peak:g} TFLOP/s, which small networks do not reach"
        )


# From the data sheets; TensorFlow computes float32 in TF32 on a100 and h100, in bfloat16 on a TPU.
DEVICES = {
    one.name: one
    for one in (
        Accelerator("v100", 15.7, 125),
        Accelerator("a100", 156, 312),
        Accelerator("h100", 495, 989),
        Accelerator("tpu-v4", 275, 275),
    )
}
DEVICE = Flag(
    "device", "With --plan: the time on another device, from its peak.", str, choices=tuple(DEVICES)
)


def planned_device(extra: dict) -> Accelerator | None:
    """The device of `--plan --device=NAME`; `None` for this machine."""
    name = extra.get(DEVICE.name)
    check(
        name is None or extra["plan"],
        f"--device is for --plan. Received: --device={name}. Add --plan, or choose by --devices.",
    )
    if name is not None and name not in DEVICES:
        raise unknown_name("device", name, DEVICES)
    return None if name is None else DEVICES[name]


def operations(forward: Callable, shape: Sequence[int]) -> float:
    """The floating-point operations of a pass of one image."""
    import tensorflow as tf

    graph = tf.function(forward).get_concrete_function(tf.TensorSpec((1, *shape), tf.float32)).graph
    options = tf.compat.v1.profiler.ProfileOptionBuilder.float_operation() | {"output": "none"}
    logger = tf.get_logger()
    level = logger.level
    logger.setLevel("ERROR")  # the profiler warns of itself
    try:
        counted = tf.compat.v1.profiler.profile(graph, options=options).total_float_ops
    finally:
        logger.setLevel(level)
    check(
        counted > 0,
        "The operations of this model cannot be counted: its graph is in a file. Leave --device out.",
    )
    return float(counted)
