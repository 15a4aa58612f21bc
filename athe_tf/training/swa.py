"""Stochastic weight averaging: the mean of the weights at the end of many epochs (Izmailov et al., 2018).

In adversarial training it postpones robust overfitting (Chen et al., 2021). The average is what is validated,
kept as the best, and exported.
"""

import contextlib

import keras
import numpy as np
import tensorflow as tf

from athe_tf.utils.errors import InputError


class SWA(keras.callbacks.Callback):
    """Averages the weights of a trainer that was made with `swa=True`, at the end of each epoch.

    Before epoch `start` the average is a copy of the weights. From then on it is the arithmetic mean over the
    ends of the epochs so far, and its batch normalisation gets the statistics of one pass over the images of
    the epoch: those of the weights that were averaged would not fit. It is ready before the validation of its
    epoch. All of its state is in the trainer's variables and the number of the epoch.

    Args:
        start: Epochs that are over before the first that counts.
        batches: From the index of an epoch to its batches `(images, labels)`.
    """

    def __init__(self, start: int, batches):
        super().__init__()
        self.start = start
        self.batches = batches
        self._epoch = 0
        self._statistics: StatisticsPass | None = None

    def on_train_begin(self, logs=None):
        if self.model.averaged is None:
            raise InputError(
                f"There is no average to update. Make the trainer with swa=True: "
                f"{type(self.model).__name__}(net, attack, swa=True)."
            )
        self._statistics = self._statistics or StatisticsPass(self.model.averaged)

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        # Keras validates before it says that the epoch has ended.
        if batch + 1 == self.params["steps"]:
            self.update(self._epoch)

    def update(self, epoch: int) -> None:
        """Takes the weights at the end of `epoch`, counted from 0, into the average."""
        averaged, net = self.model.averaged, self.model.net
        before = max(0, epoch - self.start)
        for average, weight in zip(averaged.trainable_variables, net.trainable_variables, strict=True):
            value = (before * tf.convert_to_tensor(average) + tf.convert_to_tensor(weight)) / (before + 1)
            average.assign(value if average.constraint is None else average.constraint(value))
        for copy, variable in zip(averaged.non_trainable_variables, net.non_trainable_variables, strict=True):
            copy.assign(tf.convert_to_tensor(variable))
        if before and self._statistics is not None:
            self._statistics(self.batches(epoch))


class StatisticsPass:
    """Sets the moving statistics of a model to the mean of those of many batches."""

    def __init__(self, net: keras.Model):
        self.layers = [
            layer for layer in net._flatten_layers() if isinstance(layer, keras.layers.BatchNormalization)
        ]
        # Compiled once, with what `momentum` is at its first call.
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
    """Inside, a training pass sets moving statistics to those of its batch."""
    kept = [layer.momentum for layer in layers]
    for layer in layers:
        layer.momentum = 0.0
    try:
        yield
    finally:
        for layer, momentum in zip(layers, kept, strict=True):
            layer.momentum = momentum
