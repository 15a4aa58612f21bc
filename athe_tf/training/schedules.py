"""Learning rates as functions of the number of updates, so that a resume changes nothing."""

import math

import keras
import tensorflow as tf

from athe_tf.utils.errors import check


class _Schedule(keras.optimizers.schedules.LearningRateSchedule):
    """Stores its arguments by name, which is all that saving needs."""

    def __init__(self, **arguments):
        self._arguments = arguments
        for name, value in arguments.items():
            setattr(self, name, value)

    def get_config(self):
        return dict(self._arguments)


@keras.saving.register_keras_serializable(package="athe_tf")
class Piecewise(_Schedule):
    """`rate`, multiplied by `factor` at every step of `drops`.

    Args:
        rate: The rate at the beginning.
        drops: Steps, in rising order: the update with that index is the first with the lower rate.
        factor: Defaults to 0.1.
    """

    def __init__(self, rate, drops, factor=0.1):
        check(list(drops) == sorted(drops), f"`drops` must be in rising order. Received: {list(drops)}.")
        super().__init__(rate=rate, drops=list(drops), factor=factor)

    def __call__(self, step):
        passed = sum(tf.cast(step >= drop, tf.float32) for drop in self.drops)
        return self.rate * tf.pow(float(self.factor), passed)


@keras.saving.register_keras_serializable(package="athe_tf")
class Cosine(_Schedule):
    """`rate * (1 + cos(pi * step / steps)) / 2`."""

    def __init__(self, rate, steps):
        super().__init__(rate=rate, steps=steps)

    def __call__(self, step):
        done = tf.minimum(tf.cast(step, tf.float32) / self.steps, 1.0)
        return 0.5 * self.rate * (1.0 + tf.cos(math.pi * done))


@keras.saving.register_keras_serializable(package="athe_tf")
class Cyclic(_Schedule):
    """A triangle: from 0 up to `rate` at `peak` of the way, and down to 0 again (FastAT)."""

    def __init__(self, rate, steps, peak=0.5):
        check(0 < peak < 1, f"`peak` must lie between 0 and 1. Received: peak={peak}.")
        super().__init__(rate=rate, steps=steps, peak=peak)

    def __call__(self, step):
        done = tf.minimum(tf.cast(step, tf.float32) / self.steps, 1.0)
        return self.rate * tf.minimum(done / self.peak, (1.0 - done) / (1.0 - self.peak))


@keras.saving.register_keras_serializable(package="athe_tf")
class Periodic(_Schedule):
    """A schedule for each period; every one counts from the beginning of its own (PAS).

    Args:
        schedules: One for each period.
        starts: The update with which each period begins; the first is 0.
    """

    def __init__(self, schedules, starts):
        check(
            len(schedules) == len(starts) and list(starts) == sorted(starts) and starts[0] == 0,
            f"Every period needs a schedule and a start, from 0 on. Received: starts={list(starts)}.",
        )
        super().__init__(schedules=list(schedules), starts=list(starts))

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
    """The schedule of a name; `drops` and `resets` are counted in whole epochs that are over.

    At every reset a new period begins, and the rate starts anew: a piecewise one at `rate`, with the drops
    that lie in the period; a cosine or cyclic one with its whole course. `"multistep"` is `"piecewise"` by
    the name that PyTorch gave it.
    """
    if name == "constant":
        return rate
    ends = [*resets, epochs]
    periods = []
    for start, end in zip([0, *resets], ends, strict=True):
        # A drop at the moment of a reset would be one of the new period, which begins at the full rate.
        inside = [drop - start for drop in drops if drop < end and (drop > start or start == 0)]
        periods.append(_one_period(name, rate, steps_per_epoch, end - start, inside, factor))
    if len(periods) == 1:
        return periods[0]
    return Periodic(periods, [round(start * steps_per_epoch) for start in (0, *resets)])


def _one_period(name: str, rate: float, steps_per_epoch: int, epochs: float, drops, factor: float):
    if name == "cosine":
        return Cosine(rate, round(steps_per_epoch * epochs))
    if name == "cyclic":
        return Cyclic(rate, round(steps_per_epoch * epochs))
    return Piecewise(rate, [round(drop * steps_per_epoch) for drop in drops], factor)
