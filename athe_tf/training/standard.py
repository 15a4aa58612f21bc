"""Ordinary training, the baseline."""

from athe_tf.training.adversarial_model import AdversarialModel, Cost, Terms


class Standard(AdversarialModel):
    """Training on clean images: cross-entropy, with the margin when the head is a hypersphere.

    An attack is optional and used only to measure `val_robust_accuracy`. The best epoch is that of the
    highest clean accuracy: by robust accuracy it would be one that has learnt nothing yet.
    """

    needs_attack = False
    chosen_by = "clean"

    def training_loss(self, x, x_adv, y) -> Terms:
        logits = self.net(x, training=True)
        return Terms(self.crossentropy(y, logits), clean_logits=logits)

    def loss_passes(self) -> Cost:
        return Cost(1, 1, 1)
