"""Layers with `trainable = False`: they keep their weights and their moving statistics."""

import keras

from athe_tf.utils.errors import check
from athe_tf.utils.keras_compat import all_layers


def check_trainable(net: keras.Model) -> None:
    """Raises `InputError` if nothing can be trained."""
    check(
        len(net.trainable_variables) > 0,
        f"The model '{net.name}' has no weights to train: all of its layers are frozen. Set "
        "`trainable = True` for some of them, such as the head.",
    )


def moving_variables(net: keras.Model) -> list:
    """The variables that a training step changes without a gradient: moving statistics of layers in training.

    Keras' `non_trainable_variables` also has the weights of frozen layers.
    """
    frozen = {id(v) for layer in all_layers(net) if not layer.trainable for v in layer.variables}
    return [variable for variable in net.non_trainable_variables if id(variable) not in frozen]


def freeze_like(copy: keras.Model, net: keras.Model) -> None:
    """Gives the layers of a copy of `net` the values of `trainable` that those of `net` have."""
    # A model comes before its layers, and setting its value sets theirs.
    for ours, theirs in zip(all_layers(copy), all_layers(net), strict=True):
        ours.trainable = theirs.trainable
