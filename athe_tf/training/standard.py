"""Standard training, the baseline."""

from athe_tf.training.adversarial_model import AdversarialModel, Cost, Terms
from athe_tf.training.options import StandardOptions


class Standard(AdversarialModel):
    """Training on clean images: cross-entropy, with the margin for hypersphere heads.

    An attack is optional and used only to measure `val_robust_accuracy`. The best epoch is the one
    with the highest clean accuracy: robust accuracy would select one that has learnt nothing yet.

    Example:

    >>> trainer = athe_tf.training.Standard(net)
    """

    options_class = StandardOptions

    def training_loss(self, x, x_adv, y) -> Terms:
        logits = self.training_logits(x)
        return Terms(self.crossentropy(y, logits), clean_logits=logits)

    def loss_passes(self) -> Cost:
        return Cost(1, 1, 1)
