"""What the outputs of a model say against attacks on cross-entropy."""

import numpy as np

from athe_tf.utils.errors import InputError

# Beyond this margin a float32 cross-entropy is exactly zero, or about to be.
SATURATED_MARGIN = 16.0

PROBABILITIES = (
    "The outputs look like probabilities: they are not negative and add up to 1. Attacks expect logits, and "
    "cross-entropy of probabilities has almost no gradient. Remove the softmax from the model."
)


def check_logits(outputs) -> None:
    """Raises `InputError` when a batch of outputs looks like probabilities."""
    if like_probabilities(np.asarray(outputs, np.float64)):
        raise InputError(PROBABILITIES)


def like_probabilities(outputs) -> bool:
    """Whether every row is not negative and adds up to one."""
    return bool((outputs >= 0).all() and np.allclose(outputs.sum(axis=1), 1.0, rtol=0, atol=1e-5))


def scale_warnings(logits, labels) -> list[str]:
    """What the clean logits of a model say against attacks on cross-entropy; an empty list when nothing.

    Example:

    >>> scale_warnings([[0.9, -0.2]], [0])[0][:25]
    'Cosine logits at scale 1:'

    Args:
        logits: `[N, L]`.
        labels: Integer labels `[N]`.
    """
    logits, labels = np.asarray(logits, np.float64), np.asarray(labels)
    if like_probabilities(logits):
        return [PROBABILITIES]
    found = []
    largest = np.abs(logits).max()
    if largest <= 1 + 1e-5:
        found.append(
            f"Cosine logits at scale 1: no logit exceeds {largest:.3g}, so attacks on cross-entropy "
            "under-estimate. Use a loss that does not depend on the scale (apgd-dlr, cw-linf), or a larger "
            "logit_scale."
        )
    own = np.take_along_axis(logits, labels[:, np.newaxis], axis=1)[:, 0]
    others = np.where(np.arange(logits.shape[1]) == labels[:, np.newaxis], -np.inf, logits).max(axis=1)
    saturated = np.mean(own - others >= SATURATED_MARGIN)
    if saturated > 0.01:
        found.append(
            f"{saturated:.1%} of the examples have a margin of {SATURATED_MARGIN:g} or more, where "
            "cross-entropy is zero in float32 and its gradient vanishes. Use a loss that does not "
            "depend on the scale (apgd-dlr, cw-linf), or a smaller logit_scale."
        )
    return found
