"""The margin losses from their definitions, in NumPy float64."""

import numpy as np


def true_logit(theta, margin, form, scale):
    """The logit of the true class with its margin, in terms of the angle."""
    if form == "cosine":
        return scale * (np.cos(theta) - margin)
    if form == "angle":
        return -scale * (theta + margin)
    turned = np.cos(theta + margin)
    return scale * np.where(theta + margin > np.pi, -2.0 - turned, turned)


def plain_logit(theta, form, scale):
    """The logit of any class, as the head returns it."""
    return -scale * theta if form == "angle" else scale * np.cos(theta)


def crossentropy(logits, labels):
    """One value per example."""
    top = logits.max(axis=1, keepdims=True)
    log_sums = np.log(np.exp(logits - top).sum(axis=1)) + top[:, 0]
    return log_sums - logits[np.arange(len(labels)), labels]


def loss_of_features(features, kernel, labels, margin, form, scale):
    """The loss of every example, from the features and the weights of a `CosineDense`."""
    cosines = (features / np.linalg.norm(features, axis=1, keepdims=True)) @ (
        kernel / np.linalg.norm(kernel, axis=0)
    )
    theta = np.arccos(cosines)
    logits = plain_logit(theta, form, scale)
    rows = np.arange(len(labels))
    logits[rows, labels] = true_logit(theta[rows, labels], margin, form, scale)
    return crossentropy(logits, labels)


def slopes(function, x, step=1e-6):
    """The gradient of a scalar function by central differences."""
    found = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        change = np.zeros_like(x)
        change[index] = step
        found[index] = (function(x + change) - function(x - change)) / (2 * step)
    return found
