"""Cross-entropy on clean images (the baseline), on adversarial ones (PGD-AT), and on both (ALP)."""

from typing import ClassVar

from athe_tf.losses import logit_pairing
from athe_tf.training.adversarial_model import AdversarialModel, Cost, Terms
from athe_tf.training.options import ALPOptions, FrameworkOptions, PGDATOptions, StandardOptions


class PGDAT(AdversarialModel):
    """PGD-AT: minimize the loss on the images that maximize it (Madry et al., 2018).

    Training objective (Table 1 of the HE paper): `CE(f(x*), y)`, with HE the margin loss of Eq. 6. The
    attack maximizes `CE(f(x'), y)`, never with a margin.

    Where paper and released HE code differ: the paper writes the attack on unscaled cosines, the code
    attacks the scaled ones. Here the attack sees the model's scaled logits (`logit_scale="model"`); use
    `logit_scale=1` for the paper's text. The paper starts uniformly in the ball, the code from
    `0.001 N(0, I)`: choose with the attack's `start`.

    Example:

    >>> trainer = athe_tf.training.PGDAT(net, athe_tf.attacks.PGD(8 / 255, steps=10), margin=0.2)
    """

    options_class: ClassVar[type[FrameworkOptions]] = PGDATOptions

    def training_loss(self, x, x_adv, y) -> Terms:
        logits = self.training_logits(x_adv)
        return Terms(self.crossentropy(y, logits), adversarial_logits=logits)

    def loss_passes(self) -> Cost:
        return Cost(1, 1, 1)


class Standard(AdversarialModel):
    """Training on clean images: cross-entropy, with the margin for hypersphere heads.

    An attack is optional and used only to measure `val_robust_accuracy`. The best epoch is the one
    with the highest clean accuracy: robust accuracy would select one that has learned nothing yet.

    Example:

    >>> trainer = athe_tf.training.Standard(net)
    """

    options_class = StandardOptions

    def training_loss(self, x, x_adv, y) -> Terms:
        logits = self.training_logits(x)
        return Terms(self.crossentropy(y, logits), clean_logits=logits)

    def loss_passes(self) -> Cost:
        return Cost(1, 1, 1)


class ALP(AdversarialModel):
    """ALP: cross-entropy on both images, plus the distance between their logits (Kannan et al., 2018).

    Training objective (Table 1 of the HE paper), with a for `clean_weight`:
    `a CE(f(x), y) + (1 - a) CE(f(x*), y) + pairing * D(x, x*)`, with HE the margin loss of Eq. 6 in the first
    two terms. `D` compares the logits divided by the head's
    scale, that is cosines with HE. The attack maximizes `CE(f(x'), y)`, never with a margin.

    Where paper and released HE code differ: the paper's `D` is the l2 norm of the difference, the code's is
    its mean square over images and classes, the default here. The paper writes the attack on unscaled
    cosines, the code attacks the scaled ones (`logit_scale="model"`, the default). Kannan et al. attack a
    random target; the HE paper, and this class, attack the true label.

    ALP on its own has been broken by strong attacks (Engstrom et al., 2018): evaluate it with strong attacks.

    Example:

    >>> trainer = athe_tf.training.ALP(net, athe_tf.attacks.PGD(8 / 255, steps=10), pairing=0.5)

    Args:
        pairing: The weight of `D`, the paper's lambda. Defaults to 0.5.
        pairing_form: `"mse"` (default) or `"l2"`.
        clean_weight: The weight of the clean images, the paper's alpha. Defaults to 0.5, as in the code; the
            paper does not state it.
        **kwargs: Those of `AdversarialModel`.
    """

    options_class = ALPOptions

    def training_loss(self, x, x_adv, y) -> Terms:
        clean = self.training_logits(x)
        adversarial = self.training_logits(x_adv)
        share = self.options.clean_weight
        losses = share * self.crossentropy(y, clean) + (1.0 - share) * self.crossentropy(y, adversarial)
        distance = logit_pairing(clean / self.scale, adversarial / self.scale, self.options.pairing_form)
        losses += self.options.pairing * distance
        return Terms(losses, clean_logits=clean, adversarial_logits=adversarial)

    def loss_passes(self) -> Cost:
        return Cost(2, 2, 2)
