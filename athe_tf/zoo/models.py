"""`load`: the models of the zoo."""

import keras

from athe_tf.saving.keras_file import load_model
from athe_tf.zoo.cards import model_file


def load(name: str) -> keras.Model:
    """Loads a model of the zoo: a classifier of images in [0, 1] that outputs logits.

    Example:

    >>> net = athe_tf.zoo.load("cifar10-fast-at-he-wrn10-1")
    >>> net.input_shape
    (None, 32, 32, 3)

    Args:
        name: One of `athe_tf.zoo.names()`.
    """
    return load_model(model_file(name))
