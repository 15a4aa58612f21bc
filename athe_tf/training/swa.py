"""Stochastic weight averaging: the mean of the weights at the end of many epochs (Izmailov et al., 2018).

In adversarial training it postpones robust overfitting (Chen et al., 2021).
"""

import contextlib
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from athe_tf.training.averaging import WeightAverage, move_average
from athe_tf.training.options import AverageOptions
from athe_tf.utils.errors import InputError
from athe_tf.utils.keras_compat import all_layers
from athe_tf.utils.options import check_option


class SWA(WeightAverage, keras.callbacks.Callback):
    """Averages the weights at the end of each epoch.

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
        self.start = start
        self.batches = batches
        self._epoch = 0
        self._statistics: StatisticsPass | None = None

    def __repr__(self) -> str:
        return f"SWA(start={self.start})"

    def on_train_begin(self, logs=None):
        if self.averaged is None or self.averaged is not self.model.averaged:
            raise InputError(
                "This SWA does not average the weights of this trainer. Give it to the trainer too: "
                f"{type(self.model).__name__}(net, attack, average=swa)."
            )
        self._statistics = self._statistics or StatisticsPass(self.averaged)

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


class StatisticsPass:
    """Sets the moving statistics of a model to the mean of those of many batches."""

    def __init__(self, net: keras.Model):
        self.layers = [
            layer for layer in all_layers(net) if isinstance(layer, keras.layers.BatchNormalization)
        ]
        # Compiled once, with the value of `momentum` at its first call.
        self._forward = tf.function(lambda x: net(x, training=True), autograph=False, reduce_retracing=True)

    def __call__(self, batches) -> None:
        """Passes over `batches` of `(images, labels)`."""
        moving = [v for layer in self.layers for v in (layer.moving_mean, layer.moving_variance)]
        if not moving:
            return
        totals: list = [0.0] * len(moving)
        count = 0
        with without_momentum(self.layers):
            for x, *_ in batches:
                self._forward(x)
                totals = [total + np.asarray(v, "float64") for total, v in zip(totals, moving, strict=True)]
                count += 1
        for variable, total in zip(moving, totals, strict=True):
            variable.assign(total / count)


@contextlib.contextmanager
def without_momentum(layers):
    """Context in which a training pass sets moving statistics to those of its batch."""
    kept = [layer.momentum for layer in layers]
    for layer in layers:
        layer.momentum = 0.0
    try:
        yield
    finally:
        for layer, momentum in zip(layers, kept, strict=True):
            layer.momentum = momentum
