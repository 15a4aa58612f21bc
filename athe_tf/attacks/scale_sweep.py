"""Cross-entropy at many logit scales, and the signs that the model's own scale misleads."""

import numpy as np
import tensorflow as tf

from athe_tf.attacks import losses
from athe_tf.attacks.gradient import PGD
from athe_tf.attacks.victim import Victim
from athe_tf.errors import check

SCALES = (1.0, 5.0, 10.0, 15.0, 30.0)

# Beyond this margin a float32 cross-entropy is exactly zero, or about to be.
SATURATED_MARGIN = 16.0


class ScaleSweepPGD(PGD):
    """PGD on cross-entropy at several logit scales and on the margin; the worst case of each image.

    Cross-entropy depends on the scale of the logits: too small, and its gradient raises all wrong classes
    alike; too large, and it saturates. Both flatter the model. This attack tries them all, so its verdict
    owes nothing to the scale. A round is one scale and one restart. The rounds of a restart begin at the
    same point, so the verdict is exactly the union of `PGD(logit_scale=s)` over the scales and
    `PGD(loss="margin")`.

    Example:

    >>> result = ScaleSweepPGD(epsilon=8 / 255, steps=20).run(model, x, y)

    Args:
        epsilon: Radius of the ball, in pixels of [0, 1].
        norm: `"linf"`, `"l2"` or `"l1"`. Defaults to `"linf"`.
        scales: The scales of cross-entropy: of the cosines for a hypersphere head, for any other head
            multiples of the logits as they are. Defaults to `(1, 5, 10, 15, 30)`.
        **kwargs: `steps` (20), `step_size` (`epsilon / 4`), `start`, `restarts` and `select`, as in `PGD`.
    """

    name = "pgd-scale-sweep"

    def __init__(self, epsilon, norm="linf", *, scales=SCALES, **kwargs):
        super().__init__(epsilon, norm, loss=swept, targeted=False, **kwargs)
        self.scales = tuple(float(scale) for scale in scales)
        check(
            all(scale > 0 for scale in self.scales),
            f"`scales` must be larger than 0. Received: scales={self.scales}.",
        )

    def rounds(self, victim: Victim) -> int:
        return (len(self.scales) + 1) * self.restarts

    def _split(self, round_index):
        losses_a_restart = len(self.scales) + 1
        return round_index % losses_a_restart, round_index // losses_a_restart

    def start_point(self, victim, x, ids, seed, round_index):
        return super().start_point(victim, x, ids, seed, self._split(round_index)[1])

    def round_inputs(self, victim, inputs, y, ids, seed, round_index):
        # The margin comes first: it needs no scale to be right.
        factors = tf.constant([0.0, *(scale / victim.scale for scale in self.scales)], tf.float32)
        return [tf.fill(tf.shape(y), factors[self._split(round_index)[0]])]

    def objective(self, victim, y, reference):
        def evaluate(x):
            logits = victim.logits(x)
            return swept(logits, y, reference[0]), logits

        return evaluate

    def comparison(self, victim, y, inputs):
        return lambda x: losses.margin(victim.logits(x), y)

    def settings(self):
        settings = super().settings() | {"loss": "ce at scales, margin", "scales": list(self.scales)}
        del settings["logit_scale"]
        return settings


def swept(logits, labels, factors):
    """Cross-entropy of logits times a factor for each example; the margin where the factor is zero."""
    crossentropy = losses.ce(factors[:, tf.newaxis] * logits, labels)
    return tf.where(factors > 0.0, crossentropy, losses.margin(logits, labels))


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
    if _like_probabilities(logits):
        return [
            "The outputs look like probabilities: they are not negative and add up to 1. Attacks expect "
            "logits, and cross-entropy of probabilities has almost no gradient. Remove the softmax from the "
            "model."
        ]
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


def _like_probabilities(logits) -> bool:
    return bool((logits >= 0).all() and np.allclose(logits.sum(axis=1), 1.0, rtol=0, atol=1e-5))
