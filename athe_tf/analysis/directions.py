"""Random directions in weights and pixels."""

import numpy as np

from athe_tf.analysis.weights import WeightLoss


def filter_normalized(loss: WeightLoss, seed: int) -> np.ndarray:
    """A random direction in the weights whose filters are as long as those of the model (Li et al., 2018).

    A filter is what leads to one output: all but the last axis of a kernel. Vectors, such as biases and
    the weights of batch normalization, do not move.

    Reference: https://arxiv.org/abs/1712.09913
    """
    rng = np.random.default_rng(seed)
    parts = []
    for variable in loss.variables:
        weights = variable.numpy().astype("float64")
        if weights.ndim < 2:
            parts.append(np.zeros(weights.size))
            continue
        noise, axes = rng.normal(size=weights.shape), tuple(range(weights.ndim - 1))
        lengths = [np.sqrt((v**2).sum(axis=axes, keepdims=True)) for v in (weights, noise)]
        parts.append((noise * lengths[0] / np.maximum(lengths[1], 1e-12)).ravel())
    return np.concatenate(parts)


def random_signs(shape, seed: int) -> np.ndarray:
    """A random corner of the linf ball of radius one."""
    return np.random.default_rng(seed).choice(np.array([-1.0, 1.0], np.float32), size=shape)
