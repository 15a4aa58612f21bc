"""A linear classifier, whose distance to the decision boundary is known in closed form for every norm."""

import keras
import numpy as np

SHAPE = (4, 5, 2)
DUAL = {"linf": 1, "l2": 2, "l1": np.inf}


def linear_model(classes=5, seed=0, shape=SHAPE, scale=1.0, shift=0.0):
    """Logits `scale * (W^T x + b) + shift`."""
    rng = np.random.default_rng(seed)
    inputs = keras.Input(shape)
    outputs = keras.layers.Dense(classes, name="head")(keras.layers.Flatten()(inputs))
    model = keras.Model(inputs, outputs)
    size = int(np.prod(shape))
    kernel, bias = rng.normal(size=(size, classes)), rng.normal(size=classes) * 0.1
    model.layers[-1].set_weights([scale * kernel, scale * (bias - kernel.sum(0) / 2) + shift])
    return model


def gray_images(count=60, seed=1, shape=SHAPE):
    """Images far enough from 0 and 1 for the box not to matter."""
    return np.random.default_rng(seed).uniform(0.35, 0.65, (count, *shape)).astype("float32")


def predictions(model, x):
    return np.asarray(model(x)).argmax(1).astype("int32")


def radii(model, x, y, norm):
    """The least norm of a perturbation that changes the prediction, box aside."""
    kernel, bias = (np.asarray(w, "float64") for w in model.layers[-1].get_weights())
    logits = x.reshape(len(x), -1).astype("float64") @ kernel + bias
    result = np.full(len(x), np.inf)
    for other in range(kernel.shape[1]):
        gap = logits[np.arange(len(x)), y] - logits[:, other]
        length = np.linalg.norm(kernel[:, other][:, None] - kernel[:, y], DUAL[norm], axis=0)
        result = np.where(y == other, result, np.minimum(result, gap / np.maximum(length, 1e-12)))
    return result
