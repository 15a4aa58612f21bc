"""Fast adversarial training, and two ways to keep it from collapsing."""

from typing import Any, NamedTuple

import tensorflow as tf

from athe_tf.attacks.engine.attack import Attack
from athe_tf.attacks.gradient import gradient_of
from athe_tf.attacks.local_linearity import inner_product, input_gradient
from athe_tf.training.adversarial_model import Cost, Terms
from athe_tf.training.crafting import crafting_mode
from athe_tf.training.pgd_at import PGDAT
from athe_tf.utils import rng
from athe_tf.utils.errors import InputError, check


class FastAT(PGDAT):
    """FastAT: adversarial training with one large step from a random start (Wong et al., 2020).

    Training objective: that of PGD-AT, `CE(f(x*), y)`, with HE the margin loss of Eq. 6. The attack takes one
    step of 1.25 epsilon along the gradient of `CE(f(x'), y)` at a random point of the ball, and projects. It
    contains no margin. Batch normalisation is in training mode while crafting, as in the released code, so
    its statistics are updated twice a step.

    The HE paper reports FastAT with HE in Table 3, but neither its released code nor its text says how; the
    attack and the loss are those of Table 1.

    A run can collapse within one epoch: `athe_tf/programs/overfitting_guard.py` watches for that, and
    `bin/train` uses it unless told otherwise. Two options prevent it:

    - `nfgsm_noise`, N-FGSM (de Jorge et al., 2022): the start is uniform in a ball of `nfgsm_noise * epsilon`
      (2 in the paper), and neither start nor step is projected back to the ball; images stay in [0, 1]. Its
      step is epsilon.
    - `gradalign`, GradAlign (Andriushchenko and Flammarion, 2020): the attack starts at the image, and
      `gradalign * (1 - cos(grad l(x), grad l(x + eta)))` is added to the loss, eta uniform in the ball. The
      first gradient is the attack's own and a constant; the second is differentiated once more. An image one
      of whose gradients is zero adds nothing. `gradalign_weight` has the paper's weights on CIFAR-10. Moving
      statistics are updated three times a step.

    Example:

    >>> attack = athe_tf.attacks.PGD(8 / 255, step_size=10 / 255, steps=1)
    >>> trainer = FastAT(net, attack, margin=0.2)

    Args:
        net: A Keras model from images in [0, 1] to logits.
        attack: A PGD attack of one step and one start.
        nfgsm_noise: Defaults to 0: a start in the ball, and projection.
        gradalign: Defaults to 0: no alignment.
        **kwargs: Those of `AdversarialModel`.
    """

    default_bn_mode = "train"

    def __init__(
        self,
        net,
        attack: Attack | None = None,
        *,
        nfgsm_noise: float = 0.0,
        gradalign: float = 0.0,
        **kwargs,
    ):
        super().__init__(net, attack, **kwargs)
        steps, restarts = getattr(attack, "steps", None), getattr(attack, "restarts", None)
        if (steps, restarts) != (1, 1):
            raise InputError(
                "FastAT takes one step from one start: attack=athe_tf.attacks.PGD(epsilon, steps=1, "
                f"step_size=1.25 * epsilon). Received: {type(attack).__name__} with steps={steps}, "
                f"restarts={restarts}. Use PGDAT for more."
            )
        for name, value in (("nfgsm_noise", nfgsm_noise), ("gradalign", gradalign)):
            check(value >= 0, f"`{name}` must not be negative. Received: {name}={value}.")
        check(
            not (nfgsm_noise and gradalign),
            "GradAlign starts at the image, N-FGSM far from it. "
            f"Received: nfgsm_noise={nfgsm_noise}, gradalign={gradalign}. Use one of them.",
        )
        self.nfgsm_noise = nfgsm_noise
        self.gradalign = gradalign

    def craft(self, x, y):
        """Adversarial images; with GradAlign, `Aligned`, which has the gradient as well."""
        if not (self.nfgsm_noise or self.gradalign):
            return super().craft(x, y)
        attack = self.current_attack()
        start = self._far_start(attack, x) if self.nfgsm_noise else x
        with crafting_mode(self.bn_mode, self.net, x) as training:
            _, gradient, _ = gradient_of(attack.objective(self.victim(training), y, []), start)
        moved = start + attack.step_size * attack.threat.ascent(gradient)
        if self.nfgsm_noise:
            return tf.clip_by_value(moved, 0.0, 1.0)
        return Aligned(attack.threat.project(x, moved), gradient)

    def _far_start(self, attack, x):
        noise = attack.threat.uniform_start(x, self.positions(x), self.step_seed())
        return tf.clip_by_value(x + self.nfgsm_noise * noise, 0.0, 1.0)

    def training_loss(self, x, x_adv, y) -> Terms:
        if not self.gradalign:
            return super().training_loss(x, x_adv, y)
        misaligned = 1.0 - self.alignment(x, x_adv.gradient, y)
        terms = super().training_loss(x, x_adv.images, y)
        return terms._replace(losses=terms.losses + self.gradalign * tf.cast(misaligned, terms.losses.dtype))

    def alignment(self, x, gradient, y):
        """Cosine of the gradient at the image and at a random point near it; 1 where one of them is zero."""
        attack = self.current_attack()
        noise = attack.threat.uniform_start(x, self.positions(x), rng.fold(self.step_seed(), 1))
        objective = attack.objective(self.victim(training=True), y, [])
        _, other = input_gradient(lambda images: objective(images)[0], x + tf.cast(noise, x.dtype))
        return cosine(gradient, other)

    def loss_passes(self) -> Cost:
        # The gradient of a gradient goes back three times: to the image, through that pass, and through the
        # forward pass, the latter two to the weights as well.
        return Cost(2, 1 + 3, 1 + 2) if self.gradalign else Cost(1, 1, 1)


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
    """Cosine of two batches of images, one number an example; 1 where one of them is zero."""
    squares = [inner_product(gradient, gradient) for gradient in (one, other)]
    usable = tf.logical_and(squares[0] > 0, squares[1] > 0)
    # Both branches are differentiated: the root must not see the zero that it is not used for.
    lengths = [tf.sqrt(tf.where(usable, square, 1.0)) for square in squares]
    return tf.where(usable, inner_product(one, other) / lengths[0] / lengths[1], 1.0)
