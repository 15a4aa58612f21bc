"""The head and its loss under one backend of Keras; run by `test_backends.py`, prints findings as JSON.

`KERAS_BACKEND=jax python -m tests.backend_program FOLDER`. TensorFlow cannot be imported here unless it is
the backend.
"""

import json
import os
import sys

BACKEND = os.environ["KERAS_BACKEND"]
if BACKEND != "tensorflow":
    sys.modules["tensorflow"] = None  # type: ignore[assignment]

import athe_tf  # noqa: E402

athe_tf.layers.CosineDense  # noqa: B018

import keras  # noqa: E402
import numpy as np  # noqa: E402

from tests import margin_reference as reference  # noqa: E402

DTYPE = "float64" if BACKEND == "tensorflow" else "float32"
FORMS = ("cosine", "angle", "arc")
SCALE, MARGIN, CLASSES, FEATURES = 5.0, 0.8, 4, 3
RNG = np.random.default_rng(0)
X = RNG.normal(size=(32, FEATURES))
KERNEL = RNG.normal(size=(FEATURES, CLASSES))
# The class of the nearest weights, and for some images the farthest, whose angle the margin turns beyond pi.
COSINES = X / np.linalg.norm(X, axis=1, keepdims=True) @ (KERNEL / np.linalg.norm(KERNEL, axis=0))
Y = np.where(np.arange(32) < 24, COSINES.argmax(axis=1), COSINES.argmin(axis=1))


def known_head(form):
    layer = athe_tf.CosineDense(CLASSES, scale=SCALE, angular=form == "angle", dtype=DTYPE)
    layer.build((None, FEATURES))
    layer.kernel.assign(KERNEL)
    return layer


def gradient(function, x):
    """The gradient of a scalar function of a tensor, by the backend's own means."""
    if BACKEND == "jax":
        import jax

        return np.asarray(jax.grad(function)(x.astype(DTYPE)))
    if BACKEND == "torch":
        import torch

        tensor = torch.tensor(x.astype(DTYPE), requires_grad=True)
        function(tensor).backward()
        return tensor.grad.numpy()
    import tensorflow as tf

    tensor = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(tensor)
        value = function(tensor)
    return tape.gradient(value, tensor).numpy()


def errors_of_values_and_gradients(form):
    """The largest differences from NumPy: of the losses, and of the gradient of the features."""
    layer = known_head(form)
    loss = athe_tf.MarginCrossentropy.for_head(layer, MARGIN, form=form, reduction="none", dtype=DTYPE)
    expected = reference.loss_of_features(X, KERNEL, Y, MARGIN, form, SCALE)
    found = keras.ops.convert_to_numpy(loss(Y, layer(X)))
    slopes = reference.slopes(
        lambda x: reference.loss_of_features(x, KERNEL, Y, MARGIN, form, SCALE).sum(), X
    )
    gradients = gradient(lambda x: keras.ops.sum(loss(Y, layer(x))), X)
    return [float(np.abs(found - expected).max()), float(np.abs(gradients - slopes).max())]


def finite_at_zero_features(form):
    layer = known_head(form)
    loss = athe_tf.MarginCrossentropy.for_head(layer, MARGIN, form=form, dtype=DTYPE)
    zeros = np.zeros((CLASSES, FEATURES))
    return bool(np.isfinite(gradient(lambda x: loss(np.arange(CLASSES), layer(x)), zeros)).all())


def compiled_model(form, **kwargs):
    keras.utils.set_random_seed(0)
    inputs = keras.Input((FEATURES,))
    hidden = keras.layers.Dense(8, activation="tanh")(inputs)
    head = athe_tf.CosineDense(CLASSES, scale=SCALE, angular=form == "angle", sub_centers=2, name="head")
    model = keras.Model(inputs, head(hidden))
    loss = athe_tf.MarginCrossentropy(**{"margin": MARGIN, "scale": SCALE, "form": form} | kwargs)
    model.compile(keras.optimizers.Adam(0.02), loss, metrics=["accuracy"])
    return model


def losses_of_fit(form):
    """First and last loss of a few epochs: integer labels for one form, soft ones for the others."""
    labels = Y if form == "arc" else 0.9 * np.eye(CLASSES)[Y] + 0.1 / CLASSES
    losses = compiled_model(form).fit(X, labels, batch_size=8, epochs=5, verbose=0).history["loss"]
    return [losses[0], losses[-1]]


def round_trip(form, folder):
    """The largest difference of the logits after loading, and whether the loss came back."""
    model = compiled_model(form)
    path = os.path.join(folder, f"{form}.keras")
    model.save(path)
    again = keras.models.load_model(path)
    difference = np.abs(again.predict(X, verbose=0) - model.predict(X, verbose=0)).max()
    return [float(difference), again.loss.get_config() == model.loss.get_config()]


def message_of(call):
    try:
        return repr(call())
    except athe_tf.InputError as error:
        return str(error)


def main(folder):
    findings = {
        "backend": keras.backend.backend(),
        "tensorflow": sys.modules.get("tensorflow") is not None,
        "exact": {form: errors_of_values_and_gradients(form) for form in FORMS},
        "finite": [finite_at_zero_features(form) for form in FORMS],
        "fit": {form: losses_of_fit(form) for form in FORMS},
        "round_trip": {form: round_trip(form, folder) for form in FORMS},
        "scale": message_of(lambda: compiled_model("arc", scale=2.0).fit(X, Y, verbose=0)),
        "label": message_of(lambda: athe_tf.MarginCrossentropy()(np.array([0, 3]), np.zeros((2, 3)))),
        "soft": message_of(lambda: athe_tf.MarginCrossentropy()(np.full((1, 3), 0.5), np.zeros((1, 3)))),
    }
    if BACKEND == "jax":
        wrong = compiled_model("arc").fit(X, np.full(32, CLASSES), verbose=0)
        findings["label_in_fit"] = bool(np.isnan(wrong.history["loss"][0]))
    print(json.dumps(findings))


main(sys.argv[1])
