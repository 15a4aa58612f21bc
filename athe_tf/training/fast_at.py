"""Fast adversarial training."""

from athe_tf.attacks.base import Attack
from athe_tf.errors import InputError
from athe_tf.training.adversarial_model import Cost
from athe_tf.training.pgd_at import PGDAT


class FastAT(PGDAT):
    """FastAT: adversarial training with one large step from a random start (Wong et al., 2020).

    Training objective: that of PGD-AT, `CE(f(x*), y)`, with HE the margin loss of Eq. 6. The attack takes one
    step of 1.25 epsilon along the gradient of `CE(f(x'), y)` at a random point of the ball, and projects. It
    contains no margin. Batch normalisation is in training mode while crafting, as in the released code, so
    its statistics are updated twice a step.

    The HE paper reports FastAT with HE in Table 3, but neither its released code nor its text says how; the
    attack and the loss are those of Table 1.

    A run can collapse within one epoch: `athe_tf/training/overfitting_guard.py` watches for that, and
    `bin/train` uses it unless told otherwise.

    Example:

    >>> attack = athe_tf.attacks.PGD(8 / 255, step_size=10 / 255, steps=1)
    >>> trainer = FastAT(net, attack, margin=0.2)

    Args:
        net: A Keras model from images in [0, 1] to logits.
        attack: A PGD attack of one step and one start.
        **kwargs: Those of `AdversarialModel`.
    """

    default_bn_mode = "train"

    def __init__(self, net, attack: Attack | None = None, **kwargs):
        super().__init__(net, attack, **kwargs)
        steps, restarts = getattr(attack, "steps", None), getattr(attack, "restarts", None)
        if (steps, restarts) != (1, 1):
            raise InputError(
                "FastAT takes one step from one start: attack=athe_tf.attacks.PGD(epsilon, steps=1, "
                f"step_size=1.25 * epsilon). Received: {type(attack).__name__} with steps={steps}, "
                f"restarts={restarts}. Use PGDAT for more."
            )

    def cost(self) -> Cost:
        return Cost(2, 2, 1)
