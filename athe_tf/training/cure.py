"""Training with a curvature regulariser."""

import tensorflow as tf

from athe_tf.attacks.engine.attack import Attack
from athe_tf.attacks.local_linearity import inner_product
from athe_tf.training.adversarial_model import AdversarialModel, Cost, Terms
from athe_tf.training.linearisation import clean_pass, gradient_at
from athe_tf.utils.errors import check


class CURE(AdversarialModel):
    """CURE: be right, and let the gradient change little along itself (Moosavi-Dezfooli et al., 2019).

    Training objective: `l(x) + curvature_weight * ||grad l(x + h z) - grad l(x)||^2`, with l the
    cross-entropy, z the sign of `grad l(x)` divided by its Euclidean length, a constant to the weights'
    gradient, and h a length. Its gradient contains second derivatives of the network. With HE the first term
    is the margin loss of Eq. 6, the gradients are those of the loss without a margin. All passes after the
    first use the statistics of the clean batch, as in LLR.

    Nothing is crafted: an attack is optional and used only to measure `val_robust_accuracy`. With an epsilon
    schedule h grows in proportion to epsilon; the authors let it grow from 0 during five epochs. They
    fine-tuned a network that was trained before; from scratch CURE is hard to train.

    Example:

    >>> trainer = CURE(net, curvature_weight=4.0, curvature_step=1.5)

    Args:
        net: A Keras model from images in [0, 1] to logits, with `athe_tf.BatchNorm` or none.
        attack: For validation, and for the epsilon of a schedule.
        curvature_weight: The paper's gamma. Defaults to 4.
        curvature_step: The paper's h, a Euclidean length in pixels of [0, 1]. Defaults to 1.5.
        **kwargs: Those of `AdversarialModel`, without `bn_mode`: it is `"frozen_clean"` by construction.
    """

    default_bn_mode = "frozen_clean"
    needs_attack = False

    def __init__(
        self,
        net,
        attack: Attack | None = None,
        *,
        curvature_weight: float = 4.0,
        curvature_step: float = 1.5,
        **kwargs,
    ):
        super().__init__(net, attack, **kwargs)
        check(
            curvature_weight >= 0,
            f"`curvature_weight` must not be negative. Received: curvature_weight={curvature_weight}.",
        )
        check(
            curvature_step > 0,
            f"`curvature_step` must be larger than 0. Received: curvature_step={curvature_step}.",
        )
        check(
            self.bn_mode == "frozen_clean",
            "CURE compares passes that are normalised by the same statistics, so bn_mode can only be "
            f"'frozen_clean'. Received: bn_mode='{self.bn_mode}'. Leave it out.",
        )
        self.curvature_weight = curvature_weight
        self.curvature_step = curvature_step

    def current_step(self):
        """The paper's h at this step."""
        if self.epsilon_schedule is None:
            return self.curvature_step
        return self.curvature_step * self.epsilon() / self.attack.threat.epsilon

    def training_loss(self, x, x_adv, y) -> Terms:
        here = clean_pass(self.net, x, y)
        step = tf.cast(self.current_step(), here.gradient.dtype)
        moved = x + step * tf.stop_gradient(unit_sign(here.gradient))
        _, gradient = gradient_at(self.net, here.statistics, moved, y)
        change = gradient - here.gradient
        curvature = inner_product(change, change)
        losses = self.crossentropy(y, here.logits) + self.curvature_weight * curvature
        return Terms(losses, clean_logits=here.logits)

    def loss_passes(self) -> Cost:
        # As in LLR, the gradient of a gradient goes back three times, the latter two to the weights as well.
        return Cost(3, 1 + 3 + 3, 1 + 2 + 2)


def unit_sign(gradient):
    """The signs of a gradient, at Euclidean length one for each image; zero where the gradient is."""
    signs = tf.sign(gradient)
    return signs / tf.maximum(tf.sqrt(inner_product(signs, signs)), 1.0)[:, None, None, None]
