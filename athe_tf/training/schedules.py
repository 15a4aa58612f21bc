"""Learning rates as functions of the number of updates, so that a resume changes nothing."""

import math

import keras
import tensorflow as tf

from athe_tf.errors import check


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


def make_schedule(name: str, rate: float, steps_per_epoch: int, epochs: int, drops, factor: float):
    """The schedule of a name; `drops` are counted in whole epochs that are over.

    `"multistep"` is `"piecewise"` by the name that PyTorch gave it.
    """
    if name in ("piecewise", "multistep"):
        return Piecewise(rate, [round(drop * steps_per_epoch) for drop in drops], factor)
    if name == "cosine":
        return Cosine(rate, steps_per_epoch * epochs)
    if name == "cyclic":
        return Cyclic(rate, steps_per_epoch * epochs)
    return rate
