"""Training with regularizers of second derivatives: local linearity (LLR) and curvature (CURE)."""

import contextlib
from typing import Any, NamedTuple

import tensorflow as tf

from athe_tf.attacks.engine.gradients import inner_product, input_gradient
from athe_tf.attacks.local_linearity import LocalLinearity, linear_gap
from athe_tf.layers.batch_norm import capture_batch_statistics, frozen_batch_statistics
from athe_tf.losses import margin_crossentropy
from athe_tf.training.adversarial_model import AdversarialModel, Cost, Terms, full_precision
from athe_tf.training.gradient_watch import checked_gradient
from athe_tf.training.options import CUREOptions, LLROptions

# The square root has no slope at 0.
SMALLEST_SQUARED_LENGTH = 1e-24


class LLR(AdversarialModel):
    """LLR: cross-entropy, plus the distance of the loss from its tangent (Qin et al., 2019).

    With l the cross-entropy, `g(d) = |l(x + d) - l(x) - d . grad l(x)|`, and d* the point of the ball that
    maximizes g (gamma is `g(d*)`), the training objective is

        l(x) + gamma_weight * g(d*) + slope_weight * |d* . grad l(x)|

    which bounds the loss everywhere in the ball from above. Its gradient contains second derivatives of the
    network. With HE the first term is the margin loss of Eq. 6; gamma and the slope are computed without a
    margin, as the divergence of TRADES is.

    The search for d* starts at a random point of the ball and maximizes g, with the statistics of the clean
    batch in every batch normalization. Moving statistics are updated once per step, by the clean images.

    `preset="paper"` climbs g itself, as the definition of gamma says. Its weights 1, 4 and 3 are those of
    third-party code, and sign steps a choice of this package: how the paper searched could not be checked.
    Its authors' rebuttal names 15 steps on CIFAR-10 and 2 on ImageNet. `preset="code"` is the released code:
    weights 2, 4 and 1.2, Adam steps (rate 0.1, 10 of them), and no gradient of the tangent in the ascent. The
    code also decays kernels only and crops from reflected borders: see `configs/cifar_llr_code.flags`.

    Dropout would make the compared passes differ: use networks without it.

    Example:

    >>> trainer = athe_tf.training.LLR(net, athe_tf.attacks.PGD(8 / 255, steps=10))

    Args:
        net: A Keras model from images in [0, 1] to logits, with `athe_tf.BatchNorm` or none.
        attack: A PGD attack: its ball, start and steps are those of the search; validation uses it unchanged.
        variant: `"llr"` (default); `"gamma_only"`, without the slope; `"grad_norm"`, with `||grad l(x)||_2`
            instead of the slope; both are comparisons of the paper's authors.
        preset: `"paper"` (default) or `"code"`: the values of the arguments below that are `None`.
        nominal_weight: The weight of `l(x)`.
        gamma_weight: The paper's lambda.
        slope_weight: The paper's mu.
        rule: Steps of the search: `"sign"` or `"adam"`.
        tangent_gradient: Whether the ascent contains the gradient of the tangent.
        **kwargs: Those of `AdversarialModel`; `bn_mode` can only be `"frozen_clean"`.
    """

    options_class = LLROptions

    def prepared_attack(self, attack):
        search = {name: self.options.resolved(name) for name in ("rule", "tangent_gradient")}
        return LocalLinearity.like(super().prepared_attack(attack), **search)

    def training_loss(self, x, x_adv, y) -> Terms:
        here = clean_pass(self.rest, x, y)
        there, moved_logits = frozen_losses(self.rest, here.statistics, x_adv, y)
        slope = inner_product(tf.stop_gradient(tf.cast(x_adv, x.dtype) - x), here.gradient)
        weight = self.options.resolved
        losses = weight("nominal_weight") * self.crossentropy(y, here.logits)
        losses += weight("gamma_weight") * linear_gap(there, here.losses, slope)
        if self.options.variant == "llr":
            losses += weight("slope_weight") * tf.abs(slope)
        elif self.options.variant == "grad_norm":
            squared = inner_product(here.gradient, here.gradient)
            losses += weight("slope_weight") * tf.sqrt(tf.maximum(squared, SMALLEST_SQUARED_LENGTH))
        return Terms(losses, clean_logits=here.logits, adversarial_logits=moved_logits)

    def crafting_passes(self) -> tuple[int, int]:
        forward, backward = super().crafting_passes()
        # The statistics of the clean batch; then, in every restart, the tangent, and once more to compare
        # several restarts.
        tangents = self.attack.restarts * (2 if self.attack.restarts > 1 else 1)
        return forward + 1 + tangents, backward + tangents

    def loss_passes(self) -> Cost:
        # Forward: clean, its tangent, moved. The gradient of the tangent takes three backward passes: to the
        # image, through that pass, and through the forward pass; the latter two also go to the weights.
        return Cost(3, 1 + 3 + 1, 1 + 2 + 1)


class CleanPass(NamedTuple):
    """The clean images of a batch: logits, losses and input gradients.

    Attributes:
        logits: Of an ordinary training pass, which updates the moving statistics.
        statistics: Those of the pass, by layer of batch normalization.
        losses: Cross-entropy without margin or label smoothing, one value per example.
        gradient: The gradient of each loss with respect to its own image. The statistics of the batch are
            treated as constants, as in every pass that is compared with it.
    """

    logits: Any
    statistics: Any
    losses: Any
    gradient: Any


def clean_pass(net, x, y) -> CleanPass:
    """Two forward passes and one backward pass; an outer tape can differentiate the gradient."""
    with capture_batch_statistics() as statistics:
        logits = full_precision(net(x, training=True))
    losses, gradient = gradient_at(net, statistics, x, y)
    return CleanPass(logits, statistics, losses, checked_gradient(losses, gradient))


def gradient_at(net, statistics, x, y):
    """`(losses, input gradient)` at `x`, normalized by `statistics`."""
    return input_gradient(lambda images: frozen_losses(net, statistics, images, y)[0], x)


def frozen_losses(net, statistics, x, y):
    """`(losses, logits)` at `x`, normalized by `statistics`; nothing is updated."""
    with frozen_batch_statistics(statistics) if statistics else contextlib.nullcontext():
        logits = full_precision(net(x, training=True))
    return margin_crossentropy(y, logits), logits


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
        here = clean_pass(self.rest, x, y)
        step = tf.cast(self.current_step(), here.gradient.dtype)
        moved = x + step * tf.stop_gradient(unit_sign(here.gradient))
        _, gradient = gradient_at(self.rest, here.statistics, moved, y)
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
