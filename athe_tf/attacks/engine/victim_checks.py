"""What a model does that makes attacks on it misleading: chance, gradients that say nothing."""

import numpy as np
import tensorflow as tf

from athe_tf.attacks import losses
from athe_tf.attacks.engine.victim import Victim
from athe_tf.attacks.gradient import gradient_of

# Passes that are compared, and how far the directions of two logit vectors may differ.
PASSES = 5
STEADY = 1e-4


def steady_logits(victim: Victim, x) -> bool:
    """Whether a model says the same each time it is asked; dropout and noise at inference do not.

    Args:
        victim: The model.
        x: Images `[N, H, W, C]`; a batch will do.
    """
    images = tf.convert_to_tensor(x, tf.float32)
    answers = np.stack([victim.compiled_logits(images).numpy() for _ in range(PASSES)])
    if (answers.argmax(axis=-1) != answers[0].argmax(axis=-1)).any():
        return False
    lengths = np.linalg.norm(answers, axis=-1, keepdims=True)
    directions = answers / np.maximum(lengths, 1e-12)
    return bool(np.linalg.norm(directions - directions[0], axis=-1).max() <= STEADY)


def zero_gradients(victim: Victim, x, y) -> float:
    """The share of images at which the margin has no gradient at all: nothing to climb.

    Args:
        victim: The model.
        x: Images `[N, H, W, C]`; a batch will do.
        y: Integer labels `[N]`.
    """
    labels = tf.convert_to_tensor(y, tf.int32)

    @tf.function(autograph=False)
    def gradient(images):
        return gradient_of(lambda v: (losses.margin(victim.logits(v), labels), 0.0), images)[1]

    steepness = np.abs(gradient(tf.convert_to_tensor(x, tf.float32)).numpy()).sum(axis=(1, 2, 3))
    return float((steepness == 0).mean())
