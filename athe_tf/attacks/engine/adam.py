"""Adam's two averages, for attacks that step by it."""

from typing import Any, NamedTuple

import tensorflow as tf

MEAN_DECAY, SQUARE_DECAY = 0.9, 0.999


class Adam(NamedTuple):
    """The running averages of a gradient and of its square (Kingma and Ba, 2015).

    Example:

    >>> adam = Adam(0.0, 0.0).updated(tf.constant(2.0))
    >>> mean, root = adam.unbiased(1.0)
    >>> round(float(mean / root), 3)
    1.0
    """

    mean: Any
    square: Any

    def updated(self, gradient) -> "Adam":
        """The averages after one more gradient."""
        return Adam(
            MEAN_DECAY * self.mean + (1 - MEAN_DECAY) * gradient,
            SQUARE_DECAY * self.square + (1 - SQUARE_DECAY) * tf.square(gradient),
        )

    def unbiased(self, updates, epsilon: float = 1e-8):
        """`(mean, root of the mean square)` without the bias of their start at zero; a step is their ratio.

        Args:
            updates: How many gradients went into the averages.
            epsilon: Added to the root.
        """
        mean = self.mean / (1 - MEAN_DECAY**updates)
        return mean, tf.sqrt(self.square / (1 - SQUARE_DECAY**updates)) + epsilon
