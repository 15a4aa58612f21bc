"""Averages of the weights: a second classifier that is updated along with the one in training.

Robust accuracy of averaged weights is usually higher and decreases later (Gowal et al., 2020; Rebuffi et al.,
2021). The average is what is validated, saved and exported.
"""

import keras
import tensorflow as tf

from athe_tf.training.options import AverageOptions
from athe_tf.utils.keras_compat import all_layers
from athe_tf.utils.options import check_option


class WeightAverage:
    """What an `AdversarialModel` takes as `average`: `EMA` or `SWA`.

    Example:

    >>> class LastWeights(WeightAverage):
    ...     def after_update(self, net, updates):
    ...         move_average(self.averaged, net, lambda average, weight: weight)
    >>> trainer = athe_tf.training.PGDAT(net, attack, average=LastWeights())
    """

    #: The averaged classifier, from `attach` on.
    averaged: keras.Model | None = None

    def attach(self, net: keras.Model) -> keras.Model:
        """Initializes the averaged classifier with a copy of the weights of `net`, and returns it."""
        self.averaged = keras.models.clone_model(net)
        self.averaged.set_weights(net.get_weights())
        return self.averaged

    def after_update(self, net: keras.Model, updates) -> None:
        """Called in every training step after update number `updates`, counted from 1; graph code."""


class EMA(WeightAverage):
    """An exponential moving average of the weights.

    With k updates before this one, the share of the old average is `min(decay, (1 + k) / (10 + k))`: 0.1 at
    first, so that the initial weights are soon forgotten. Moving statistics are copied: they are averages
    already.

    Example:

    >>> trainer = athe_tf.training.PGDAT(net, attack, average=athe_tf.training.EMA(0.995))

    Args:
        decay: Such as 0.995.
    """

    def __init__(self, decay: float):
        check_option(AverageOptions, "ema", decay, "decay")
        self.decay = decay

    def __repr__(self) -> str:
        return f"EMA({self.decay})"

    def after_update(self, net: keras.Model, updates) -> None:
        k = tf.cast(tf.maximum(tf.convert_to_tensor(updates) - 1, 0), tf.float32)
        kept = tf.minimum(self.decay, (1.0 + k) / (10.0 + k))

        def mean(average, weight):
            share = tf.cast(kept, average.dtype)
            return share * tf.convert_to_tensor(average) + (1 - share) * tf.convert_to_tensor(weight)

        move_average(self.averaged, net, mean)


def move_average(averaged: keras.Model, net: keras.Model, mean) -> None:
    """Assigns `mean(average, weight)` to every averaged weight, and copies the moving statistics."""
    for average, weight in zip(averaged.trainable_variables, net.trainable_variables, strict=True):
        value = mean(average, weight)
        # The mean of two points on a sphere lies inside it, so constraints are applied again.
        average.assign(value if average.constraint is None else average.constraint(value))
    for copy, variable in zip(averaged.non_trainable_variables, net.non_trainable_variables, strict=True):
        copy.assign(tf.convert_to_tensor(variable))


def freeze_like(copy: keras.Model, net: keras.Model) -> None:
    """Gives the layers of a copy of `net` the values of `trainable` that those of `net` have."""
    # A model comes before its layers, and setting its value sets theirs.
    for ours, theirs in zip(all_layers(copy), all_layers(net), strict=True):
        ours.trainable = theirs.trainable
