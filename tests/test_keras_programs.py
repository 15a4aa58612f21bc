"""Typical Keras programs run unchanged but for their head and their loss."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from athe_tf import CosineDense, MarginCrossentropy

RNG = np.random.default_rng(0)
Y = np.arange(32) % 4
# Each class is bright in a corner of its own.
X = RNG.uniform(0, 0.5, (32, 8, 8, 1)).astype("float32")
for label, (row, column) in enumerate([(0, 0), (0, 4), (4, 0), (4, 4)]):
    X[label == Y, row : row + 4, column : column + 4] += 0.5


def sequential():
    layers = [keras.layers.Flatten(), keras.layers.Dense(16, activation="relu"), CosineDense(4, scale=10.0)]
    return keras.Sequential([keras.Input((8, 8, 1)), *layers])


def functional():
    inputs = keras.Input((8, 8, 1))
    h = keras.layers.BatchNormalization()(keras.layers.Conv2D(8, 3, activation="relu")(inputs))
    h = keras.layers.Dropout(0.1)(keras.layers.Flatten()(h))
    return keras.Model(inputs, CosineDense(4, scale=10.0, name="logits")(h))


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.flatten, self.hidden = keras.layers.Flatten(), keras.layers.Dense(16, activation="relu")
        self.head = CosineDense(4, scale=10.0)

    def call(self, images):
        return self.head(self.hidden(self.flatten(images)))


@pytest.mark.parametrize("make, form", [(sequential, "cosine"), (functional, "arc"), (Subclassed, "arc")])
def test_a_model_learns_with_fit(make, form):
    keras.utils.set_random_seed(0)
    model = make()
    model.compile(
        keras.optimizers.Adam(0.01), MarginCrossentropy.for_head(model, 0.2, form=form), metrics=["accuracy"]
    )
    model.fit(X, Y, batch_size=8, epochs=10, verbose=0)
    assert model.evaluate(X, Y, verbose=0, return_dict=True)["accuracy"] > 0.9
    assert (model.predict(X, verbose=0).argmax(axis=1) == Y).mean() > 0.9


def test_mixup_in_tf_data_gives_soft_labels():
    keras.utils.set_random_seed(0)
    model = functional()

    def mixed(x, y):
        share = tf.random.stateless_uniform([tf.shape(x)[0], 1], [1, 2])
        pixels = share[..., tf.newaxis, tf.newaxis]
        images = pixels * x + (1 - pixels) * tf.reverse(x, [0])
        return images, share * y + (1 - share) * tf.reverse(y, [0])

    data = tf.data.Dataset.from_tensor_slices((X, np.eye(4, dtype="float32")[Y])).shuffle(32, seed=0)
    model.compile(keras.optimizers.Adam(0.01), MarginCrossentropy.for_head(model, 0.2), metrics=["accuracy"])
    losses = model.fit(data.batch(8).map(mixed), epochs=4, verbose=0).history["loss"]
    assert losses[-1] < losses[0]


def test_a_backbone_of_keras_applications_is_trained():
    backbone = keras.applications.MobileNetV2(
        (32, 32, 3), include_top=False, pooling="avg", weights=None, alpha=0.35
    )
    inputs = keras.Input((32, 32, 3))
    model = keras.Model(inputs, CosineDense(4)(backbone(keras.layers.Rescaling(2.0, -1.0)(inputs))))
    model.compile("sgd", loss=MarginCrossentropy.for_head(model, 0.2), run_eagerly=True)
    kernel = model.layers[-1].kernel.numpy()
    loss = model.train_on_batch(RNG.uniform(size=(4, 32, 32, 3)).astype("float32"), np.arange(4))
    assert np.isfinite(loss) and (model.layers[-1].kernel.numpy() != kernel).any()
