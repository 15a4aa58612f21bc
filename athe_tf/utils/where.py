"""`tf.where` for whole images, or whole pixels, where speed matters."""

import tensorflow as tf


def where_rows(flags, a, b):
    """`a` where the flag is set, `b` elsewhere; nothing is broadcast but the flags.

    `tf.where` is `SelectV2`, which takes seven times as long on images: 0.52 against 0.08 ms for 70 images of
    CIFAR-10, 0.79 against 0.11 ms with one flag per image. An attack does this several times per step.

    Example:

    >>> where_rows(tf.constant([True, False]), tf.ones([2, 3]), tf.zeros([2, 3])).numpy().tolist()
    [[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]

    Args:
        flags: Booleans, one per row `[N]`, or of the shape of `a`.
        a: Tensor `[N, ...]`.
        b: Tensor of the same shape and dtype.
    """
    return tf.compat.v1.where(flags, a, b)


def where_pixels(flags, a, b):
    """`where_rows` with one flag per pixel, for all its channels.

    Example:

    >>> flags = tf.constant([True, False], shape=[1, 1, 2, 1])
    >>> where_pixels(flags, tf.ones([1, 1, 2, 3]), tf.zeros([1, 1, 2, 3])).numpy().tolist()
    [[[[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]]]

    Args:
        flags: Booleans `[N, H, W, 1]`.
        a: Images `[N, H, W, C]`.
        b: Images of the same shape and dtype.
    """
    shape = tf.shape(a)
    a, b = (tf.reshape(images, [-1, images.shape[-1]]) for images in (a, b))
    return tf.reshape(where_rows(tf.reshape(flags, [-1]), a, b), shape)
