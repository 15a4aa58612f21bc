"""Directions in weights and pixels that span the planes of pictures."""

import numpy as np
import tensorflow as tf

from athe_tf.analysis.weights import WeightLoss
from athe_tf.threat import TINY, ThreatModel, per_example


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


def unit_perturbations(threat: ThreatModel, delta) -> np.ndarray:
    """Perturbations `[N, H, W, C]`, scaled to length one in the norm of a threat model."""
    delta = tf.convert_to_tensor(delta, tf.float32)
    return (delta / per_example(tf.maximum(threat.length(delta), TINY))).numpy()


def random_signs(threat: ThreatModel, shape, seed: int) -> np.ndarray:
    """One perturbation `[1, H, W, C]` of random signs, of length one in the norm of a threat model."""
    signs = np.random.default_rng(seed).choice(np.array([-1.0, 1.0], np.float32), size=(1, *shape))
    return unit_perturbations(threat, signs)
