"""`with_input_range`: a classifier of images in another range than [0, 1]."""

from collections.abc import Sequence

import keras

from athe_tf.models.features import check_classifier
from athe_tf.utils.choices import check_input_range


def with_input_range(model: keras.Model, input_range: Sequence[float]) -> keras.Model:
    """A classifier that takes images in [0, 1], from one that takes another range, such as 0 to 255.

    Everything else in this library takes images in [0, 1], where the radius of an attack is measured. The
    returned model rescales its input and shares the layers of `model`.

    Example:

    >>> of_pixels = athe_tf.models.build("small_cnn", 10, input_shape=(8, 8, 1))
    >>> net = athe_tf.models.with_input_range(of_pixels, (0, 255))
    >>> net.layers[1].scale
    255

    Args:
        model: A Keras classifier.
        input_range: The smallest and the largest value of a pixel that `model` expects.
    """
    check_input_range(input_range, "`input_range`")
    check_classifier(model)
    low, high = input_range
    images = keras.Input(model.input_shape[1:], name="image")
    rescaled = keras.layers.Rescaling(high - low, low, dtype="float32", name="input_range")(images)
    return keras.Model(images, model(rescaled), name=model.name)
