"""Whether this machine computes faster in half precision, by a short measurement of convolutions."""

import functools
import time

import tensorflow as tf

from athe_tf.utils.errors import check

# A batch of images as in the middle of a small network, and how often each is timed.
BATCH, SIDE, CHANNELS, ROUNDS = 32, 32, 32, 3


def on_accelerator() -> bool:
    """Whether TensorFlow finds a GPU or a TPU."""
    return any(tf.config.list_physical_devices(kind) for kind in ("GPU", "TPU"))


@functools.cache
def convolution_times(dtype: str) -> tuple[float, float]:
    """Seconds of two convolutions, forward and backward to their input: in float32, and in `dtype`.

    Best of several, in turns. What the processor says that it can do is not enough: with its instructions for
    bfloat16 switched off in oneDNN, convolutions took seven times as long, and without them ten times.
    """
    steps = [_convolutions(each) for each in ("float32", dtype)]
    best = [float("inf"), float("inf")]
    for _ in range(ROUNDS + 1):  # the first one compiles, and is never the best
        for number, step in enumerate(steps):
            began = time.perf_counter()
            step()
            best[number] = min(best[number], time.perf_counter() - began)
    return best[0], best[1]


def _convolutions(dtype: str):
    images = tf.ones([BATCH, SIDE, SIDE, CHANNELS], dtype)
    kernel = tf.ones([3, 3, CHANNELS, CHANNELS], dtype) / (9 * CHANNELS)

    @tf.function
    def slope():
        with tf.GradientTape() as tape:
            tape.watch(images)
            inner = tf.nn.relu(tf.nn.conv2d(images, kernel, 1, "SAME"))
            total = tf.reduce_sum(tf.cast(tf.nn.conv2d(inner, kernel, 1, "SAME"), tf.float32))
        return tf.reduce_max(tape.gradient(total, images))

    return lambda: slope().numpy()


def check_precision(policy: str) -> None:
    """Refuses a mixed precision that is slower than float32 on this machine."""
    if not policy.startswith("mixed") or on_accelerator():
        return
    whole, half = convolution_times(policy.removeprefix("mixed_"))
    check(
        half < whole,
        f"--precision={policy} is slower than float32 on this processor: convolutions that take "
        f"{1000 * whole:.1f} ms in float32 take {1000 * half:.1f} ms. Leave --precision out; mixed_bfloat16 "
        "is faster on processors with AVX512_BF16 or AMX, and on accelerators.",
    )
