"""How Auto-PGD moves: where it starts, how it steps, when it goes back to the best point.

`MomentumPace` serves linf and l2 (Croce and Hein, 2020), `SparsePace` serves l1 (2021).
"""

import math
from typing import Any, NamedTuple

import tensorflow as tf

from athe_tf.threat import ThreatModel, per_example
from athe_tf.utils import rng

# The share of the new direction in a step; the rest repeats the last move (alpha of the paper).
FRESH = 0.75
# A stretch in which no more than this share of steps raised the loss was too bold (rho of the paper).
RISING_SHARE = 0.75


def checkpoints(steps: int) -> list[int]:
    """After which steps the step size is reconsidered.

    Stretches begin at 22 % of the steps and shorten by 3 % each, down to 6 %. This is the counter of the
    released code; the formula of the paper rounds the third of a hundred steps to 58.

    Example:

    >>> checkpoints(100)
    [22, 41, 57, 70, 80, 87, 93, 99]
    """
    stretch, shortest, shorter = (max(int(share * steps), 1) for share in (0.22, 0.06, 0.03))
    found, at = [], stretch
    while at <= steps:
        found.append(at)
        stretch = max(stretch - shorter, shortest)
        at += stretch
    return found


class Iterate(NamedTuple):
    """A point on the way, with what the model said there."""

    x: Any
    gradient: Any
    loss: Any


def choose(flags, a: Iterate, b: Iterate) -> Iterate:
    """`a` where the flag is set, `b` elsewhere."""
    wide = per_example(flags)
    return Iterate(
        tf.where(wide, a.x, b.x), tf.where(wide, a.gradient, b.gradient), tf.where(flags, a.loss, b.loss)
    )


class Pace:
    """How APGD moves in one norm.

    Args:
        threat: The ball.
        steps: The number of steps of the whole climb.
    """

    def __init__(self, threat: ThreatModel, steps: int):
        self.threat = threat
        self.steps = steps

    def start(self, x, ids, seed):
        """A random point, before its projection."""
        raise NotImplementedError

    def memory(self, x, start, resumed: bool) -> list:
        """Tensors, one row an example, that are carried from step to step.

        `resumed` says that the start was the best point of an earlier climb.
        """
        raise NotImplementedError

    def look(self, i, x, now: Iterate, best: Iterate, memory: list):
        """`(where to go on from, memory)` after the i-th point was measured."""
        raise NotImplementedError

    def step(self, i, x, now: Iterate, memory: list):
        """`(the next point, memory)`."""
        raise NotImplementedError


class MomentumPace(Pace):
    """Steps with momentum, from 2 epsilon; halved at the checkpoints when they bring too little."""

    def __init__(self, threat, steps):
        super().__init__(threat, steps)
        self.checkpoints = checkpoints(steps)

    def start(self, x, ids, seed):
        """A point on the surface of the ball."""
        draw = rng.uniform if self.threat.norm == "linf" else rng.normal
        noise = draw(seed, ids, x.shape[1:])
        length = self.threat.distance(tf.zeros_like(noise), noise)
        return x + self.threat.epsilon * noise / per_example(length + 1e-12)

    def memory(self, x, start, resumed):
        none = tf.zeros(tf.shape(x)[:1])
        step_size = none + 2.0 * self.threat.epsilon
        rises = tf.cast(none, tf.int32)
        # An infinite last loss: the start is no rise. "Halved at the last check" keeps the second
        # condition silent at the first.
        return [start, step_size, rises, none + math.inf, none - math.inf, none < 1.0]

    def look(self, i, x, now, best, memory):
        last_x, step_size, rises, last_loss, checked_loss, was_halved = memory
        rises += tf.cast(now.loss > last_loss, tf.int32)
        due = tf.reduce_any(tf.equal(i, self.checkpoints))
        stretch = i - tf.reduce_max(tf.where(tf.less(self.checkpoints, i), self.checkpoints, 0))
        few_rises = tf.cast(rises, tf.float32) <= RISING_SHARE * tf.cast(stretch, tf.float32)
        stuck = tf.logical_and(tf.logical_not(was_halved), checked_loss >= best.loss)
        halve = tf.logical_and(due, tf.logical_or(few_rises, stuck))
        memory = [
            last_x,
            tf.where(halve, step_size / 2.0, step_size),
            tf.where(due, 0, rises),
            now.loss,
            tf.where(due, best.loss, checked_loss),
            tf.where(due, halve, was_halved),
        ]
        return choose(halve, best, now), memory

    def step(self, i, x, now, memory):
        last_x, step_size, *rest = memory
        fresh = tf.where(tf.equal(i, 0), 1.0, FRESH)
        target = self.threat.project(x, now.x + per_example(step_size) * self.threat.ascent(now.gradient))
        moved = now.x + fresh * (target - now.x) + (1.0 - fresh) * (now.x - last_x)
        return self.threat.project(x, moved), [now.x, step_size, *rest]


class SparsePace(Pace):
    """Sparse steps for l1: only the steepest pixels move, as many as the best point suggests.

    Every 4 % of the steps the number of pixels follows the sparsity of the best perturbation. When that
    has become sparser, the step size is epsilon again and the climb goes on from the best point;
    otherwise the step size shrinks by 1.5, down to a tenth of epsilon.
    """

    shrink = 1.5

    def start(self, x, ids, seed):
        """Normal noise, of which the projection leaves a few pixels."""
        return x + rng.normal(seed, ids, x.shape[1:])

    def memory(self, x, start, resumed):
        none = tf.zeros(tf.shape(x)[:1])
        size = float(math.prod(x.shape[1:]))
        moved = self._moved_pixels(x, start) if resumed else none + size
        pixels = moved / self.shrink if resumed else none + 0.2 * size
        return [none + self.threat.epsilon, pixels, moved]

    def look(self, i, x, now, best, memory):
        step_size, pixels, last_moved = memory
        due = tf.logical_and(i > 0, tf.equal(i % max(int(0.04 * self.steps), 1), 0))
        moved = self._moved_pixels(x, best.x)
        sparser = moved < 0.95 * last_moved
        epsilon = self.threat.epsilon
        shorter = tf.maximum(step_size / self.shrink, epsilon / 10.0)
        memory = [
            tf.where(due, tf.where(sparser, tf.zeros_like(shorter) + epsilon, shorter), step_size),
            tf.where(due, moved / self.shrink, pixels),
            tf.where(due, moved, last_moved),
        ]
        return choose(tf.logical_and(due, sparser), best, now), memory

    def step(self, i, x, now, memory):
        step_size, pixels, _ = memory
        direction = sparse_sign(now.gradient, pixels)
        return self.threat.project(x, now.x + per_example(step_size) * direction), memory

    @staticmethod
    def _moved_pixels(x, x_adv):
        return tf.reduce_sum(tf.cast(tf.not_equal(x, x_adv), tf.float32), axis=[1, 2, 3])


def sparse_sign(gradient, pixels):
    """The signs of the steepest entries, as many as each example is given `pixels`; of l1 norm one."""
    size = math.prod(gradient.shape[1:])
    ascending = tf.sort(tf.reshape(tf.abs(gradient), [-1, size]), axis=1)
    # Rounded down, so that two pixels can become one. The released code rounds up, stays at two, and misses
    # the best vertex of the ball on small images.
    count = tf.clip_by_value(tf.cast(pixels, tf.int32), 1, size)
    threshold = tf.gather(ascending, size - count, batch_dims=1)
    chosen = tf.cast(tf.abs(gradient) >= per_example(threshold), gradient.dtype)
    signs = tf.sign(gradient) * chosen
    return signs / (tf.reduce_sum(tf.abs(signs), axis=[1, 2, 3], keepdims=True) + 1e-10)


PACES: dict[str, type[Pace]] = {"linf": MomentumPace, "l2": MomentumPace, "l1": SparsePace}
