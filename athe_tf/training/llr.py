"""Training with a local linearity regulariser."""

from typing import Any

import tensorflow as tf

from athe_tf.attacks.engine.attack import Attack
from athe_tf.attacks.local_linearity import LocalLinearity, inner_product, linear_gap
from athe_tf.training.adversarial_model import AdversarialModel, Cost, Terms
from athe_tf.training.linearisation import clean_pass, frozen_losses
from athe_tf.utils.errors import check, check_choice

VARIANTS = ("llr", "gamma_only", "grad_norm")

#: What the paper's text says, and what the released code does.
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "nominal_weight": 1.0,
        "gamma_weight": 4.0,
        "slope_weight": 3.0,
        "rule": "sign",
        "tangent_gradient": True,
    },
    "code": {
        "nominal_weight": 2.0,
        "gamma_weight": 4.0,
        "slope_weight": 4.0 * 0.3,
        "rule": "adam",
        "tangent_gradient": False,
    },
}

# The square root has no slope at 0.
SMALLEST_SQUARED_LENGTH = 1e-24


class LLR(AdversarialModel):
    """LLR: be right, and have a loss that is linear around the image (Qin et al., 2019).

    With l the cross-entropy, `g(d) = |l(x + d) - l(x) - d . grad l(x)|`, and d* the point of the ball that
    maximises g (gamma is `g(d*)`), the training objective is

        l(x) + gamma_weight * g(d*) + slope_weight * |d* . grad l(x)|

    which bounds the loss everywhere in the ball from above. Its gradient contains second derivatives of the
    network. With HE the first term is the margin loss of Eq. 6; gamma and the slope are computed without a
    margin, as the divergence of TRADES is.

    The search for d* begins at a random point of the ball and climbs g, with the statistics of the clean
    batch in every batch normalisation. Moving statistics are updated once a step, by the clean images.

    Where paper and released code differ: `preset="paper"` is the paper's form, 1, 4 and 3 as weights and sign
    steps on the gradient of g itself; `preset="code"` weighs 2, 4 and 1.2, takes steps by Adam (the code:
    rate 0.1), and leaves the gradient of the tangent out of the ascent. The paper took 15 steps on CIFAR-10,
    the code takes 10, and 2 were used on ImageNet.

    Dropout would make the passes differ that are compared here: use networks without.

    Example:

    >>> trainer = LLR(net, athe_tf.attacks.PGD(8 / 255, steps=10))

    Args:
        net: A Keras model from images in [0, 1] to logits, with `athe_tf.BatchNorm` or none.
        attack: A PGD attack: its ball, start and steps are those of the search; validation uses it as it is.
        variant: `"llr"` (default); `"gamma_only"`, without the slope; `"grad_norm"`, with `||grad l(x)||_2`
            instead of the slope: the comparisons of the paper's authors.
        preset: `"paper"` (default) or `"code"`, for what is `None` below.
        nominal_weight: The weight of `l(x)`.
        gamma_weight: The paper's lambda.
        slope_weight: The paper's mu.
        rule: Steps of the search by `"sign"` or `"adam"`.
        tangent_gradient: Whether the ascent contains the gradient of the tangent.
        **kwargs: Those of `AdversarialModel`, without `bn_mode`: it is `"frozen_clean"` by construction.
    """

    default_bn_mode = "frozen_clean"

    def __init__(
        self,
        net,
        attack: Attack | None = None,
        *,
        variant: str = "llr",
        preset: str = "paper",
        nominal_weight: float | None = None,
        gamma_weight: float | None = None,
        slope_weight: float | None = None,
        rule: str | None = None,
        tangent_gradient: bool | None = None,
        **kwargs,
    ):
        super().__init__(net, attack, **kwargs)
        check_choice("variant", variant, VARIANTS)
        check_choice("preset", preset, PRESETS)
        given = {
            "nominal_weight": nominal_weight,
            "gamma_weight": gamma_weight,
            "slope_weight": slope_weight,
            "rule": rule,
            "tangent_gradient": tangent_gradient,
        }
        settings = PRESETS[preset] | {name: value for name, value in given.items() if value is not None}
        for name in ("nominal_weight", "gamma_weight", "slope_weight"):
            check(settings[name] >= 0, f"`{name}` must not be negative. Received: {name}={settings[name]}.")
        check(
            self.bn_mode == "frozen_clean",
            "LLR compares passes that are normalised by the same statistics, so bn_mode can only be "
            f"'frozen_clean'. Received: bn_mode='{self.bn_mode}'. Leave it out.",
        )
        self.variant = variant
        self.nominal_weight = settings["nominal_weight"]
        self.gamma_weight = settings["gamma_weight"]
        self.slope_weight = settings["slope_weight"]
        self.attack = LocalLinearity.like(
            attack, rule=settings["rule"], tangent_gradient=settings["tangent_gradient"]
        )

    def training_loss(self, x, x_adv, y) -> Terms:
        here = clean_pass(self.net, x, y)
        there, moved_logits = frozen_losses(self.net, here.statistics, x_adv, y)
        slope = inner_product(tf.stop_gradient(x_adv - x), here.gradient)
        losses = self.nominal_weight * self.crossentropy(y, here.logits)
        losses += self.gamma_weight * linear_gap(there, here.losses, slope)
        if self.variant == "llr":
            losses += self.slope_weight * tf.abs(slope)
        elif self.variant == "grad_norm":
            squared = inner_product(here.gradient, here.gradient)
            losses += self.slope_weight * tf.sqrt(tf.maximum(squared, SMALLEST_SQUARED_LENGTH))
        return Terms(losses, clean_logits=here.logits, adversarial_logits=moved_logits)

    def crafting_passes(self) -> tuple[int, int]:
        forward, backward = super().crafting_passes()
        # The statistics of the clean batch; then, in every restart, the tangent. Restarts are compared by
        # their gap, which needs it again.
        tangents = self.attack.restarts * (2 if self.attack.restarts > 1 else 1)
        return forward + 1 + tangents, backward + tangents

    def loss_passes(self) -> Cost:
        # Forward: clean, its tangent, moved. The gradient of the tangent goes back three times: to the image,
        # through that pass, and through the forward pass, the latter two to the weights as well.
        return Cost(3, 1 + 3 + 1, 1 + 2 + 1)
