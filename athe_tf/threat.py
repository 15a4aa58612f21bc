"""The threat model: how far an image may be moved, and the geometry that attacks need of it.

A norm is three verbs and a ruler: where to start (`random_start`), which way is steepest (`ascent`), how
to come back (`project`), and how far one went (`distance`). Images are batches `[N, H, W, C]` in [0, 1].
"""

import math

import tensorflow as tf

from athe_tf.utils import rng
from athe_tf.utils.errors import InputError, check, check_choice

STARTS = ("uniform", "gaussian", "zero")

# The start of the released TRADES and HE code: x + 0.001 N(0, I).
GAUSSIAN_START = 0.001
TINY = 1e-12


def per_example(values):
    """`[N]` to `[N, 1, 1, 1]`, to meet a batch of images."""
    return tf.reshape(values, [-1, 1, 1, 1])


def _flat(x):
    return tf.reshape(x, [tf.shape(x)[0], -1])


class ThreatModel:
    """All images within `epsilon` of the original in some norm, and within [0, 1].

    Args:
        epsilon: Radius in pixels of [0, 1], as 8/255; a number, or a tensor for a schedule.
    """

    norm: str
    largest_epsilon = math.inf

    def __init__(self, epsilon):
        if not tf.is_tensor(epsilon) and not isinstance(epsilon, tf.Variable):
            epsilon = float(epsilon)
            check(
                math.isfinite(epsilon) and epsilon >= 0,
                f"`epsilon` must be a number that is not negative. Received: epsilon={epsilon:g}.",
            )
            check(
                epsilon <= self.largest_epsilon,
                f"Pixels lie in [0, 1], so `epsilon` must not exceed {self.largest_epsilon:g} in "
                f"{self.norm}. Received: epsilon={epsilon:g}. Did you mean {epsilon:g}/255?",
            )
        self.epsilon = epsilon

    def project(self, x, x_adv):
        """The admissible point for `x_adv`: inside the ball around `x` and inside [0, 1]."""
        raise NotImplementedError

    def projector(self, x):
        """`project` around a fixed `x`, for loops: what does not change is computed once."""
        return lambda x_adv: self.project(x, x_adv)

    def ascent(self, gradient):
        """The direction of length one (in this norm) along which a loss with this gradient rises most."""
        raise NotImplementedError

    def uniform_start(self, x, ids, seed):
        """Noise drawn uniformly from the ball."""
        raise NotImplementedError

    def distance(self, x, x_adv):
        """The norm of `x_adv - x`; one number an example."""
        raise NotImplementedError

    def random_start(self, x, ids, seed, kind="uniform"):
        """An admissible point near `x`, a pure function of (seed, id of the example)."""
        if kind == "zero":
            return x
        if kind == "gaussian":
            noise = GAUSSIAN_START * rng.normal(seed, ids, x.shape[1:], dtype=x.dtype)
        else:
            check_choice("start", kind, STARTS)
            noise = self.uniform_start(x, ids, seed)
        return self.project(x, x + noise)


class Linf(ThreatModel):
    """No pixel moves by more than epsilon."""

    norm = "linf"
    largest_epsilon = 1.0

    def project(self, x, x_adv):
        return self.projector(x)(x_adv)

    def projector(self, x):
        low = tf.maximum(x - self.epsilon, 0.0)
        high = tf.minimum(x + self.epsilon, 1.0)
        return lambda x_adv: tf.clip_by_value(x_adv, low, high)

    def ascent(self, gradient):
        return tf.sign(gradient)

    def uniform_start(self, x, ids, seed):
        return self.epsilon * rng.uniform(seed, ids, x.shape[1:], dtype=x.dtype)

    def distance(self, x, x_adv):
        return tf.reduce_max(_flat(tf.abs(x_adv - x)), axis=1)


class L2(ThreatModel):
    """The Euclidean length of the perturbation is at most epsilon."""

    norm = "l2"

    def project(self, x, x_adv):
        delta = x_adv - x
        length = per_example(tf.norm(_flat(delta), axis=1))
        delta *= tf.minimum(self.epsilon / tf.maximum(length, TINY), 1.0)
        # Clipping to the box only shortens delta, so both constraints hold afterwards.
        return tf.clip_by_value(x + delta, 0.0, 1.0)

    def ascent(self, gradient):
        return gradient / (per_example(tf.norm(_flat(gradient), axis=1)) + TINY)

    def uniform_start(self, x, ids, seed):
        shape = x.shape[1:]
        direction = self.ascent(rng.normal(seed, ids, shape, dtype=x.dtype))
        # The radius of a uniform point of a d-ball is distributed as U^(1/d).
        share = rng.uniform(seed, ids, (1, 1, 1), 0.0, 1.0, stream=1, dtype=x.dtype)
        radius = share ** (1.0 / math.prod(shape))
        return self.epsilon * radius * direction

    def distance(self, x, x_adv):
        return tf.norm(_flat(x_adv - x), axis=1)


class L1(ThreatModel):
    """The absolute changes of all pixels add up to at most epsilon."""

    norm = "l1"

    def project(self, x, x_adv):
        delta = project_l1_box(x, x_adv - x, self.epsilon)
        # Exact but for rounding: the threshold is found by float32 sums, which a far point makes inexact.
        length = per_example(tf.reduce_sum(_flat(tf.abs(delta)), axis=1))
        delta *= tf.minimum(self.epsilon / tf.maximum(length, TINY), 1.0)
        return tf.clip_by_value(x + delta, 0.0, 1.0)

    def ascent(self, gradient):
        """All of the step on the steepest coordinate; ties share it."""
        magnitude = tf.abs(gradient)
        largest = per_example(tf.reduce_max(_flat(magnitude), axis=1))
        steepest = tf.sign(gradient) * tf.cast(magnitude >= tf.maximum(largest, TINY), gradient.dtype)
        return steepest / (per_example(tf.reduce_sum(_flat(tf.abs(steepest)), axis=1)) + TINY)

    def uniform_start(self, x, ids, seed):
        # d+1 exponentials divided by their sum are uniform on the simplex; dropping one of them and
        # giving the others random signs is uniform in the l1 ball.
        shape = x.shape[1:]
        size = math.prod(shape)
        exponentials = -tf.math.log1p(-rng.uniform(seed, ids, (size + 1,), 0.0, 1.0, dtype=x.dtype))
        magnitudes = exponentials[:, :size] / tf.reduce_sum(exponentials, axis=1, keepdims=True)
        signs = rng.rademacher(seed, ids, shape, stream=1, dtype=x.dtype)
        return self.epsilon * signs * tf.reshape(magnitudes, [-1, *shape])

    def distance(self, x, x_adv):
        return tf.reduce_sum(_flat(tf.abs(x_adv - x)), axis=1)


def project_l1_box(x, delta, epsilon):
    """The Euclidean projection of `delta` onto `{||v||_1 <= epsilon, 0 <= x + v <= 1}`.

    The optimality conditions shrink every |delta_i| by clip(t, excess_i, |delta_i|), where excess_i is
    how far x_i + delta_i left the box and t >= 0 is the multiplier of the l1 ball: zero when the point
    clipped to the box is short enough. What is left of the length is piecewise linear and falls with t,
    with corners at all excess_i and |delta_i|, so t is found by sorting the corners.
    """
    flat_x, flat = _flat(x), _flat(delta)
    magnitude = tf.abs(flat)
    excess = tf.maximum(tf.maximum(flat_x + flat - 1.0, -(flat_x + flat)), 0.0)
    # A coordinate contributes slope -1 between its two corners and 0 outside.
    corners = tf.concat([excess, magnitude], axis=1)
    slopes = tf.concat([-tf.ones_like(excess), tf.ones_like(magnitude)], axis=1)
    order = tf.argsort(corners, axis=1, stable=True)
    corners = tf.gather(corners, order, batch_dims=1)
    slope_after = tf.cumsum(tf.gather(slopes, order, batch_dims=1), axis=1)
    length_at_zero = tf.reduce_sum(magnitude - excess, axis=1, keepdims=True)
    falls = slope_after[:, :-1] * (corners[:, 1:] - corners[:, :-1])
    length = length_at_zero + tf.concat([tf.zeros_like(length_at_zero), tf.cumsum(falls, axis=1)], axis=1)
    # The last corner at which the length still is at least epsilon.
    index = tf.maximum(tf.reduce_sum(tf.cast(length >= epsilon, tf.int32), axis=1) - 1, 0)[:, tf.newaxis]
    corner, slope, there = (tf.gather(v, index, batch_dims=1) for v in (corners, slope_after, length))
    threshold = corner + (there - epsilon) / tf.maximum(-slope, 1.0)
    threshold = tf.where(length_at_zero <= epsilon, tf.zeros_like(threshold), threshold)
    shrink = tf.minimum(tf.maximum(threshold, excess), magnitude)
    return tf.reshape(tf.sign(flat) * (magnitude - shrink), tf.shape(delta))


NORMS = {"linf": Linf, "l2": L2, "l1": L1}


def threat_model(norm: str, epsilon) -> ThreatModel:
    """The threat model of a norm's name.

    Example:

    >>> threat_model("linf", 8 / 255).epsilon
    0.03137254901960784
    """
    if norm not in NORMS:
        raise InputError(
            f"Invalid value for argument `norm`. Expected one of {sorted(NORMS)}. Received: norm={norm!r}."
        )
    return NORMS[norm](epsilon)
