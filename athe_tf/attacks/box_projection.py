"""The shortest way from a point of the unit box to a hyperplane, without leaving the box.

`min ||d||_p` so that `<normal, x + d> = b` and `0 <= x + d <= 1`, for p = inf, 2, 1: the step of FAB. Every
coordinate moves toward the hyperplane, by no more than the room that the box leaves it; the norm decides
how they share the work. All three are exact. Points are rows `[N, D]`.
"""

import tensorflow as tf

from athe_tf.utils.where import where_rows


def to_hyperplane(x, normal, gap, norm: str):
    """The perturbation `d` of least norm that brings points of the box onto a hyperplane.

    Where no point of the box is on the hyperplane, every coordinate goes as far as the box allows: to the
    corner that is nearest to it. Coordinates on which the hyperplane does not depend stay.

    Args:
        x: Points in the unit box, `[N, D]`.
        normal: Normals of the hyperplanes, `[N, D]`.
        gap: `<normal, x> - b`, `[N]`: given, not computed, because it is a small difference of large numbers.
        norm: `"linf"`, `"l2"` or `"l1"`.
    """
    steepness, side = tf.abs(normal), tf.sign(gap)[:, tf.newaxis]
    room = where_rows(side * normal > 0, x, 1.0 - x) * tf.cast(steepness > 0, x.dtype)
    if norm == "l1":
        length = _steepest_first(steepness, room, tf.abs(gap))
    else:
        speed = steepness if norm == "l2" else tf.ones_like(steepness)
        length = _raised(steepness, room, tf.abs(gap), speed)
    return -side * tf.sign(normal) * length


def _raised(steepness, room, work, speed):
    """`min(level * speed, room)`, with the level at which `sum(steepness * that)` equals the work.

    The sum is a concave, piecewise linear function of the level, so Newton's method started at zero rises
    to the root and never beyond, and is exact as soon as a step leaves no further coordinate without room.
    That takes a handful of steps where sorting the corners would take a sort.
    """
    possible, rise = steepness * room, steepness * speed

    def free_at(level):
        """1 for coordinates with room left, 0 for the others; products are faster than `tf.where`."""
        return tf.cast(level[:, tf.newaxis] * speed < room, speed.dtype)

    def newton(level, _):
        free = free_at(level)
        left = work - tf.reduce_sum((1.0 - free) * possible, axis=1)
        slope = tf.reduce_sum(free * rise, axis=1)
        higher = tf.where(slope > 0, tf.maximum(level, tf.math.divide_no_nan(left, slope)), level)
        return higher, tf.reduce_any(free_at(higher) < free, axis=1)

    impossible = tf.reduce_sum(possible, axis=1) <= work
    start = tf.where(impossible, steepness.dtype.max, tf.zeros_like(work))
    loop = start, tf.fill(tf.shape(work), True)
    level, _ = tf.while_loop(lambda _, changed: tf.reduce_any(changed), newton, loop)
    return tf.minimum(level[:, tf.newaxis] * speed, room)


def _steepest_first(steepness, room, work):
    """Coordinates use up their room in the order of their steepness; the last one in part."""
    order = tf.argsort(steepness, axis=1, direction="DESCENDING", stable=True)
    possible = tf.gather(steepness * room, order, batch_dims=1)
    # In double precision, for the sum of hundreds of thousands of pixels would drift.
    before = tf.cast(tf.cumsum(tf.cast(possible, tf.float64), axis=1, exclusive=True), work.dtype)
    part = tf.clip_by_value(tf.math.divide_no_nan(work[:, tf.newaxis] - before, possible), 0.0, 1.0)
    return room * tf.gather(part, tf.argsort(order, axis=1), batch_dims=1)
