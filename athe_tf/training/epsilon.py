"""The radius of the training attack as a function of the number of updates.

Periodic adversarial scheduling (Liu et al., 2020) lets epsilon rise from a small value in every period of
the training, because large perturbations make the first steps difficult. The step size of the training attack
is scaled in proportion.
"""

import math

import tensorflow as tf

from athe_tf.training.options import (
    EpsilonOptions,
    check_epsilon_delay,
    check_epsilon_order,
    check_rising,
)
from athe_tf.utils.errors import check
from athe_tf.utils.options import check_option


class EpsilonSchedule:
    """Epsilon as a function of the update: it rises in each period and stops at the target.

    With r, from 0 to 1, the fraction of the period that is over, epsilon is
    `lowest + (highest - lowest) * shape(r)`, no more than `target`; the shape is `r` for `"linear"` and
    `(1 - cos(pi r)) / 2` for `"cosine"`. With `highest` above `target` the rise ends before the period does:
    halfway for a linear rise to twice the target. With `warm_up`, r is the fraction of this many updates
    instead. `"constant"` is the target throughout. With `delay`, epsilon first stays at `lowest` for
    this many updates, and the first period is shorter by them: a new head on a pretrained backbone can learn
    from clean images before the attack begins.

    All radii are in pixels of [0, 1]; nothing is ever divided by 255.

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
        check_rising(ends, "`ends`", above=0)
        if highest is None:
            highest = target if warm_up else 2 * target
        check_epsilon_order(lowest, target, highest)
        check_option(EpsilonOptions, "epsilon_warmup", warm_up, "warm_up")
        check_option(EpsilonOptions, "epsilon_delay", delay, "delay")
        check_epsilon_delay(delay, ends[0])
        self.kind = kind
        self.target = target
        self.ends = ends
        self.lowest = lowest
        self.highest = highest
        self.warm_up = warm_up
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
