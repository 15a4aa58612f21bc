"""Checks of the batches that `fit` and `evaluate` train and measure on."""

import functools
from collections.abc import Callable

import keras
import tensorflow as tf

from athe_tf.utils.graph_checks import checked, readable_errors
from athe_tf.utils.images_and_labels import DIVIDE, IMAGE_RULE, NORMALIZE_INSIDE, TOLERANCE
from athe_tf.utils.label_checks import checked_labels


def checked_images_and_labels(data, classes: int):
    """The same batch of `(images, labels)` or `(images, labels, weights)`, with its values checked.

    What `AdversarialModel.unpack` refuses by its dtype or shape is passed on to it.

    Args:
        data: A batch as Keras passes it to a step.
        classes: The number of classes.
    """
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    if y is None:
        return data
    y = y if _one_hot(y) else checked_labels(y, classes)
    return keras.utils.pack_x_y_sample_weight(checked_images(x), y, sample_weight)


def checked_images(images):
    """The same images; an error unless they lie in [0, 1]. Other dtypes than floats are not checked."""
    images = tf.convert_to_tensor(images)
    if not images.dtype.is_floating:
        return images
    # False for NaN.
    valid = tf.reduce_all(tf.abs(images - 0.5) <= 0.5 + TOLERANCE)
    low, high = tf.reduce_min(images), tf.reduce_max(images)
    pixels = (low >= 0) & (high <= 255)
    remedy = tf.where(pixels, DIVIDE, NORMALIZE_INSIDE)
    return checked(images, valid, f"{IMAGE_RULE}min=", low, ", max=", high, ". ", remedy)


def with_readable_errors(function: Callable) -> Callable:
    """The same function; a failed check of its batch is an `InputError` with a short message."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        with readable_errors():
            return function(*args, **kwargs)

    return call


def _one_hot(labels) -> bool:
    shape = tf.convert_to_tensor(labels).shape
    return shape.rank not in (None, 1) and shape[1:] != (1,)
