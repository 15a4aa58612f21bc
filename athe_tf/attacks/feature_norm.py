"""PGD through normalized features: the attack of Table 7 on standard models."""

import keras
import tensorflow as tf

from athe_tf.attacks.engine.victim import Victim
from athe_tf.attacks.gradient import PGD
from athe_tf.layers.cosine_dense import CosineDense, unit_vectors
from athe_tf.utils.errors import NotApplicable


class FeatureNormPGD(PGD):
    """PGD whose loss sees the logits of unit features, on a model that does not normalize them.

    The length of the features cannot change the sign of a margin, so a gradient that changes the length is
    wasted. The objective here is a loss of `W^T z / ||z|| + b` (Eq. 12 of the reference; the bias of
    the head is kept): it turns the features and nothing else. Success is tested with the real logits.
    With few steps it is the stronger attack (Table 7: PGD-2 leaves 33.75 % instead of 50.37 %).

    Example:

    >>> attack = FeatureNormPGD(epsilon=8 / 255, steps=2)         # athe_tf.attacks.get("fn-pgd-2", ...)
    >>> result = attack.run(model, x, y)

    Args:
        epsilon: Radius of the ball, in pixels of [0, 1].
        norm: `"linf"`, `"l2"` or `"l1"`. Defaults to `"linf"`.
        logit_scale: The length of the features that the loss sees: a number s gives `s W^T z / ||z|| + b`.
            `"model"` (default) is Eq. 12 as it stands, s = 1; for a `CosineDense` head its own scale.
        **kwargs: Those of `PGD`.

    Reference:
        Pang et al., "Boosting Adversarial Training with Hypersphere Embedding", NeurIPS 2020, section 3.3.
    """

    name = "fn-pgd"

    def check_victim(self, victim: Victim) -> None:
        super().check_victim(victim)
        victim.source.require_features("PGD through normalized features")
        head = victim.source.require_head("PGD through normalized features")
        linear = isinstance(head, keras.layers.Dense) and head.activation is keras.activations.linear
        if not (linear or isinstance(head, CosineDense)):
            raise NotApplicable(
                "PGD through normalized features needs a last layer that is a linear Dense or a CosineDense. "
                f"Received: {type(head).__name__} '{head.name}'."
            )

    def loss_logits(self, victim, x):
        features, head = victim.source.features(x), victim.source.head
        return self._of_unit_features(head, features), tf.cast(head(features), tf.float32)

    def _of_unit_features(self, head, features):
        unit = unit_vectors(features, axis=-1)
        if self.logit_scale == "model":
            return tf.cast(head(unit), tf.float32)
        if isinstance(head, CosineDense):
            return (self.logit_scale / head.scale) * head(unit)
        return tf.cast(head(self.logit_scale * unit), tf.float32)
