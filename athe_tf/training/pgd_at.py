"""Adversarial training with projected gradient descent."""

from typing import ClassVar

from athe_tf.training.adversarial_model import AdversarialModel, Cost, Terms
from athe_tf.training.options import FrameworkOptions, PGDATOptions


class PGDAT(AdversarialModel):
    """PGD-AT: minimize the loss on the images that maximise it (Madry et al., 2018).

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
