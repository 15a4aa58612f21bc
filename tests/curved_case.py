"""A small untrained network: curved enough for steps, restarts and targets to matter."""

import keras

import athe_tf


def curved_model(shape, classes=4, convolutions=2, activation="relu", normalized=False):
    """Convolutions, the first of them with batch normalization where wanted, and a hypersphere head."""
    keras.utils.set_random_seed(0)
    h = inputs = keras.Input(shape)
    for index in range(convolutions):
        h = keras.layers.Conv2D(8, 3, activation=activation)(h)
        h = keras.layers.BatchNormalization()(h) if normalized and index == 0 else h
    return keras.Model(inputs, athe_tf.CosineDense(classes, name="head")(keras.layers.Flatten()(h)))
