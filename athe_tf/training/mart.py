"""Misclassification-aware adversarial training."""

import tensorflow as tf

from athe_tf.attacks.losses import best_other, true_logit
from athe_tf.losses import kl_divergence
from athe_tf.training.adversarial_model import AdversarialModel, Cost, Terms
from athe_tf.training.options import MARTOptions

# The released code keeps both logarithms away from zero by these.
RUNNER_UP_OFFSET = 1.0001
WEIGHT_OFFSET = 1.0000001


class MART(AdversarialModel):
    """MART: more weight on misclassified examples (Wang et al., 2020).

    Training objective, with p the softmax:

        -log p_y(x*) - log(1 - max_{k != y} p_k(x*)) + beta * KL(p(x) || p(x*)) * (1 - p_y(x))

    Gradients flow through all terms, including the weight `1 - p_y(x)`. With HE, the margin of Eq. 6 is part
    of the first two terms, which classify, and not of the last. The attack maximizes the cross-entropy, from
    the same Gaussian start as TRADES unless it is given a `start`. With soft labels, p_y is the mean of p
    over the label, and y in `k != y` its most probable class.

    The published accuracy under PGD is far above that under AutoAttack (65.0 and 56.3% with extra data):
    evaluate it with strong attacks.

    Example:

    >>> trainer = athe_tf.training.MART(net, athe_tf.attacks.PGD(8 / 255, steps=10), beta=6.0)

    Args:
        beta: Weight of the last term; the paper used 5 and 6. Defaults to 6.
        **kwargs: Those of `AdversarialModel`.
    """

    options_class = MARTOptions

    def training_loss(self, x, x_adv, y) -> Terms:
        clean = self.training_logits(x)
        adversarial = self.training_logits(x_adv)
        losses = self.crossentropy(y, adversarial) + self.runner_up_loss(y, adversarial)
        stability = kl_divergence(clean, adversarial)
        wrong = WEIGHT_OFFSET - true_logit(tf.exp(tf.nn.log_softmax(clean)), y)
        losses += self.options.beta * stability * tf.cast(wrong, stability.dtype)
        return Terms(losses, clean_logits=clean, adversarial_logits=adversarial)

    def runner_up_loss(self, y, logits):
        """`-log(1 - p_k)` for the most probable wrong class k; one value per example."""
        runner_up = tf.exp(best_other(tf.nn.log_softmax(self.with_margin(y, logits)), y))
        return -tf.math.log(RUNNER_UP_OFFSET - runner_up)

    def loss_passes(self) -> Cost:
        return Cost(2, 2, 2)
