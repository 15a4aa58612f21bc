"""The threat model: how far an image may be moved, and the geometry that attacks need of it.

A norm is three verbs and a ruler: where to start (`random_start`), which way is steepest (`ascent`), how
to come back (`project`), and how far one went (`distance`). Images are batches `[N, H, W, C]` in [0, 1].
All that depends on the norm is a method or an attribute here; attacks do not switch on its name.
"""

import math

import numpy as np
import tensorflow as tf

from athe_tf.utils import rng
from athe_tf.utils.choices import NORMS, STARTS, check_epsilon
from athe_tf.utils.errors import check_choice

# The start of the released TRADES and HE code: x + 0.001 N(0, I).
GAUSSIAN_START = 0.001
TINY = 1e-12
# A norm is the rounded sum of rounded differences: a strict comparison would reject images on the sphere.
TOLERANCE = 1e-6
# More than any projection to an l1 ball was seen to need, for rows without an answer (NaN).
MOST_NEWTON_STEPS = 60
# The highest level of a pixel in an 8-bit image.
LEVELS = 255


def per_example(values):
    """`[N]` to `[N, 1, 1, 1]`, to broadcast against a batch of images."""
    return tf.reshape(values, [-1, 1, 1, 1])


def flat(x):
    """Images as rows: `[N, H, W, C]` to `[N, H * W * C]`."""
    return tf.reshape(x, [tf.shape(x)[0], -1])


def nearest_level(x):
    """Pixels of [0, 1] as whole numbers from 0 to 255, as PNG stores them.

    Halves are rounded up: unlike rounding to even, that commutes with a move by whole levels, so that two
    images whose difference is a whole number of levels keep it.
    """
    return tf.floor(LEVELS * x + 0.5)


class ThreatModel:
    """All images within `epsilon` of the original in some norm, and within [0, 1].

    Example:

    >>> ball = threat_model("l2", 0.5)
    >>> float(ball.length(ball.project_perturbation(tf.ones([1, 2, 2, 1])))[0])
    0.5

    Args:
        epsilon: Radius in pixels of [0, 1], as 8/255; a number, a tensor for a schedule, or one radius per
            example, `[N, 1, 1, 1]`.

    Attributes:
        norm: The name of the norm.
        order: The p of the lp norm: infinity, 2 or 1.
        sparse: Whether the steepest direction moves few pixels, as it does in l1.
    """

    norm: str
    order: float
    sparse = False

    def __init__(self, epsilon):
        if not tf.is_tensor(epsilon) and not isinstance(epsilon, tf.Variable):
            epsilon = float(epsilon)
            check_epsilon(self.norm, epsilon)
        self.epsilon = epsilon

    @property
    def radii(self):
        """Epsilon as a vector: `[N]` if every example has its own, else `[1]`."""
        return tf.reshape(self.epsilon, [-1])

    def project(self, x, x_adv):
        """The admissible point for `x_adv`: inside the ball around `x` and inside [0, 1]."""
        raise NotImplementedError

    def projector(self, x):
        """`project` around a fixed `x`, for loops: what does not change is computed once."""
        return lambda x_adv: self.project(x, x_adv)

    def project_perturbation(self, delta, epsilon=None):
        """The nearest perturbation inside the ball, wherever the image is.

        Args:
            delta: Perturbations `[N, H, W, C]`.
            epsilon: Another radius than the threat model's, or one per example, `[N, 1, 1, 1]`.
        """
        return self._into_ball(delta, self.epsilon if epsilon is None else epsilon)

    def _into_ball(self, delta, epsilon):
        """`delta`, shortened to the radius; the nearest point in l2."""
        return delta * tf.minimum(epsilon / tf.maximum(per_example(self.length(delta)), TINY), 1.0)

    def stretch(self, x, delta):
        """`x` moved by `delta`, which is brought to the length epsilon, and clipped to [0, 1]."""
        raise NotImplementedError

    def ascent(self, gradient):
        """The direction of length one (in this norm) along which a loss with this gradient rises most."""
        raise NotImplementedError

    def uniform_start(self, x, ids, seed):
        """Noise drawn uniformly from the ball."""
        raise NotImplementedError

    def random_direction(self, seed, ids, shape):
        """Noise that may point anywhere, of any length."""
        return rng.normal(seed, ids, shape)

    def length(self, delta, axes=None):
        """The norm of perturbations; one value per example, `[N]`.

        Args:
            delta: Perturbations `[N, ...]`.
            axes: Measure along these axes only, and keep them with size one.
        """
        if axes is None:
            return self._norm(flat(delta), 1, keepdims=False)
        return self._norm(delta, axes, keepdims=True)

    def dual_length(self, gradient):
        """The dual norm of gradients, which turns a difference of logits into a distance; `[N]`."""
        raise NotImplementedError

    def _norm(self, delta, axes, keepdims: bool):
        raise NotImplementedError

    def distance(self, x, x_adv):
        """The norm of `x_adv - x`; one value per example."""
        return self.length(x_adv - x)

    def within(self, norm):
        """Whether an image at this distance counts, up to rounding and never by more than 1e-6."""
        epsilon = tf.cast(self.epsilon, tf.float32)
        return norm <= epsilon + TOLERANCE * tf.minimum(epsilon, 1.0)

    def eight_bit(self, x, x_adv):
        """`x_adv` as a PNG file stores it: 8 bits per pixel, and in the ball around the 8-bit version of `x`.

        Every pixel goes to the nearest level. In an image that leaves the ball by that, the perturbation is
        rounded toward zero instead.

        Example:

        >>> x, x_adv = tf.fill([1, 1, 1, 1], 0.2), tf.fill([1, 1, 1, 1], 0.2145)
        >>> float(255 * threat_model("l2", 4 / 255).eight_bit(x, x_adv)[0, 0, 0, 0])
        55.0
        """
        clean, nearest = nearest_level(x), nearest_level(x_adv)
        delta = LEVELS * (x_adv - x)
        shortened = clean + tf.sign(delta) * tf.floor(tf.abs(delta))
        inside = self.within(self.length((nearest - clean) / LEVELS))
        return tf.where(per_example(inside), nearest, shortened) / LEVELS

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
    order = math.inf

    def project(self, x, x_adv):
        return self.projector(x)(x_adv)

    def projector(self, x):
        low = tf.maximum(x - self.epsilon, 0.0)
        high = tf.minimum(x + self.epsilon, 1.0)
        return lambda x_adv: tf.clip_by_value(x_adv, low, high)

    def _into_ball(self, delta, epsilon):
        return tf.clip_by_value(delta, -epsilon, epsilon)

    def stretch(self, x, delta):
        return tf.clip_by_value(x + self.epsilon * tf.sign(delta), 0.0, 1.0)

    def eight_bit(self, x, x_adv):
        clean, most = nearest_level(x), tf.floor(LEVELS * self.epsilon * (1 + TOLERANCE))
        return tf.clip_by_value(nearest_level(x_adv), clean - most, clean + most) / LEVELS

    def ascent(self, gradient):
        return tf.sign(gradient)

    def uniform_start(self, x, ids, seed):
        return self.epsilon * rng.uniform(seed, ids, x.shape[1:], dtype=x.dtype)

    def random_direction(self, seed, ids, shape):
        return rng.uniform(seed, ids, shape)

    def dual_length(self, gradient):
        return tf.reduce_sum(tf.abs(flat(gradient)), axis=1)

    def _norm(self, delta, axes, keepdims):
        return tf.reduce_max(tf.abs(delta), axes, keepdims=keepdims)


class L2(ThreatModel):
    """The Euclidean length of the perturbation is at most epsilon."""

    norm = "l2"
    order = 2

    def project(self, x, x_adv):
        # Clipping to the box only shortens the perturbation, so both constraints hold afterward.
        return tf.clip_by_value(x + self.project_perturbation(x_adv - x), 0.0, 1.0)

    def stretch(self, x, delta):
        delta *= self.epsilon / (self.length(delta, [1, 2, 3]) + TINY)
        return tf.clip_by_value(x + delta, 0.0, 1.0)

    def ascent(self, gradient):
        return gradient / (per_example(self.length(gradient)) + TINY)

    def uniform_start(self, x, ids, seed):
        shape = x.shape[1:]
        direction = self.ascent(rng.normal(seed, ids, shape, dtype=x.dtype))
        # The radius of a uniform point of a d-ball is distributed as U^(1/d).
        share = rng.uniform(seed, ids, (1, 1, 1), 0.0, 1.0, stream=1, dtype=x.dtype)
        radius = share ** (1.0 / math.prod(shape))
        return self.epsilon * radius * direction

    def dual_length(self, gradient):
        return self.length(gradient)

    def _norm(self, delta, axes, keepdims):
        return tf.sqrt(tf.reduce_sum(tf.square(delta), axes, keepdims=keepdims))


class L1(ThreatModel):
    """The absolute changes of all pixels add up to at most epsilon."""

    norm = "l1"
    order = 1
    sparse = True

    def project(self, x, x_adv):
        delta = super()._into_ball(project_l1_box(x, x_adv - x, self.epsilon), self.epsilon)
        return tf.clip_by_value(x + delta, 0.0, 1.0)

    def _into_ball(self, delta, epsilon):
        rows = flat(delta)
        shrunk = _shrink_to_l1(rows, 0.0, epsilon)
        # The projection is exact but for rounding: far points make the float32 sums of its threshold inexact.
        return super()._into_ball(tf.reshape(shrunk, tf.shape(delta)), epsilon)

    def stretch(self, x, delta):
        # By projection. Adding an image rounds thousands of small numbers, whose sum would exceed epsilon.
        return L1(self.epsilon * (1 - 1e-5)).project(x, x + delta)

    def ascent(self, gradient):
        """All of the step on the steepest coordinate; ties share it."""
        magnitude = tf.abs(gradient)
        largest = per_example(tf.reduce_max(flat(magnitude), axis=1))
        steepest = tf.sign(gradient) * tf.cast(magnitude >= tf.maximum(largest, TINY), gradient.dtype)
        return steepest / (per_example(tf.reduce_sum(flat(tf.abs(steepest)), axis=1)) + TINY)

    def uniform_start(self, x, ids, seed):
        # d+1 exponentials divided by their sum are uniform on the simplex; dropping one of them and
        # giving the others random signs is uniform in the l1 ball.
        shape = x.shape[1:]
        size = math.prod(shape)
        exponentials = -tf.math.log1p(-rng.uniform(seed, ids, (size + 1,), 0.0, 1.0, dtype=x.dtype))
        magnitudes = exponentials[:, :size] / tf.reduce_sum(exponentials, axis=1, keepdims=True)
        signs = rng.rademacher(seed, ids, shape, stream=1, dtype=x.dtype)
        return self.epsilon * signs * tf.reshape(magnitudes, [-1, *shape])

    def dual_length(self, gradient):
        return tf.reduce_max(tf.abs(flat(gradient)), axis=1)

    def _norm(self, delta, axes, keepdims):
        return tf.reduce_sum(tf.abs(delta), axes, keepdims=keepdims)


def project_l1_box(x, delta, epsilon):
    """The Euclidean projection of `delta` onto `{||v||_1 <= epsilon, 0 <= x + v <= 1}`.

    The optimality conditions shrink every |delta_i| by clip(t, excess_i, |delta_i|), where excess_i is
    how far x_i + delta_i left the box and t >= 0 is the multiplier of the l1 ball: zero when the point
    clipped to the box is short enough.
    """
    rows, moved = flat(delta), flat(x) + flat(delta)
    excess = tf.maximum(tf.maximum(moved - 1.0, -moved), 0.0)
    return tf.reshape(_shrink_to_l1(rows, excess, epsilon), tf.shape(delta))


def _shrink_to_l1(rows, excess, epsilon):
    """`rows`, each shrunk to an l1 length of at most epsilon, every entry by at least its excess."""
    magnitude = tf.abs(rows)
    epsilon = tf.reshape(tf.cast(epsilon, rows.dtype), [-1, 1])
    return tf.sign(rows) * _left(_l1_threshold(magnitude, excess, epsilon), magnitude, excess)


def _left(threshold, magnitude, excess):
    """What is left of magnitudes that are shrunk by a threshold, but by at least their excess."""
    left = magnitude - tf.minimum(tf.maximum(threshold, excess), magnitude)
    # Equal steps make equal magnitudes: what a rounded threshold leaves of them is none.
    return left * tf.cast(left > _rounding(magnitude) * magnitude, magnitude.dtype)


def _rounding(x) -> float:
    """A few units in the last place of numbers of this type, relative to them."""
    return 8 * float(np.finfo(x.dtype.as_numpy_dtype).eps)


def _l1_threshold(magnitude, excess, epsilon):
    """The threshold that leaves a sum of epsilon in each row; 0 where no more than that is left anyway.

    The sum falls with the threshold, piecewise linearly, with a corner at every excess and every magnitude.
    Newton's method ends after a handful of steps, in a tenth of the time of sorting the corners. If a step
    leaves the interval in which the threshold must lie, that interval is halved instead.
    """

    def step(threshold, low, high, _):
        surplus = tf.reduce_sum(_left(threshold, magnitude, excess), axis=1, keepdims=True) - epsilon
        low = tf.where(surplus > 0, threshold, low)
        high = tf.where(surplus > 0, high, threshold)
        falling = tf.logical_and(excess <= threshold, threshold < magnitude)
        slope = tf.reduce_sum(tf.cast(falling, magnitude.dtype), axis=1, keepdims=True)
        moved = threshold + surplus / slope  # infinite where the sum is flat
        moved = tf.where(tf.logical_and(low < moved, moved < high), moved, (low + high) / 2.0)
        moved = tf.where(tf.abs(surplus) <= _rounding(epsilon) * epsilon, threshold, moved)
        return moved, low, high, tf.reduce_any(moved != threshold)

    largest = tf.reduce_max(magnitude, axis=1, keepdims=True)
    loop = (tf.zeros_like(largest), tf.zeros_like(largest), largest, tf.constant(True))
    return tf.while_loop(
        lambda *state: state[-1], step, loop, maximum_iterations=MOST_NEWTON_STEPS, parallel_iterations=1
    )[0]


def threat_model(norm: str, epsilon) -> ThreatModel:
    """The threat model of a norm's name.

    Example:

    >>> threat_model("linf", 8 / 255).epsilon
    0.03137254901960784
    """
    check_choice("norm", norm, NORMS)
    return next(threat for threat in (Linf, L2, L1) if threat.norm == norm)(epsilon)
