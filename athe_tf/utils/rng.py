"""Random numbers per example, independent of the batch.

Every number is a pure function of (seed, stream, example id, element index), computed by an integer hash.
So neither the batch size, nor the number of replicas, nor a resume, nor which other images are in the
batch changes the noise of an image. TensorFlow's stateless generators take one seed for a whole tensor
and cannot do this.

The hash is two rounds of xor-shift and multiply with constants found by exhaustive search for low bias
(Chris Wellons, "Prospecting for hash functions", 2018).
"""

import math

import tensorflow as tf


def _mix(h):
    h = tf.bitwise.bitwise_xor(h, tf.bitwise.right_shift(h, tf.constant(16, tf.uint32)))
    h = h * tf.constant(0x7FEB352D, tf.uint32)
    h = tf.bitwise.bitwise_xor(h, tf.bitwise.right_shift(h, tf.constant(15, tf.uint32)))
    h = h * tf.constant(0x846CA68B, tf.uint32)
    return tf.bitwise.bitwise_xor(h, tf.bitwise.right_shift(h, tf.constant(16, tf.uint32)))


def _as_uint32(value):
    return tf.cast(tf.cast(value, tf.int64) & 0xFFFFFFFF, tf.uint32)


def fold(*values) -> tf.Tensor:
    """Mixes integers into one seed, such as `fold(seed, iteration)`. The order matters."""
    h = tf.constant(0x9E3779B9, tf.uint32)
    for value in values:
        h = _mix(h + _as_uint32(value))
    return h


def bits(seed, ids, shape, stream: int = 0) -> tf.Tensor:
    """Random uint32 of shape `[len(ids), *shape]`.

    Args:
        seed: An integer or an integer tensor.
        ids: Integer tensor `[N]`; equal ids give equal rows.
        shape: The shape of a row.
        stream: Selects one of several independent sequences of the same example.
    """
    keys = _mix(fold(seed, stream) + _mix(_as_uint32(ids)))
    columns = _mix(tf.cast(tf.range(math.prod(shape)), tf.uint32))
    h = _mix(keys[:, tf.newaxis] + columns[tf.newaxis, :])
    return tf.reshape(h, [-1, *shape])


def uniform(seed, ids, shape, low=-1.0, high=1.0, stream: int = 0, dtype=tf.float32) -> tf.Tensor:
    """Uniform in `[low, high)`, of shape `[len(ids), *shape]`; the same numbers in float32 and float64."""
    # 24 bits fill a float32 mantissa exactly; more would round up to `high`.
    mantissa = tf.bitwise.right_shift(bits(seed, ids, shape, stream), tf.constant(8, tf.uint32))
    return low + tf.cast(mantissa, dtype) * (2.0**-24 * (high - low))


def normal(seed, ids, shape, stream: int = 0, dtype=tf.float32) -> tf.Tensor:
    """Standard normal of shape `[len(ids), *shape]`, by Box and Muller's transform."""
    # 1 - U lies in (0, 1], where the logarithm is finite.
    radius = tf.sqrt(-2.0 * tf.math.log1p(-uniform(seed, ids, shape, 0.0, 1.0, stream, dtype)))
    return radius * tf.cos(uniform(fold(seed, 0x5EED), ids, shape, -math.pi, math.pi, stream, dtype))


def rademacher(seed, ids, shape, stream: int = 0, dtype=tf.float32) -> tf.Tensor:
    """Plus or minus one with equal probability, of shape `[len(ids), *shape]`."""
    lowest = tf.bitwise.bitwise_and(bits(seed, ids, shape, stream), tf.constant(1, tf.uint32))
    return 1.0 - 2.0 * tf.cast(lowest, dtype)


def integers(seed, ids, shape, high: int, stream: int = 0) -> tf.Tensor:
    """Uniform int32 in `[0, high)`, of shape `[len(ids), *shape]`."""
    scaled = uniform(seed, ids, shape, 0.0, float(high), stream)
    return tf.minimum(tf.cast(scaled, tf.int32), high - 1)
