"""Learning rates as functions of the number of updates, so that runs resume exactly."""

import math

import keras
import tensorflow as tf

from athe_tf.training.options import check_rising
from athe_tf.utils.errors import check


@keras.saving.register_keras_serializable(package="athe_tf")
class Piecewise(keras.optimizers.schedules.LearningRateSchedule):
    """`rate`, multiplied by `factor` at every step of `drops`.

    Example:

    >>> schedule = Piecewise(0.1, drops=[75, 90])
    >>> [round(float(schedule(step)), 4) for step in (0, 75, 90)]
    [0.1, 0.01, 0.001]

    Args:
        rate: The rate at the beginning.
        drops: Steps, in rising order: the update with that index is the first with the lower rate.
        factor: Defaults to 0.1.
    """

    def __init__(self, rate: float, drops, factor: float = 0.1):
        check_rising(drops, "`drops`", strict=False)
        self.rate, self.drops, self.factor = rate, list(drops), factor

    def __call__(self, step):
        passed = sum(tf.cast(step >= drop, tf.float32) for drop in self.drops)
        return self.rate * tf.pow(float(self.factor), passed)

    def get_config(self):
        return {"rate": self.rate, "drops": self.drops, "factor": self.factor}


@keras.saving.register_keras_serializable(package="athe_tf")
class Cosine(keras.optimizers.schedules.LearningRateSchedule):
    """`rate * (1 + cos(pi * step / steps)) / 2`.

    Example:

    >>> round(float(Cosine(0.1, steps=100)(50)), 4)
    0.05
    """

    def __init__(self, rate: float, steps: int):
        self.rate, self.steps = rate, steps

    def __call__(self, step):
        done = tf.minimum(tf.cast(step, tf.float32) / self.steps, 1.0)
        return 0.5 * self.rate * (1.0 + tf.cos(math.pi * done))

    def get_config(self):
        return {"rate": self.rate, "steps": self.steps}


@keras.saving.register_keras_serializable(package="athe_tf")
class Cyclic(keras.optimizers.schedules.LearningRateSchedule):
    """A triangle: from 0 up to `rate` at the fraction `peak` of the steps, and down to 0 (FastAT).

    Example:

    >>> round(float(Cyclic(0.2, steps=100)(25)), 4)
    0.1
    """

    def __init__(self, rate: float, steps: int, peak: float = 0.5):
        check(0 < peak < 1, f"`peak` must lie in (0, 1). Received: peak={peak}.")
        self.rate, self.steps, self.peak = rate, steps, peak

    def __call__(self, step):
        done = tf.minimum(tf.cast(step, tf.float32) / self.steps, 1.0)
        return self.rate * tf.minimum(done / self.peak, (1.0 - done) / (1.0 - self.peak))

    def get_config(self):
        return {"rate": self.rate, "steps": self.steps, "peak": self.peak}


@keras.saving.register_keras_serializable(package="athe_tf")
class Periodic(keras.optimizers.schedules.LearningRateSchedule):
    """One schedule per period, each counting from the beginning of its period (PAS).

    Example:

    >>> schedule = Periodic([Cosine(0.1, 10), Cosine(0.1, 10)], starts=[0, 10])
    >>> round(float(schedule(10)), 4)
    0.1

    Args:
        schedules: One per period.
        starts: The update at which each period begins; the first is 0.
    """

    def __init__(self, schedules, starts):
        check(
            len(schedules) == len(starts) and starts[0] == 0,
            f"Every period needs a schedule and a start, from 0 on. Received: starts={list(starts)}.",
        )
        check_rising(starts, "`starts`")
        self.schedules, self.starts = list(schedules), list(starts)

    def __call__(self, step):
        step = tf.cast(step, tf.int64)
        rates = [
            tf.cast(schedule(tf.maximum(step - start, 0)), tf.float32)
            for schedule, start in zip(self.schedules, self.starts, strict=True)
        ]
        period = tf.reduce_sum(tf.cast(step >= tf.constant(self.starts, tf.int64), tf.int32)) - 1
        return tf.gather(tf.stack(rates), period)

    def get_config(self):
        serialize = keras.saving.serialize_keras_object
        return {"schedules": [serialize(s) for s in self.schedules], "starts": self.starts}

    @classmethod
    def from_config(cls, config):
        restore = keras.saving.deserialize_keras_object
        return cls([restore(s) for s in config["schedules"]], config["starts"])


def make_schedule(name: str, rate: float, steps_per_epoch: int, epochs: int, drops, factor: float, resets=()):
    """The schedule of a name; `drops` and `resets` are counted in finished epochs.

    At every reset a new period begins and the schedule restarts: a piecewise one at `rate`, with the drops
    inside the period; a cosine or cyclic one with its full course. `"multistep"` is PyTorch's name for
    `"piecewise"`.

    Example:

    >>> type(make_schedule("cyclic", 0.2, 100, 30, [], 0.1)).__name__
    'Cyclic'
    """
    if name == "constant":
        return rate
    ends = [*resets, epochs]
    periods = []
    for start, end in zip([0, *resets], ends, strict=True):
        # A drop at a reset would belong to the new period, which begins at the full rate.
        inside = [drop - start for drop in drops if drop < end and (drop > start or start == 0)]
        periods.append(_one_period(name, rate, steps_per_epoch, end - start, inside, factor))
    if len(periods) == 1:
        return periods[0]
    return Periodic(periods, [round(start * steps_per_epoch) for start in (0, *resets)])


def _one_period(name: str, rate: float, steps_per_epoch: int, epochs: float, drops, factor: float):
    if name in ("cosine", "cyclic"):
        kind = Cosine if name == "cosine" else Cyclic
        return kind(rate, round(steps_per_epoch * epochs))
    return Piecewise(rate, [round(drop * steps_per_epoch) for drop in drops], factor)
