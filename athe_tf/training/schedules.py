"""Learning rates and epsilon as functions of the number of updates, so that runs resume exactly."""

import math

import keras
import tensorflow as tf

from athe_tf.training.options import EpsilonOptions, check_epsilon_delay, check_epsilon_order, check_rising
from athe_tf.utils.errors import check
from athe_tf.utils.options import check_option


class _Schedule(keras.optimizers.schedules.LearningRateSchedule):
    """A schedule whose attributes are its arguments."""

    def get_config(self):
        return dict(vars(self))


@keras.saving.register_keras_serializable(package="athe_tf")
class Piecewise(_Schedule):
    """`rate`, multiplied by `factor` at every step of `drops`.

    Example:

    >>> schedule = Piecewise(0.1, drops=[75, 90])
    >>> [round(float(schedule(step)), 4) for step in (0, 75, 90)]
    [0.1, 0.01, 0.001]

    Args:
        rate: The rate at the beginning.
        drops: Steps, in rising order: the update with that index is the first with the lower rate.
        factor: Defaults to 0.1.
        lowest: The rate does not drop below this. Defaults to 0.
    """

    def __init__(self, rate: float, drops, factor: float = 0.1, lowest: float = 0.0):
        check_rising(drops, "`drops`", strict=False)
        self.rate, self.drops, self.factor, self.lowest = rate, list(drops), factor, lowest

    def __call__(self, step):
        passed = sum(tf.cast(step >= drop, tf.float32) for drop in self.drops)
        return tf.maximum(self.rate * tf.pow(float(self.factor), passed), self.lowest)


@keras.saving.register_keras_serializable(package="athe_tf")
class Cosine(_Schedule):
    """`lowest + (rate - lowest) * (1 + cos(pi * step / steps)) / 2`; `lowest` is 0 unless given.

    Example:

    >>> round(float(Cosine(0.1, steps=100)(50)), 4)
    0.05
    """

    def __init__(self, rate: float, steps: int, lowest: float = 0.0):
        self.rate, self.steps, self.lowest = rate, steps, lowest

    def __call__(self, step):
        done = tf.minimum(tf.cast(step, tf.float32) / self.steps, 1.0)
        return self.lowest + 0.5 * (self.rate - self.lowest) * (1.0 + tf.cos(math.pi * done))


@keras.saving.register_keras_serializable(package="athe_tf")
class Cyclic(_Schedule):
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


@keras.saving.register_keras_serializable(package="athe_tf")
class Linear(_Schedule):
    """A line from `start_factor * rate` to `rate` in this many steps, such as a warm-up.

    Example:

    >>> round(float(Linear(0.1, steps=10)(5)), 4)
    0.05
    """

    def __init__(self, rate: float, steps: float, start_factor: float = 0.0):
        self.rate, self.steps, self.start_factor = rate, steps, start_factor

    def __call__(self, step):
        done = tf.minimum(tf.cast(step, tf.float32) / self.steps, 1.0)
        return self.rate * (self.start_factor + (1.0 - self.start_factor) * done)


@keras.saving.register_keras_serializable(package="athe_tf")
class OneCycle(_Schedule):
    """Up to `rate` and down again along two halves of a cosine, as PyTorch's `OneCycleLR`.

    The same schedule with factors above 1 is the momentum that PyTorch moves against the rate:
    `OneCycle(0.85, steps, start_factor=0.95 / 0.85, end_factor=0.95 / 0.85)`.

    Example:

    >>> schedule = OneCycle(0.2, steps=400, rise=0.025)
    >>> [round(float(schedule(step)), 6) for step in (0, 9, 399)]
    [0.008, 0.2, 1e-06]

    Args:
        rate: The rate at the peak.
        steps: The number of steps; the last has the lowest rate.
        rise: The share of the steps before the peak. Defaults to 0.3.
        start_factor: The first rate, in units of `rate`. Defaults to 1/25.
        end_factor: The last rate, in units of `rate`. Defaults to 1/250000, PyTorch's 1/25 * 1e-4.
    """

    def __init__(
        self,
        rate: float,
        steps: int,
        rise: float = 0.3,
        start_factor: float = 1 / 25,
        end_factor: float = 1e-4 / 25,
    ):
        check(0 < rise < 1, f"`rise` must lie in (0, 1). Received: rise={rise}.")
        self.rate, self.steps, self.rise = rate, steps, rise
        self.start_factor, self.end_factor = start_factor, end_factor

    def __call__(self, step):
        # In float64, as PyTorch computes it.
        step = tf.minimum(tf.cast(step, tf.float64), self.steps - 1)
        peak = self.rise * self.steps - 1
        up, down = step / (peak or 1.0), (step - peak) / (self.steps - 1 - peak)
        factor = tf.where(
            step <= peak, _half_cosine(self.start_factor, 1.0, up), _half_cosine(1.0, self.end_factor, down)
        )
        return self.rate * factor


def _half_cosine(start: float, end: float, done):
    return end + 0.5 * (start - end) * (1.0 + tf.cos(math.pi * done))


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


@keras.saving.register_keras_serializable(package="athe_tf")
class PerEpoch(keras.optimizers.schedules.LearningRateSchedule):
    """A schedule of epochs: the rate changes once per epoch, as when PyTorch's scheduler is stepped so.

    Example:

    >>> float(PerEpoch(Cosine(0.1, 10), steps_per_epoch=98)(97))
    0.10000000149011612
    """

    def __init__(self, schedule, steps_per_epoch: int):
        self.schedule, self.steps_per_epoch = schedule, steps_per_epoch

    def __call__(self, step):
        return self.schedule(tf.cast(step, tf.int64) // self.steps_per_epoch)

    def get_config(self):
        schedule = keras.saving.serialize_keras_object(self.schedule)
        return {"schedule": schedule, "steps_per_epoch": self.steps_per_epoch}

    @classmethod
    def from_config(cls, config):
        return cls(keras.saving.deserialize_keras_object(config["schedule"]), config["steps_per_epoch"])


def make_schedule(
    name: str,
    rate: float,
    steps_per_epoch: int,
    epochs: int,
    drops=(),
    factor: float = 0.1,
    resets=(),
    *,
    warm_up: float = 0.0,
    per_epoch: bool = False,
    lowest: float = 0.0,
    start_factor: float | None = None,
    **one_cycle,
):
    """The schedule of a name; `drops`, `resets` and `warm_up` are counted in finished epochs.

    At every reset a new period begins and the schedule restarts: a piecewise one at `rate`, with the drops
    inside the period; the others with their full course. `"multistep"` is PyTorch's name for `"piecewise"`.

    Example:

    >>> type(make_schedule("cyclic", 0.2, 100, 30)).__name__
    'Cyclic'

    Args:
        name: `"constant"`, `"piecewise"`, `"multistep"`, `"cosine"`, `"cyclic"` or `"one_cycle"`.
        rate: The rate at its highest.
        steps_per_epoch: Updates in an epoch.
        epochs: The length of the training.
        drops: Where a piecewise rate drops.
        factor: Of each drop.
        resets: Where new periods begin.
        warm_up: The length of a linear rise before the schedule begins. Defaults to 0.
        per_epoch: Whether the rate changes once per epoch only. Defaults to `False`.
        lowest: Where a piecewise rate or a cosine ends. Defaults to 0.
        start_factor: The first rate of `Linear` (the warm-up) or `OneCycle`, in units of `rate`. Defaults to
            their own.
        **one_cycle: `rise` and `end_factor` of `OneCycle`.
    """
    if name == "constant" and not warm_up:
        return rate
    steps = 1 if per_epoch else steps_per_epoch
    first = {} if start_factor is None else {"start_factor": start_factor}

    def period(start: float, end: float):
        length = round(steps * (end - start))
        if name == "one_cycle":
            return OneCycle(rate, length, **one_cycle, **first)
        if name == "cosine":
            return Cosine(rate, length, lowest)
        if name == "cyclic":
            return Cyclic(rate, length)
        # A drop at a reset would belong to the new period, which begins at the full rate.
        passed = [drop for drop in drops if drop < end and (drop > start or start == warm_up)]
        falling = [round((drop - start) * steps) for drop in passed if name != "constant"]
        return Piecewise(rate, falling, factor, lowest)

    starts = [warm_up, *resets]
    periods = [period(start, end) for start, end in zip(starts, [*resets, epochs], strict=True)]
    if warm_up:
        starts, periods = [0.0, *starts], [Linear(rate, round(warm_up * steps), **first), *periods]
    whole = periods[0] if len(periods) == 1 else Periodic(periods, [round(start * steps) for start in starts])
    return PerEpoch(whole, steps_per_epoch) if per_epoch else whole


class EpsilonSchedule:
    """Epsilon as a function of the update: it rises in each period and stops at the target.

    With r, from 0 to 1, the fraction of the period that is over, epsilon is
    `lowest + (highest - lowest) * shape(r)`, no more than `target`; the shape is `r` for `"linear"` and
    `(1 - cos(pi r)) / 2` for `"cosine"`. With `highest` above `target` the rise ends before the period does:
    halfway for a linear rise to twice the target. With `warm_up`, r is the fraction of this many updates
    instead. `"constant"` is the target throughout. With `delay`, epsilon first stays at `lowest` for
    this many updates, and the first period is shorter by them: a new head on a pretrained backbone can learn
    from clean images before the attack begins.

    Periodic adversarial scheduling (Liu et al., 2020) lets epsilon rise from a small value in every period of
    the training, because large perturbations make the first steps difficult. The step size of the training
    attack is scaled in proportion. All radii are in pixels of [0, 1]; nothing is ever divided by 255.

    Example:

    >>> schedule = EpsilonSchedule("linear", target=0.4, ends=[100], highest=0.8)
    >>> [round(float(schedule(step)), 3) for step in (0, 25, 50, 99, 1000)]
    [0.0, 0.2, 0.4, 0.4, 0.4]
    >>> schedule = EpsilonSchedule("linear", target=0.4, ends=[100], warm_up=10, delay=50)
    >>> [round(float(schedule(step)), 3) for step in (0, 50, 55, 60, 99)]
    [0.0, 0.0, 0.2, 0.4, 0.4]

    Args:
        kind: `"constant"`, `"linear"` or `"cosine"`.
        target: The epsilon to train for.
        ends: The updates at which periods end, in rising order; the last is the end of the training, after
            which epsilon stays constant.
        lowest: Where every period begins. Defaults to 0.
        highest: Where the rise would end. Defaults to `2 * target`, with `warm_up` to `target`.
        warm_up: The length of the rise in updates. Defaults to the length of the period.
        delay: The number of updates before the first rise. Defaults to 0.
    """

    def __init__(
        self,
        kind: str,
        target: float,
        ends,
        *,
        lowest: float = 0.0,
        highest: float | None = None,
        warm_up: float | None = None,
        delay: int = 0,
    ):
        check_option(EpsilonOptions, "epsilon_schedule", kind, "kind")
        ends = [int(end) for end in ends]
        check(len(ends) > 0, "`ends` must not be empty. Give the update at which the training ends.")
        check_rising(ends, "`ends`", gt=0)
        if highest is None:
            highest = target if warm_up else 2 * target
        check_epsilon_order(lowest, target, highest)
        check_option(EpsilonOptions, "epsilon_warmup", warm_up, "warm_up")
        check_option(EpsilonOptions, "epsilon_delay", delay, "delay")
        check_epsilon_delay(delay, ends[0])
        self.kind, self.target, self.ends = kind, target, ends
        self.lowest, self.highest, self.warm_up = lowest, highest, warm_up
        self.delay = int(delay)

    def __call__(self, update):
        """Epsilon before update number `update`, counted from 0; a scalar tensor."""
        if self.kind == "constant":
            return tf.constant(self.target, tf.float32)
        # Integers: float32 would lose count of steps after 2 ** 24.
        update = tf.clip_by_value(tf.cast(update, tf.int64), self.delay, self.ends[-1])
        starts = tf.constant([self.delay, *self.ends[:-1]], tf.int64)
        period = tf.reduce_sum(tf.cast(update >= starts, tf.int32)) - 1
        start = tf.gather(starts, period)
        whole = tf.gather(tf.constant(self.ends, tf.int64), period) - start
        length = self.warm_up or tf.cast(whole, tf.float32)
        done = tf.minimum(tf.cast(update - start, tf.float32) / length, 1.0)
        risen = done if self.kind == "linear" else 0.5 * (1.0 - tf.cos(math.pi * done))
        return tf.minimum(self.lowest + (self.highest - self.lowest) * risen, self.target)
