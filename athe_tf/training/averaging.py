"""An exponential moving average of the weights, a classifier of its own.

Robust accuracy of the averaged weights is usually higher and falls later (Gowal et al., 2020; Rebuffi et
al., 2021).
"""

import keras
import tensorflow as tf


def copy_of(net: keras.Model) -> keras.Model:
    """Another model with the same layers and the same weights."""
    copy = keras.models.clone_model(net)
    copy.set_weights(net.get_weights())
    return copy


def update_average(averaged: keras.Model, net: keras.Model, decay: float, updates) -> None:
    """Moves the average towards the weights after their update number `updates`, counted from 1.

    With k = updates - 1 the share of the old average is min(decay, (1 + k) / (10 + k)): 0.1 at first, so that
    the initial weights are soon forgotten. Moving statistics are copied: they are averages already.
    """
    k = tf.cast(tf.maximum(tf.convert_to_tensor(updates) - 1, 0), tf.float32)
    kept = tf.minimum(decay, (1.0 + k) / (10.0 + k))
    for average, weight in zip(averaged.trainable_variables, net.trainable_variables, strict=True):
        share = tf.cast(kept, average.dtype)
        value = share * tf.convert_to_tensor(average) + (1 - share) * tf.convert_to_tensor(weight)
        # The mean of two points of a sphere lies inside it.
        average.assign(value if average.constraint is None else average.constraint(value))
    for copy, variable in zip(averaged.non_trainable_variables, net.non_trainable_variables, strict=True):
        copy.assign(tf.convert_to_tensor(variable))
