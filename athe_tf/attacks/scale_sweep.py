"""Cross-entropy at many logit scales, image by image the worst of them."""

import tensorflow as tf

from athe_tf.attacks import losses
from athe_tf.attacks.engine.victim import Victim
from athe_tf.attacks.gradient import PGD
from athe_tf.utils import rng
from athe_tf.utils.errors import check

SCALES = (1.0, 5.0, 10.0, 15.0, 30.0)


class ScaleSweepPGD(PGD):
    """PGD on cross-entropy at several logit scales and on the margin; the worst case of each image.

    Cross-entropy depends on the scale of the logits: too small, and its gradient raises all wrong classes
    alike; too large, and it saturates. Both flatter the model. This attack tries them all, so its result
    does not depend on the scale. A round is one scale and one restart. The rounds of a restart begin at the
    same point, so the successes are exactly the union of those of `PGD(logit_scale=s)` over the scales and
    `PGD(loss="margin")`.

    Example:

    >>> result = ScaleSweepPGD(epsilon=8 / 255, steps=20).run(model, x, y)

    Args:
        epsilon: Radius of the ball, in pixels of [0, 1].
        norm: `"linf"`, `"l2"` or `"l1"`. Defaults to `"linf"`.
        scales: The scales of cross-entropy: of the cosines for a hypersphere head, for any other head
            multiples of the logits. Defaults to `(1, 5, 10, 15, 30)`.
        **kwargs: `steps` (20), `step_size` (`epsilon / 4`), `start`, `restarts` and `select`, as in `PGD`.
    """

    name = "pgd-scale-sweep"
    # It has scales of its own.
    depends_on_scale = False
    compares_margins = True

    def __init__(self, epsilon, norm="linf", *, scales=SCALES, **kwargs):
        super().__init__(epsilon, norm, loss=ce_at_scales, targeted=False, **kwargs)
        self.scales = tuple(float(scale) for scale in scales)
        positive = all(scale > 0 for scale in self.scales)
        check(positive, f"`scales` must be larger than 0. Received: scales={self.scales}.")

    def rounds(self, victim: Victim) -> int:
        return (len(self.scales) + 1) * self.restarts

    def round_seed(self, victim, seed, round_index):
        return rng.fold(seed, round_index // (len(self.scales) + 1))

    def round_inputs(self, victim, inputs, y, ids, seed, round_index):
        # The margin comes first: it does not depend on the scale.
        factors = tf.constant([0.0, *(scale / victim.scale for scale in self.scales)], tf.float32)
        return [tf.fill(tf.shape(y), factors[round_index % (len(self.scales) + 1)])]


def ce_at_scales(logits, labels, factors):
    """Cross-entropy of logits times a factor for each example; the margin where the factor is zero."""
    crossentropy = losses.ce(factors[:, tf.newaxis] * logits, labels)
    return tf.where(factors > 0.0, crossentropy, losses.margin(logits, labels))
