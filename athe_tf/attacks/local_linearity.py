"""The point of a ball where a loss is farthest from its linear approximation."""

import tensorflow as tf

from athe_tf.attacks.engine.gradients import adam_direction, adam_memory, inner_product, input_gradient
from athe_tf.attacks.gradient import PGD
from athe_tf.utils.errors import InputError, check_choice

# In the released LLR code.
ADAM_EPSILON = 1e-9


def linear_gap(loss_there, loss_here, slope):
    """`|l(x + d) - l(x) - slope|`: how far the loss is from its tangent; one value per example.

    `slope` is `d . grad l(x)`.
    """
    return tf.abs(loss_there - loss_here - slope)


class LocalLinearity(PGD):
    """Looks for gamma of Qin et al. (2019): the largest `linear_gap` in the ball.

    Not an attack on predictions: the images it returns need not be misclassified. `LLR` trains on them.

    Example:

    >>> search = LocalLinearity(8 / 255, steps=10)
    >>> x_gamma = search(model, x, y)

    Args:
        rule: `"sign"` (default) steps along the direction of steepest ascent; `"adam"` by Adam, with
            `step_size` its learning rate, as the released code.
        tangent_gradient: Whether the gradient of the tangent takes part in the ascent, as in the paper's
            definition (default); the released code leaves it out.
        **kwargs: Those of `PGD`. The loss is the cross-entropy.
    """

    name = "local-linearity"
    clean_passes = (1, 1)

    def __init__(self, epsilon, norm="linf", *, rule: str = "sign", tangent_gradient: bool = True, **kwargs):
        super().__init__(epsilon, norm, **kwargs)
        check_choice("rule", rule, ("adam", "sign"))
        self.rule, self.tangent_gradient = rule, tangent_gradient

    @classmethod
    def like(cls, attack, **options) -> "LocalLinearity":
        """The search in the ball, from the start and with the steps of a PGD attack."""
        if not isinstance(attack, PGD):
            raise InputError(
                "Local linearity is searched for by gradient ascent. Expected an attack such as "
                f"athe_tf.attacks.PGD(epsilon=8/255, steps=10). Received: {type(attack).__name__}."
            )
        return cls(
            attack.threat.epsilon,
            attack.threat.norm,
            steps=attack.steps,
            step_size=attack.step_size,
            # At the image itself both the gap and its gradient are zero.
            start="uniform" if attack.start == "zero" else attack.start,
            restarts=attack.restarts,
            logit_scale=attack.logit_scale,
            **options,
        )

    def losses(self, victim, images, y):
        """`(the loss, logits)`."""
        seen, logits = self.loss_logits(victim, images)
        return self.loss_function(seen, y, None), logits

    def clean_inputs(self, victim, x, y):
        """The tangent: images, loss and gradient there, by one pass there and back."""
        here, gradient = input_gradient(lambda images: self.losses(victim, images, y)[0], x)
        return [x, tf.stop_gradient(here), tf.stop_gradient(gradient)]

    def objective(self, victim, y, inputs):
        """From images to their gap."""
        x, here, gradient = inputs

        def evaluate(x_moved):
            there, logits = self.losses(victim, x_moved, y)
            moved = x_moved if self.tangent_gradient else tf.stop_gradient(x_moved)
            return linear_gap(there, here, inner_product(moved - x, gradient)), logits

        return evaluate

    def initial_memory(self, x):
        return adam_memory(x) if self.rule == "adam" else []

    def direction(self, gradient, memory):
        if self.rule == "sign":
            return super().direction(gradient, memory)
        return adam_direction(gradient, memory, ADAM_EPSILON)
