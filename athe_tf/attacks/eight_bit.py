"""PGD among the images that a file of 8 bits per pixel can store."""

import tensorflow as tf

from athe_tf.attacks.gradient import CWLinf
from athe_tf.threat import LEVELS, Linf, nearest_level

# Levels are whole numbers but for the rounding of float32: 255 times a pixel is exact to about this much.
ROUNDING = 1e-4


class EightBitBall(Linf):
    """The images of an linf ball whose pixels are whole levels; a pixel without one in reach stays."""

    def projector(self, x):
        low = tf.math.ceil(LEVELS * tf.maximum(x - self.epsilon, 0.0) - ROUNDING)
        high = tf.floor(LEVELS * tf.minimum(x + self.epsilon, 1.0) + ROUNDING)
        return lambda x_adv: tf.where(
            low > high, x, tf.clip_by_value(nearest_level(x_adv), low, tf.maximum(low, high)) / LEVELS
        )


class EightBitPGD(CWLinf):
    """PGD on the margin whose iterates are 8-bit images, as PNG stores them.

    Rounding an adversarial example to 8 bits may undo it. This attack searches among the images that such a
    file can store: each iterate is projected to the ball, and then rounded. An image of 8 bits moves by at
    most `floor(255 * epsilon)` levels per pixel.

    Example:

    >>> x_adv = EightBitPGD(epsilon=8 / 255, steps=10)(model, x, y)

    Args:
        step_size: Length of a step. Defaults to `epsilon / 4`, rounded to whole levels, at least one.
        **kwargs: Those of `PGD`, in the norm `"linf"` only.
    """

    name = "eight-bit-pgd"
    norms = ("linf",)

    def __init__(self, epsilon, norm="linf", *, step_size=None, **kwargs):
        if step_size is None:
            step_size = max(1, round(LEVELS * float(epsilon) / self.epsilon_per_step)) / LEVELS
        super().__init__(epsilon, norm, step_size=step_size, **kwargs)
        self.threat = EightBitBall(epsilon)
