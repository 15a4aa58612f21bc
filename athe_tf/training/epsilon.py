"""The radius of the training attack as a function of the number of updates.

Periodic adversarial scheduling (Liu et al., 2020) lets epsilon rise from nearly nothing in every period of
the training, because large perturbations make the first steps hard. The training attack takes steps in
proportion.
"""

import itertools
import math

import tensorflow as tf

from athe_tf.utils.errors import check, check_choice

KINDS = ("constant", "cosine", "linear")


class EpsilonSchedule:
    """Epsilon at every update: a rise in each period that stops at the target.

    With r from 0 to 1 the part of a period that is over, epsilon is `lowest + (highest - lowest) * shape(r)`,
    no more than `target`; the shape is `r` for `"linear"` and `(1 - cos(pi r)) / 2` for `"cosine"`. With
    `highest` above `target` the rise ends before the period does: at its middle for a linear one to twice the
    target. A `warm_up` makes r the part of so many updates instead. `"constant"` is the target throughout.

    All radii are in pixels of [0, 1]; nothing is ever divided by 255.

    Example:

    >>> schedule = EpsilonSchedule("linear", target=0.4, ends=[100], highest=0.8)
    >>> [round(float(schedule(step)), 3) for step in (0, 25, 50, 99, 1000)]
    [0.0, 0.2, 0.4, 0.4, 0.4]

    Args:
        kind: `"constant"`, `"linear"` or `"cosine"`.
        target: The epsilon to train for.
        ends: The updates at which periods end, in rising order; the last is the end of the training, and
            from there on epsilon stays.
        lowest: Where every period begins. Defaults to 0.
        highest: Where the rise would end. Defaults to `2 * target`, with `warm_up` to `target`.
        warm_up: The length of the rise in updates. Defaults to the length of the period.
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
    ):
        check_choice("kind", kind, KINDS)
        ends = [int(end) for end in ends]
        check(
            len(ends) > 0 and ends[0] > 0 and all(a < b for a, b in itertools.pairwise(ends)),
            f"`ends` must be updates in rising order. Received: ends={ends}.",
        )
        if highest is None:
            highest = target if warm_up else 2 * target
        check(
            0 <= lowest <= target <= highest,
            "Epsilon rises from `lowest` towards `highest` and stops at `target`. "
            f"Received: lowest={lowest:g}, target={target:g}, highest={highest:g}.",
        )
        check(warm_up is None or warm_up > 0, f"`warm_up` must be larger than 0. Received: {warm_up}.")
        self.kind = kind
        self.target = target
        self.ends = ends
        self.lowest = lowest
        self.highest = highest
        self.warm_up = warm_up

    def __call__(self, update):
        """Epsilon before update number `update`, counted from 0; a scalar tensor."""
        if self.kind == "constant":
            return tf.constant(self.target, tf.float32)
        # Integers: float32 would lose count of steps after 2 ** 24.
        update = tf.minimum(tf.cast(update, tf.int64), self.ends[-1])
        starts = tf.constant([0, *self.ends[:-1]], tf.int64)
        period = tf.reduce_sum(tf.cast(update >= starts, tf.int32)) - 1
        start = tf.gather(starts, period)
        whole = tf.gather(tf.constant(self.ends, tf.int64), period) - start
        length = self.warm_up or tf.cast(whole, tf.float32)
        done = tf.minimum(tf.cast(update - start, tf.float32) / length, 1.0)
        risen = done if self.kind == "linear" else 0.5 * (1.0 - tf.cos(math.pi * done))
        return tf.minimum(self.lowest + (self.highest - self.lowest) * risen, self.target)
