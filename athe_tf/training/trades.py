"""TRADES: a trade-off between accuracy and the stability of predictions."""

from athe_tf.attacks.gradient_attack import GradientAttack
from athe_tf.attacks.losses import REFERENCED, squared_distance, squared_error
from athe_tf.losses import as_probabilities, kl_divergence, prediction_crossentropy
from athe_tf.training.adversarial_model import AdversarialModel, Cost, Terms
from athe_tf.training.options import TRADESOptions
from athe_tf.utils.errors import check

DIVERGENCES = {"kl": kl_divergence, "ce": prediction_crossentropy, "mse": squared_distance}


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

    With `divergence="mse"` it is SCORE (Pang et al., 2022): squared Euclidean distances of probabilities in
    place of both terms, `||p(x) - y||^2 + beta * ||p(x*) - p(x)||^2`, and in the attack.

    Example:

    >>> attack = athe_tf.attacks.PGD(8 / 255, step_size=2 / 255, steps=10)
    >>> trainer = athe_tf.training.TRADES(net, attack, beta=6.0, margin=0.2)
    >>> trainer.compile(optimizer=athe_tf.training.TorchSGD(0.1))
    >>> trainer.fit(train, validation_data=validation)

    With CutMix or MixUp, the published recipes (Rebuffi et al., 2021; Wang et al., 2023) attack
    `KL(y || f(x'))`, from the mixed label y: `attack_from="label"`.

    Args:
        attack: A PGD or APGD attack. One on the divergence with the same settings is used for crafting, and
            this one for validation. PGD starts from `0.001 N(0, I)` unless it is given a `start`; `"zero"` is
            refused.
        beta: Weight of the divergence, 1 to 10. Defaults to 6.
        divergence: `"kl"` (default), `"ce"` as Table 1 of the HE paper writes it, or `"mse"`.
        attack_from: What the attack moves away from: the clean `"prediction"` (default), or the `"label"`.
        **kwargs: Those of `AdversarialModel`.
    """

    options_class = TRADESOptions

    def prepared_attack(self, attack):
        attack = super().prepared_attack(attack)
        check(
            isinstance(attack, GradientAttack) and "loss" in attack.settings(),
            "TRADES crafts with an attack that maximizes the divergence, such as PGD. "
            f"Received: {type(attack).__name__}.",
        )
        squared = self.options.divergence == "mse"
        if self.options.attack_from == "label":
            return attack.with_loss(squared_error if squared else "ce")
        return attack.with_loss("mse" if squared else "kl")

    def training_loss(self, x, x_adv, y) -> Terms:
        clean = self.training_logits(x)
        adversarial = self.training_logits(x_adv)
        distance = DIVERGENCES[self.options.divergence]
        own = self.squared_error if self.options.divergence == "mse" else self.crossentropy
        losses = own(y, clean) + self.options.beta * distance(clean, adversarial)
        return Terms(losses, clean_logits=clean, adversarial_logits=adversarial)

    def squared_error(self, y, logits):
        """The squared distance of a prediction, with the margin, from the label; one value per example."""
        share, classes = self.shared.label_smoothing, logits.shape[-1]
        target = (1.0 - share) * as_probabilities(y, logits) + share / classes
        return squared_error(self.with_margin(y, logits), target)

    def crafting_passes(self) -> tuple[int, int]:
        forward, backward = super().crafting_passes()
        # One more forward pass for the clean prediction.
        return forward + (self.attack.loss in REFERENCED), backward

    def loss_passes(self) -> Cost:
        return Cost(2, 2, 2)
