"""Properties of a model that make attacks on it misleading: its logits, randomness, missing gradients."""

import numpy as np
import tensorflow as tf

from athe_tf.attacks import losses
from athe_tf.attacks.engine.gradients import gradient_of
from athe_tf.models.victim import Victim
from athe_tf.results.notices import Notice
from athe_tf.utils.errors import InputError

# Beyond this margin a float32 cross-entropy is exactly zero, or about to be.
SATURATED_MARGIN = 16.0
# Passes that are compared, and how far the directions of two logit vectors may differ.
REPEATED_PASSES = 5
LARGEST_DIFFERENCE = 1e-4

PROBABILITIES = Notice(
    "The outputs look like probabilities: they are not negative and add up to 1. Attacks expect logits, and "
    "cross-entropy of probabilities has almost no gradient. Remove the softmax from the model.",
    id="probabilities",
)


def check_logits(outputs) -> None:
    """Raises `InputError` if a batch of outputs looks like probabilities."""
    if like_probabilities(np.asarray(outputs, np.float64)):
        raise InputError(PROBABILITIES)


def like_probabilities(outputs) -> bool:
    """Whether every row is not negative and adds up to one."""
    return bool((outputs >= 0).all() and np.allclose(outputs.sum(axis=1), 1.0, rtol=0, atol=1e-5))


def saturated_share(logits, labels) -> float:
    """The share of examples whose margin is so large that float32 rounds their cross-entropy to zero.

    Example:

    >>> saturated_share([[20.0, 1.0], [3.0, 1.0]], [0, 0])
    0.5
    """
    margins = losses.margin(np.asarray(logits, np.float64), np.asarray(labels)).numpy()
    return float(np.mean(-margins >= SATURATED_MARGIN))


def scale_warnings(logits, labels) -> list[str]:
    """Reasons why attacks on cross-entropy may fail on a model with these clean logits; often none.

    Example:

    >>> scale_warnings([[0.9, -0.2]], [0])[0][:25]
    'Cosine logits at scale 1:'
    """
    logits = np.asarray(logits, np.float64)
    if like_probabilities(logits):
        return [PROBABILITIES]
    found: list[str] = []
    largest = np.abs(logits).max()
    if largest <= 1 + 1e-5:
        text = (
            f"Cosine logits at scale 1: no logit exceeds {largest:.3g}, so attacks on cross-entropy "
            "under-estimate. Use a loss that does not depend on the scale (apgd-dlr, cw-linf), or a larger "
            "logit_scale."
        )
        found.append(Notice(text, id="cosine-logits"))
    saturated = saturated_share(logits, labels)
    if saturated > 0.01:
        text = (
            f"{saturated:.1%} of the examples have a margin of {SATURATED_MARGIN:g} or more, where "
            "cross-entropy is zero in float32 and its gradient vanishes. Use a loss that does not "
            "depend on the scale (apgd-dlr, cw-linf), or a smaller logit_scale."
        )
        found.append(Notice(text, id="saturated-margins"))
    return found


def deterministic_logits(victim: Victim, x) -> bool:
    """Whether repeated passes of a batch give the same logits; dropout or noise at inference changes them."""
    images = tf.convert_to_tensor(x, tf.float32)
    answers = np.stack([victim.compiled_logits(images).numpy() for _ in range(REPEATED_PASSES)])
    answers = np.nan_to_num(answers, posinf=0.0, neginf=0.0)  # NaN is the same in every pass, too
    if (answers.argmax(axis=-1) != answers[0].argmax(axis=-1)).any():
        return False
    lengths = np.linalg.norm(answers, axis=-1, keepdims=True)
    directions = answers / np.maximum(lengths, 1e-12)
    return bool(np.linalg.norm(directions - directions[0], axis=-1).max() <= LARGEST_DIFFERENCE)


def zero_gradients(victim: Victim, x, y) -> float:
    """The share of the images of a batch at which the gradient of the margin is exactly zero."""
    labels = tf.convert_to_tensor(y, tf.int32)

    @tf.function(autograph=False)
    def gradient(images):
        return gradient_of(lambda v: (losses.margin(victim.logits(v), labels), 0.0), images)[1]

    steepness = np.abs(gradient(tf.convert_to_tensor(x, tf.float32)).numpy()).sum(axis=(1, 2, 3))
    return float((steepness == 0).mean())
