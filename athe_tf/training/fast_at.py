"""Fast adversarial training, with more noise (N-FGSM) or aligned gradients (GradAlign)."""

from typing import Any, NamedTuple

import tensorflow as tf

from athe_tf.attacks.engine import gradient_health
from athe_tf.attacks.engine.gradients import gradient_of, inner_product, input_gradient
from athe_tf.training.adversarial_model import Cost, Terms
from athe_tf.training.crafting import crafting_mode
from athe_tf.training.gradient_watch import checked_gradient
from athe_tf.training.options import FastATOptions, GradAlignOptions, NFGSMOptions
from athe_tf.training.pgd_at import PGDAT
from athe_tf.utils import replicas, rng


class FastAT(PGDAT):
    """FastAT: adversarial training with one large step from a random start (Wong et al., 2020).

    Training objective: as in PGD-AT, `CE(f(x*), y)`, with HE the margin loss of Eq. 6. The attack takes one
    step of 1.25 epsilon along the gradient of `CE(f(x'), y)` at a random point of the ball, and projects. It
    contains no margin. Batch normalization is in training mode while crafting, as in the released code, so
    its statistics are updated twice per step.

    The HE paper reports FastAT with HE in Table 3, but neither its released code nor its text says how; the
    attack and the loss are from Table 1.

    Robust accuracy can drop to zero within one epoch (catastrophic overfitting). `NFGSM` and `GradAlign`
    prevent this.

    Example:

    >>> attack = athe_tf.attacks.PGD(8 / 255, step_size=10 / 255, steps=1)
    >>> trainer = athe_tf.training.FastAT(net, attack, margin=0.2)

    Args:
        **kwargs: Those of `AdversarialModel`; `attack` is PGD of one step and one start.
    """

    options_class = FastATOptions


class NFGSM(FastAT):
    """N-FGSM: one step from noise larger than the ball, without projection (de Jorge et al., 2022).

    The start is uniform in a ball of `noise * epsilon`, and neither start nor step is projected back to the
    ball of epsilon; images stay in [0, 1]. The step is epsilon. Everything else is as in `FastAT`.

    Example:

    >>> attack = athe_tf.attacks.PGD(8 / 255, step_size=8 / 255, steps=1)
    >>> trainer = athe_tf.training.NFGSM(net, attack, noise=2.0)

    Args:
        attack: A PGD attack of one step and one start.
        noise: The magnitude of the noise in units of epsilon. Defaults to the paper's 2.
        **kwargs: Those of `AdversarialModel`.
    """

    options_class = NFGSMOptions

    def craft(self, x, y):
        attack = self.current_attack()
        noise = attack.threat.uniform_start(x, replicas.positions(x), self.step_seed())
        start = tf.clip_by_value(x + self.options.noise * noise, 0.0, 1.0)
        with crafting_mode(self.bn_mode, self.rest, x) as training:
            objective = attack.objective(self.victim(training), self.attack_labels(y), [])
            _, gradient, bad = gradient_of(objective, start)
        gradient_health.report(gradient_health.flags_of(bad))
        return tf.clip_by_value(start + attack.step_size * attack.threat.ascent(gradient), 0.0, 1.0)


class GradAlign(FastAT):
    """GradAlign: FastAT with gradients that point the same way nearby (Andriushchenko and Flammarion, 2020).

    The attack starts at the image, and `alignment * (1 - cos(grad l(x), grad l(x + eta)))` is added to the
    loss, eta uniform in the ball. The first gradient is the attack's own and a constant; the second is
    differentiated once more. An image with a zero gradient contributes nothing. Moving statistics are updated
    three times per step. Everything else is as in `FastAT`.

    Example:

    >>> attack = athe_tf.attacks.PGD(8 / 255, step_size=10 / 255, steps=1)
    >>> trainer = athe_tf.training.GradAlign(net, attack, alignment=0.2)

    Args:
        attack: A PGD attack of one step and one start.
        alignment: The weight of the alignment; `gradalign_weight` has the paper's values on CIFAR-10.
            Defaults to 0.2, the value for epsilon 8/255.
        **kwargs: Those of `AdversarialModel`.
    """

    options_class = GradAlignOptions

    def craft(self, x, y):
        """Adversarial examples, with the gradient at the clean images."""
        attack = self.current_attack()
        with crafting_mode(self.bn_mode, self.rest, x) as training:
            objective = attack.objective(self.victim(training), self.attack_labels(y), [])
            _, gradient, bad = gradient_of(objective, x)
        gradient_health.report(gradient_health.flags_of(bad))
        moved = x + attack.step_size * attack.threat.ascent(gradient)
        return Aligned(attack.threat.project(x, moved), gradient)

    def training_loss(self, x, x_adv, y) -> Terms:
        misaligned = 1.0 - self.gradient_cosine(x, x_adv.gradient, y)
        terms = super().training_loss(x, x_adv.images, y)
        penalty = self.options.alignment * tf.cast(misaligned, terms.losses.dtype)
        return terms._replace(losses=terms.losses + penalty)

    def gradient_cosine(self, x, gradient, y):
        """Cosine of the gradients at the image and at a random point near it; 1 if one of them is zero."""
        attack = self.current_attack()
        noise = attack.threat.uniform_start(x, replicas.positions(x), rng.fold(self.step_seed(), 1))
        objective = attack.objective(self.victim(training=True), self.attack_labels(y), [])
        moved = x + tf.cast(noise, x.dtype)
        return cosine(gradient, checked_gradient(*input_gradient(lambda z: objective(z)[0], moved)))

    def loss_passes(self) -> Cost:
        # The gradient of a gradient takes three backward passes: to the image, through that pass, and through
        # the forward pass; the latter two also go to the weights.
        return Cost(2, 1 + 3, 1 + 2)


def gradalign_weight(epsilon: float) -> float:
    """The paper's weight of GradAlign on CIFAR-10 for an epsilon in pixels of [0, 1].

    Example:

    >>> round(gradalign_weight(8 / 255), 6), round(gradalign_weight(16 / 255), 6)
    (0.2, 2.0)
    """
    return 0.02 * 10 ** (255 * epsilon / 8)


class Aligned(NamedTuple):
    """What GradAlign crafts: adversarial images, and the gradient at the clean ones."""

    images: Any
    gradient: Any


def cosine(one, other):
    """Cosine of two batches of images, one value per example; 1 if one of them is zero."""
    squares = [inner_product(gradient, gradient) for gradient in (one, other)]
    usable = tf.logical_and(squares[0] > 0, squares[1] > 0)
    # Both branches are differentiated: the root must not see the zero that it is not used for.
    lengths = [tf.sqrt(tf.where(usable, square, 1.0)) for square in squares]
    return tf.where(usable, inner_product(one, other) / lengths[0] / lengths[1], 1.0)
