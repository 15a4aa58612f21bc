"""Adversarial logit pairing."""

from athe_tf.attacks.engine.attack import Attack
from athe_tf.losses import logit_pairing
from athe_tf.training.adversarial_model import AdversarialModel, Cost, Terms
from athe_tf.utils.errors import check, check_choice

PAIRING_FORMS = ("l2", "mse")


class ALP(AdversarialModel):
    """ALP: be right on both images, and have similar logits for them (Kannan et al., 2018).

    Training objective (Table 1 of the HE paper): `0.5 CE(f(x), y) + 0.5 CE(f(x*), y) + pairing * D(x, x*)`,
    with HE the margin loss of Eq. 6 in the first two terms. `D` compares the logits divided by the head's
    scale, that is cosines with HE. The attack maximises `CE(f(x'), y)`, never with a margin.

    Where paper and released HE code differ: the paper's `D` is the l2 norm of the difference, the code's is
    its mean square over images and classes, the default here. The paper writes the attack on unscaled
    cosines, the code attacks the scaled ones (`logit_scale="model"`, the default). Kannan et al. attack a
    random target; the HE paper, and this class, attack the true label.

    ALP has been broken by strong attacks where it stood alone (Engstrom et al., 2018): evaluate it well.

    Args:
        net: A Keras model from images in [0, 1] to logits.
        attack: Crafts the training images.
        pairing: The weight of `D`, the paper's lambda. Defaults to 0.5.
        pairing_form: `"mse"` (default) or `"l2"`.
        **kwargs: Those of `AdversarialModel`.
    """

    def __init__(
        self,
        net,
        attack: Attack | None = None,
        *,
        pairing: float = 0.5,
        pairing_form: str = "mse",
        **kwargs,
    ):
        super().__init__(net, attack, **kwargs)
        check(pairing >= 0, f"`pairing` must not be negative. Received: pairing={pairing}.")
        check_choice("pairing_form", pairing_form, PAIRING_FORMS)
        self.pairing = pairing
        self.pairing_form = pairing_form

    def training_loss(self, x, x_adv, y) -> Terms:
        clean = self.net(x, training=True)
        adversarial = self.net(x_adv, training=True)
        losses = 0.5 * self.crossentropy(y, clean) + 0.5 * self.crossentropy(y, adversarial)
        distance = logit_pairing(clean / self.scale, adversarial / self.scale, self.pairing_form)
        return Terms(losses + self.pairing * distance, clean_logits=clean, adversarial_logits=adversarial)

    def loss_passes(self) -> Cost:
        return Cost(2, 2, 2)
