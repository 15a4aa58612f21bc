"""TRADES: a trade-off between accuracy and the stability of predictions."""

from athe_tf.attacks.engine.attack import Attack
from athe_tf.losses import kl_divergence
from athe_tf.training.adversarial_model import AdversarialModel, Cost, Terms
from athe_tf.utils.errors import InputError, check


class TRADES(AdversarialModel):
    """TRADES: be right on the clean image, and say the same on its neighbours (Zhang et al., 2019).

    Training objective: `CE(f(x), y) + beta * KL(f(x) || f(x*))`, with HE the margin loss of Eq. 6 in its
    first term and no margin in the second. The attack maximises the same divergence. Gradients flow through
    both arguments of the KL.

    Table 1 of the HE paper writes a cross-entropy between the two predictions; its rebuttal and its code
    use KL, which has the same maximiser. The paper's lambda is `beta` here, `1/lambda` in the TRADES paper.
    The released TRADES code passes the clean batch twice; here its logits are used twice.

    Example:

    >>> attack = athe_tf.attacks.PGD(8 / 255, step_size=2 / 255, steps=10, loss="kl", start="gaussian")
    >>> trainer = TRADES(net, attack, beta=6.0, margin=0.2)
    >>> trainer.compile(optimizer=athe_tf.training.MomentumSGD(0.1))
    >>> trainer.fit(train, validation_data=validation)

    Args:
        net: A Keras model from images in [0, 1] to logits.
        attack: A PGD attack. With another loss than `"kl"`, an attack on KL with the same settings is used
            for crafting, and this one for validation.
        beta: Weight of the divergence, 1 to 10. Defaults to 6.
        **kwargs: Those of `AdversarialModel`.
    """

    def __init__(self, net, attack: Attack | None = None, *, beta: float = 6.0, **kwargs):
        super().__init__(net, attack, **kwargs)
        check(beta >= 0, f"`beta` must not be negative. Received: beta={beta}.")
        self.beta = beta
        self.attack = on_kl(attack)

    def training_loss(self, x, x_adv, y) -> Terms:
        clean = self.net(x, training=True)
        adversarial = self.net(x_adv, training=True)
        losses = self.crossentropy(y, clean) + self.beta * kl_divergence(clean, adversarial)
        return Terms(losses, clean_logits=clean, adversarial_logits=adversarial)

    def crafting_passes(self) -> tuple[int, int]:
        forward, backward = super().crafting_passes()
        # One more forward pass gives the clean prediction that the attack moves away from.
        return forward + 1, backward

    def loss_passes(self) -> Cost:
        return Cost(2, 2, 2)


def on_kl(attack):
    """The same attack, on the divergence from the clean prediction."""
    if not hasattr(attack, "with_loss"):
        raise InputError(
            "TRADES crafts with an attack that climbs the KL divergence, such as PGD. "
            f"Received: {type(attack).__name__}."
        )
    # At the clean image the divergence is zero, and so is its gradient.
    start = "gaussian" if attack.start == "zero" else attack.start
    return attack.with_loss("kl", start=start)
