"""FMN: the fast minimum-norm attack."""

import tensorflow as tf

from athe_tf.attacks import losses
from athe_tf.attacks.moving_radius import MovingRadiusAttack
from athe_tf.threat import TINY

# The share by which the radius moves in the last step.
LAST_GAMMA = 0.001
# The linearized boundary is overshot by this share: rounding may stop exactly before it. Not in the paper.
OVERSHOOT = 0.001


class FMN(MovingRadiusAttack):
    """The fast minimum-norm attack (Pintor et al., 2021), in linf, l2 and l1.

    Every step follows the gradient of the margin, and is projected to a ball. Until an adversarial image is
    found, its radius is the linearized distance to the boundary; then it shrinks by `gamma` where the image
    was misclassified, never staying above the smallest norm so far, and grows by as much where it was not.
    Step size and `gamma` fall like a cosine.

    Example:

    >>> result = FMN(epsilon=8 / 255).run(model, x, y)
    >>> typical_distance = np.median(result.norm)

    Args:
        epsilon: Radius at which the images found are counted, in pixels of [0, 1].
        norm: `"linf"` (default), `"l2"` or `"l1"`: what is minimized and counted.
        steps: Number of steps. Defaults to 100.
        gamma: By which share the radius moves in the first step; 0.001 in the last. Defaults to 0.05.
        max_step_size: l2 length of the first step; the last is a hundredth of it. Defaults to 1.
        clip_to_epsilon: Test images beyond epsilon once more, projected back to it. Defaults to `False`.
        targeted: Take `y` as the classes to reach. Defaults to `False`.

    Reference: https://arxiv.org/abs/2102.12827
    """

    name = "fmn"

    def objective(self, logits, labels):
        return losses.margin(logits, labels)

    def next_radius(self, i, walk, success, loss, gradient):
        gamma = self.annealed(i, self.gamma, LAST_GAMMA)
        to_boundary = tf.abs(loss) / tf.maximum(self.threat.dual_length(gradient), TINY)
        found = tf.math.is_finite(walk.norm)
        first = (1.0 + OVERSHOOT) * (self.threat.length(walk.delta) + to_boundary)
        larger = tf.where(found, walk.radius * (1.0 + gamma), first)
        return tf.where(success, tf.minimum(walk.radius * (1.0 - gamma), walk.norm), larger)

    def project_to_radius(self, delta, radius):
        """The nearest perturbation inside the ball."""
        return self.threat.project_perturbation(delta, radius)
