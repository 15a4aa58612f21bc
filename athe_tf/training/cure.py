"""Training with a curvature regularizer."""

import tensorflow as tf

from athe_tf.attacks.engine.gradients import inner_product
from athe_tf.training.adversarial_model import AdversarialModel, Cost, Terms
from athe_tf.training.llr import clean_pass, gradient_at
from athe_tf.training.options import CUREOptions


class CURE(AdversarialModel):
    """CURE: cross-entropy, plus the change of the gradient along itself (Moosavi-Dezfooli et al., 2019).

    Training objective: `l(x) + curvature_weight * ||grad l(x + h z) - grad l(x)||^2`, with l the
    cross-entropy, z the sign of `grad l(x)` divided by its Euclidean length, treated as a constant,
    and h a length. Its gradient contains second derivatives of the network. With HE the first term
    is the margin loss of Eq. 6, the gradients are those of the loss without a margin. All passes after the
    first use the statistics of the clean batch, as in LLR.

    Nothing is crafted: an attack is optional and used only to measure `val_robust_accuracy`. With an epsilon
    schedule, h grows in proportion to epsilon; the authors let it grow from 0 over five epochs. They
    fine-tuned a trained network; training from scratch is difficult.

    Example:

    >>> trainer = athe_tf.training.CURE(net, curvature_weight=4.0, curvature_step=1.5)

    Args:
        net: A Keras model from images in [0, 1] to logits, with `athe_tf.BatchNorm` or none.
        attack: For validation, and for the epsilon of a schedule.
        curvature_weight: The paper's gamma. Defaults to 4.
        curvature_step: The paper's h, a Euclidean length in pixels of [0, 1]. Defaults to 1.5.
        **kwargs: Those of `AdversarialModel`; `bn_mode` can only be `"frozen_clean"`.
    """

    options_class = CUREOptions

    def current_step(self):
        """The paper's h at this step."""
        if self.epsilon_schedule is None:
            return self.options.curvature_step
        return self.options.curvature_step * self.epsilon() / self.attack.threat.epsilon

    def training_loss(self, x, x_adv, y) -> Terms:
        here = clean_pass(self.net, x, y)
        step = tf.cast(self.current_step(), here.gradient.dtype)
        moved = x + step * tf.stop_gradient(unit_sign(here.gradient))
        _, gradient = gradient_at(self.net, here.statistics, moved, y)
        change = gradient - here.gradient
        curvature = inner_product(change, change)
        losses = self.crossentropy(y, here.logits) + self.options.curvature_weight * curvature
        return Terms(losses, clean_logits=here.logits)

    def loss_passes(self) -> Cost:
        # As in LLR, the gradient of a gradient goes back three times, the latter two to the weights as well.
        return Cost(3, 1 + 3 + 3, 1 + 2 + 2)


def unit_sign(gradient):
    """The signs of a gradient, scaled to Euclidean length 1 per image; zero where the gradient is zero."""
    signs = tf.sign(gradient)
    return signs / tf.maximum(tf.sqrt(inner_product(signs, signs)), 1.0)[:, None, None, None]
