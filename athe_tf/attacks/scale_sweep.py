"""Cross-entropy at many logit scales, image by image the worst of them."""

import tensorflow as tf

from athe_tf.attacks import losses
from athe_tf.attacks.engine.victim import Victim
from athe_tf.attacks.gradient import PGD
from athe_tf.utils.errors import check

SCALES = (1.0, 5.0, 10.0, 15.0, 30.0)


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
