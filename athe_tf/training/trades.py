"""TRADES: a trade-off between accuracy and the stability of predictions."""

from athe_tf.attacks.gradient import PGD
from athe_tf.losses import kl_divergence, prediction_crossentropy
from athe_tf.training.adversarial_model import AdversarialModel, Cost, Terms
from athe_tf.training.options import TRADESOptions
from athe_tf.utils.errors import check


class TRADES(AdversarialModel):
    """TRADES: cross-entropy on clean images, plus a divergence of predictions (Zhang et al., 2019).

    Training objective: `CE(f(x), y) + beta * KL(f(x) || f(x*))`, with HE the margin loss of Eq. 6 in its
    first term and no margin in the second. The attack maximizes the same divergence. Gradients flow through
    both arguments of the KL.

    Table 1 of the HE paper writes a cross-entropy between the two predictions, `divergence="ce"`; its
    rebuttal and its code use KL, the default. The two differ by the entropy of f(x): the attack is the same,
    and the cross-entropy also makes clean predictions more certain. The paper's lambda is `beta` here,
    `1/lambda` in the TRADES paper. The released TRADES code computes the clean logits twice; here they are
    computed once and used twice.

    Example:

    >>> attack = athe_tf.attacks.PGD(8 / 255, step_size=2 / 255, steps=10)
    >>> trainer = athe_tf.training.TRADES(net, attack, beta=6.0, margin=0.2)
    >>> trainer.compile(optimizer=athe_tf.training.TorchSGD(0.1))
    >>> trainer.fit(train, validation_data=validation)

    Args:
        attack: A PGD attack. An attack on KL with the same settings is used for crafting, and this one for
            validation. It starts from `0.001 N(0, I)` unless it is given a `start`; `"zero"` is refused.
        beta: Weight of the divergence, 1 to 10. Defaults to 6.
        divergence: `"kl"` (default), or `"ce"` as Table 1 of the HE paper writes it.
        **kwargs: Those of `AdversarialModel`.
    """

    options_class = TRADESOptions

    def prepared_attack(self, attack):
        attack = super().prepared_attack(attack)
        check(
            isinstance(attack, PGD),
            "TRADES crafts with an attack that maximizes the KL divergence, such as PGD. "
            f"Received: {type(attack).__name__}.",
        )
        return attack.with_loss("kl")

    def training_loss(self, x, x_adv, y) -> Terms:
        clean = self.training_logits(x)
        adversarial = self.training_logits(x_adv)
        distance = prediction_crossentropy if self.options.divergence == "ce" else kl_divergence
        losses = self.crossentropy(y, clean) + self.options.beta * distance(clean, adversarial)
        return Terms(losses, clean_logits=clean, adversarial_logits=adversarial)

    def crafting_passes(self) -> tuple[int, int]:
        forward, backward = super().crafting_passes()
        # One more forward pass for the clean prediction.
        return forward + 1, backward

    def loss_passes(self) -> Cost:
        return Cost(2, 2, 2)
