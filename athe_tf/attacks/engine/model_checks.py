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
# How far the sum of a softmax may lie from 1 in float16 and in bfloat16: eight units of their last digit.
HALF_TOLERANCES = (8 * 2.0**-11, 8 * 2.0**-8)

PROBABILITIES = Notice(
    "The outputs look like probabilities: they are not negative and add up to 1. Attacks expect logits, and "
    "cross-entropy of probabilities has almost no gradient. Remove the softmax from the model.",
    id="probabilities",
)


def check_logits(outputs) -> None:
    """Raises `InputError` if a batch of outputs looks like probabilities."""
    if like_probabilities(outputs):
        raise InputError(PROBABILITIES)


def like_probabilities(outputs) -> bool:
    """Whether every row is not negative and adds up to one, as exactly as the precision of its values.

    A softmax in half precision is recognized by its values: float16 and bfloat16 have fewer digits.

    Example:

    >>> like_probabilities([[0.25, 0.75]]), like_probabilities(np.float16([[0.333, 0.333, 0.333]]))
    (True, True)
    """
    values = np.asarray(outputs, np.float32)
    half = [tf.float16, tf.bfloat16]
    exact = [np.array_equal(tf.cast(tf.cast(values, dtype), tf.float32), values) for dtype in half]
    tolerance = next((each for each, fits in zip(HALF_TOLERANCES, exact, strict=True) if fits), 1e-5)
    sums = values.sum(axis=1, dtype=np.float64)
    return bool((values >= 0).all() and np.allclose(sums, 1.0, rtol=0, atol=tolerance))


def like_sigmoids(outputs) -> bool:
    """Whether all outputs lie in [0, 1] and do not add up to one, as those of a sigmoid for each class.

    Example:

    >>> like_sigmoids([[0.9, 0.4]]), like_sigmoids([[0.9, -0.4]])
    (True, False)
    """
    values = np.asarray(outputs)
    return bool((values >= 0).all() and (values <= 1).all()) and not like_probabilities(values)


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
    if like_sigmoids(logits):
        text = (
            "The outputs look like those of a sigmoid for each class: they lie in [0, 1] and do not add up "
            "to 1. Attacks expect logits, and a saturated sigmoid has no gradient. Remove the sigmoid."
        )
        found.append(Notice(text, id="sigmoid-outputs"))
    elif largest <= 1 + 1e-5:
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
        return gradient_of(lambda v: (losses.margin(victim.source.logits(v), labels), 0.0), images)[1]

    steepness = np.abs(gradient(tf.convert_to_tensor(x, tf.float32)).numpy()).sum(axis=(1, 2, 3))
    return float((steepness == 0).mean())
