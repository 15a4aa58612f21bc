"""Averages of the weights: a second classifier that is updated along with the one in training.

Robust accuracy of averaged weights is usually higher and decreases later (Gowal et al., 2020; Rebuffi et al.,
2021). The average is what is validated, saved and exported.
"""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from athe_tf.training.options import AverageOptions
from athe_tf.utils.errors import InputError
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
        start: Number of updates before k is counted; until then the average is a copy of the weights.
            Defaults to 0.
        constant: Keep the share `decay` from the first update on. Defaults to `False`.
        statistics: `"copied"` (default), or `"averaged"`: the moving statistics, like the weights.
    """

    def __init__(self, decay: float, start: float = 0, constant: bool = False, statistics: str = "copied"):
        check_option(AverageOptions, "ema", decay, "decay")
        check_option(AverageOptions, "ema_start", start, "start")
        check_option(AverageOptions, "ema_statistics", statistics, "statistics")
        self.decay, self.start, self.constant, self.statistics = decay, start, constant, statistics

    def __repr__(self) -> str:
        values = {name: getattr(self, name) for name in ("start", "constant", "statistics")}
        given = [f", {name}={value!r}" for name, value in values.items() if value not in (0, "copied")]
        return f"EMA({self.decay}{''.join(given)})"

    def after_update(self, net: keras.Model, updates) -> None:
        k = tf.cast(tf.convert_to_tensor(updates), tf.float64) - 1 - self.start
        kept = tf.constant(self.decay, tf.float64)
        if not self.constant:
            kept = tf.minimum(kept, (1.0 + k) / (10.0 + k))
        kept = tf.where(k >= 0, kept, 0.0)

        def mean(average, weight):
            share = tf.cast(kept, average.dtype)
            return share * tf.convert_to_tensor(average) + (1 - share) * tf.convert_to_tensor(weight)

        move_average(self.averaged, net, mean, self.statistics == "averaged")


class SWA(WeightAverage, keras.callbacks.Callback):
    """Stochastic weight averaging: the mean of the weights at the ends of epochs (Izmailov et al., 2018).

    In adversarial training it postpones robust overfitting (Chen et al., 2021).

    One object is given twice: to the trainer as `average`, and to `fit` as a callback. Before epoch `start`
    the average is a copy of the weights. From then on it is the arithmetic mean of the weights at the ends of
    the epochs so far, and its batch normalization gets new statistics from one pass over the images of the
    epoch, because those of the single epochs do not fit averaged weights. The average is updated before the
    validation of its epoch. Its whole state is in the trainer's variables and the number of the epoch.

    Example:

    >>> swa = athe_tf.training.SWA(start=75, batches=lambda epoch: train)
    >>> trainer = athe_tf.training.PGDAT(net, attack, average=swa)
    >>> trainer.compile(athe_tf.training.TorchSGD(0.1))
    >>> history = trainer.fit(train, callbacks=[swa])

    Args:
        start: Number of epochs before the first that is averaged.
        batches: From the index of an epoch to its batches `(images, labels)`.
    """

    def __init__(self, start: int, batches: Callable):
        super().__init__()
        check_option(AverageOptions, "swa_start", start, "start")
        self.start, self.batches, self._epoch = start, batches, 0
        self._statistics: StatisticsPass | None = None

    def __repr__(self) -> str:
        return f"SWA(start={self.start})"

    def on_train_begin(self, logs=None):
        if self.averaged is None or self.averaged is not self.model.averaged:
            raise InputError(
                "This SWA does not average the weights of this trainer. Give it to the trainer too: "
                f"{type(self.model).__name__}(net, attack, average=swa)."
            )
        self._statistics = self._statistics or StatisticsPass(self.averaged, self.model.distribute_strategy)

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        # Keras validates before it calls on_epoch_end.
        if batch + 1 == self.params["steps"]:
            self.update(self._epoch)

    def update(self, epoch: int) -> None:
        """Adds the weights at the end of `epoch`, counted from 0, to the average."""
        before = max(0, epoch - self.start)

        def mean(average, weight):
            return (before * tf.convert_to_tensor(average) + tf.convert_to_tensor(weight)) / (before + 1)

        move_average(self.averaged, self.model.net, mean)
        if before and self._statistics is not None:
            self._statistics(self.batches(epoch))


def move_average(averaged: keras.Model, net: keras.Model, mean, statistics: bool = False) -> None:
    """Assigns `mean(average, weight)` to every averaged weight, and copies the moving statistics.

    With `statistics`, those are averaged too.
    """
    for average, weight in zip(averaged.trainable_variables, net.trainable_variables, strict=True):
        value = mean(average, weight)
        # The mean of two points on a sphere lies inside it, so constraints are applied again.
        average.assign(value if average.constraint is None else average.constraint(value))
    for copy, variable in zip(averaged.non_trainable_variables, net.non_trainable_variables, strict=True):
        moving = statistics and variable.name.startswith("moving_")
        copy.assign(mean(copy, variable) if moving else tf.convert_to_tensor(variable))


def freeze_like(copy: keras.Model, net: keras.Model) -> None:
    """Gives the layers of a copy of `net` the values of `trainable` that the layers of `net` have."""
    # A model comes before its layers, and setting its value sets theirs.
    for ours, theirs in zip(all_layers(copy), all_layers(net), strict=True):
        ours.trainable = theirs.trainable


class StatisticsPass:
    """Sets the moving statistics of a model to the mean of the statistics of many batches.

    Batches that `strategy` has distributed are passed over on all of its devices.
    """

    def __init__(self, net: keras.Model, strategy: Any = None):
        self.layers = [
            layer for layer in all_layers(net) if isinstance(layer, keras.layers.BatchNormalization)
        ]

        # Compiled once, with the value of `momentum` at its first call.
        def forward(x):
            if isinstance(x, tf.distribute.DistributedValues):
                strategy.run(lambda part: net(part, training=True), args=(x,))
            else:
                net(x, training=True)

        self._forward = tf.function(forward, autograph=False, reduce_retracing=True)

    def __call__(self, batches) -> None:
        """Passes over `batches` of `(images, labels)`."""
        moving = [v for layer in self.layers for v in (layer.moving_mean, layer.moving_variance)]
        if not moving:
            return
        totals: list = [0.0] * len(moving)
        count, kept = 0, [layer.momentum for layer in self.layers]
        try:
            for layer in self.layers:
                layer.momentum = 0.0  # a training pass then sets moving statistics to those of its batch
            for x, *_ in batches:
                self._forward(x)
                totals = [total + np.asarray(v, "float64") for total, v in zip(totals, moving, strict=True)]
                count += 1
        finally:
            for layer, momentum in zip(self.layers, kept, strict=True):
                layer.momentum = momentum
        for variable, total in zip(moving, totals, strict=True):
            variable.assign(total / count)
