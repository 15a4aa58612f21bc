"""How Auto-PGD moves: where it starts, how it steps, when it returns to the best point.

`MomentumSteps` is for linf and l2 (Croce and Hein, 2020), `SparseSteps` for l1 (2021).
"""

import math
from typing import Any, NamedTuple

import tensorflow as tf

from athe_tf.threat import ThreatModel, per_example
from athe_tf.utils.where import where_rows

# The share of the new direction in a step; the rest repeats the last move (alpha of the paper).
NEW_DIRECTION_SHARE = 0.75
# The step size is halved if at most this share of the steps since the last checkpoint raised the loss (rho).
RISING_SHARE = 0.75


def checkpoints(steps: int) -> list[int]:
    """The steps after which the step size is reconsidered.

    The first interval is 22% of the steps, and each one is shorter by 3%, down to 6%. This is the counter
    of the released code; the formula of the paper rounds the third of a hundred steps to 58.

    Example:

    >>> checkpoints(100)
    [22, 41, 57, 70, 80, 87, 93, 99]
    """
    interval, shortest, shorter = (max(int(share * steps), 1) for share in (0.22, 0.06, 0.03))
    found, at = [], interval
    while at <= steps:
        found.append(at)
        interval = max(interval - shorter, shortest)
        at += interval
    return found


class Iterate(NamedTuple):
    """A point of the climb, with loss and gradient there."""

    x: Any
    gradient: Any
    loss: Any


def choose(flags, a: Iterate, b: Iterate) -> Iterate:
    """`a` where the flag is set, `b` elsewhere."""
    return Iterate(*(where_rows(flags, one, other) for one, other in zip(a, b, strict=True)))


class StepPolicy:
    """How APGD moves in a ball; `steps` counts the whole climb."""

    def __init__(self, threat: ThreatModel, steps: int):
        self.threat, self.steps = threat, steps

    def start(self, x, ids, seed):
        """A random point, before its projection."""
        raise NotImplementedError

    def memory(self, x, start, resumed: bool) -> list:
        """Tensors, one row per example, that are carried from step to step.

        `resumed` says that the start was the best point of an earlier climb.
        """
        raise NotImplementedError

    def checkpoint(self, i, x, here: Iterate, best: Iterate, memory: list):
        """`(the point to continue from, memory)` after the i-th point was measured."""
        raise NotImplementedError

    def step(self, i, x, here: Iterate, memory: list):
        """`(the next point, memory)`."""
        raise NotImplementedError


class MomentumSteps(StepPolicy):
    """Steps with momentum, first of 2 epsilon; halved at checkpoints if the loss did not rise enough."""

    def __init__(self, threat, steps):
        super().__init__(threat, steps)
        self.checkpoints = checkpoints(steps)

    def start(self, x, ids, seed):
        """A point on the surface of the ball."""
        noise = self.threat.random_direction(seed, ids, x.shape[1:])
        return x + self.threat.epsilon * noise / per_example(self.threat.length(noise) + 1e-12)

    def memory(self, x, start, resumed):
        none = tf.zeros(tf.shape(x)[:1])
        step_size = none + 2.0 * self.threat.radii
        rises = tf.cast(none, tf.int32)
        # An infinite last loss: the start does not count as a rise. "Halved at the last checkpoint" turns the
        # second condition off at the first.
        return [start, step_size, rises, none + math.inf, none - math.inf, none < 1.0]

    def checkpoint(self, i, x, here, best, memory):
        last_x, step_size, rises, last_loss, checked_loss, was_halved = memory
        rises += tf.cast(here.loss > last_loss, tf.int32)
        due = tf.reduce_any(tf.equal(i, self.checkpoints))
        interval = i - tf.reduce_max(tf.where(tf.less(self.checkpoints, i), self.checkpoints, 0))
        few_rises = tf.cast(rises, tf.float32) <= RISING_SHARE * tf.cast(interval, tf.float32)
        stuck = tf.logical_and(tf.logical_not(was_halved), checked_loss >= best.loss)
        halve = tf.logical_and(due, tf.logical_or(few_rises, stuck))
        memory = [
            last_x,
            tf.where(halve, step_size / 2.0, step_size),
            tf.where(due, 0, rises),
            here.loss,
            tf.where(due, best.loss, checked_loss),
            tf.where(due, halve, was_halved),
        ]
        return choose(halve, best, here), memory

    def step(self, i, x, here, memory):
        last_x, step_size, *rest = memory
        share = tf.where(tf.equal(i, 0), 1.0, NEW_DIRECTION_SHARE)
        project = self.threat.projector(x)
        ahead = project(here.x + per_example(step_size) * self.threat.ascent(here.gradient))
        moved = here.x + share * (ahead - here.x) + (1.0 - share) * (here.x - last_x)
        return project(moved), [here.x, step_size, *rest]


class SparseSteps(StepPolicy):
    """Sparse steps for l1: only the steepest pixels move, as many as the best point suggests.

    Every 4% of the steps the number of pixels is set by the sparsity of the best perturbation. If that
    has become sparser, the step size is reset to epsilon and the climb continues from the best point;
    otherwise the step size shrinks by 1.5, down to a tenth of epsilon.
    """

    shrink = 1.5

    def start(self, x, ids, seed):
        """Normal noise, of which the projection leaves a few pixels."""
        return x + self.threat.random_direction(seed, ids, x.shape[1:])

    def memory(self, x, start, resumed):
        none = tf.zeros(tf.shape(x)[:1])
        size = float(math.prod(x.shape[1:]))
        moved = self._moved_pixels(x, start) if resumed else none + size
        pixels = moved / self.shrink if resumed else none + 0.2 * size
        return [none + self.threat.radii, pixels, moved]

    def checkpoint(self, i, x, here, best, memory):
        step_size, pixels, last_moved = memory
        due = tf.logical_and(i > 0, tf.equal(i % max(int(0.04 * self.steps), 1), 0))
        moved = self._moved_pixels(x, best.x)
        sparser = moved < 0.95 * last_moved
        epsilon = self.threat.radii
        shorter = tf.maximum(step_size / self.shrink, epsilon / 10.0)
        memory = [
            tf.where(due, tf.where(sparser, tf.zeros_like(shorter) + epsilon, shorter), step_size),
            tf.where(due, moved / self.shrink, pixels),
            tf.where(due, moved, last_moved),
        ]
        return choose(tf.logical_and(due, sparser), best, here), memory

    def step(self, i, x, here, memory):
        step_size, pixels, _ = memory
        direction = sparse_sign(here.gradient, pixels)
        return self.threat.project(x, here.x + per_example(step_size) * direction), memory

    @staticmethod
    def _moved_pixels(x, x_adv):
        return tf.reduce_sum(tf.cast(tf.not_equal(x, x_adv), tf.float32), axis=[1, 2, 3])


def sparse_sign(gradient, pixels):
    """The signs of the `pixels` steepest entries of each example; of l1 norm one."""
    size = math.prod(gradient.shape[1:])
    ascending = tf.sort(tf.reshape(tf.abs(gradient), [-1, size]), axis=1)
    # Rounded down, so that two pixels can become one. The released code rounds up, stays at two, and misses
    # the best vertex of the ball on small images.
    count = tf.clip_by_value(tf.cast(pixels, tf.int32), 1, size)
    threshold = tf.gather(ascending, size - count, batch_dims=1)
    chosen = tf.cast(tf.abs(gradient) >= per_example(threshold), gradient.dtype)
    signs = tf.sign(gradient) * chosen
    return signs / (tf.reduce_sum(tf.abs(signs), axis=[1, 2, 3], keepdims=True) + 1e-10)


def step_policy(threat: ThreatModel, steps: int) -> StepPolicy:
    """How APGD moves in a threat model."""
    return (SparseSteps if threat.sparse else MomentumSteps)(threat, steps)
