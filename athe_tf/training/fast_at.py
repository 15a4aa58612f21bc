"""Fast adversarial training."""

from athe_tf.training.options import FastATOptions
from athe_tf.training.pgd_at import PGDAT


class FastAT(PGDAT):
    """FastAT: adversarial training with one large step from a random start (Wong et al., 2020).

    Training objective: that of PGD-AT, `CE(f(x*), y)`, with HE the margin loss of Eq. 6. The attack takes one
    step of 1.25 epsilon along the gradient of `CE(f(x'), y)` at a random point of the ball, and projects. It
    contains no margin. Batch normalization is in training mode while crafting, as in the released code, so
    its statistics are updated twice per step.

    The HE paper reports FastAT with HE in Table 3, but neither its released code nor its text says how; the
    attack and the loss are those of Table 1.

    Robust accuracy can drop to zero within one epoch (catastrophic overfitting). `NFGSM` and `GradAlign`
    prevent this.

    Example:

    >>> attack = athe_tf.attacks.PGD(8 / 255, step_size=10 / 255, steps=1)
    >>> trainer = athe_tf.training.FastAT(net, attack, margin=0.2)

    Args:
        net: A Keras model from images in [0, 1] to logits.
        attack: A PGD attack of one step and one start.
        **kwargs: Those of `AdversarialModel`.
    """

    options_class = FastATOptions
