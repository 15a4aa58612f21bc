"""DDN: the direction of a step decoupled from its norm."""

import tensorflow as tf

from athe_tf.attacks import losses
from athe_tf.attacks.moving_radius import MovingRadiusAttack
from athe_tf.threat import TINY, per_example


class DDN(MovingRadiusAttack):
    """Decoupled direction and norm (Rony et al., 2019): a minimum-norm attack in l2.

    Every step follows the gradient of cross-entropy; then the perturbation is rescaled to a radius that
    shrinks by `gamma` where the image was misclassified and grows by as much where it was not.

    Example:

    >>> result = DDN(epsilon=0.5, norm="l2").run(model, x, y)
    >>> typical_distance = np.median(result.norm)

    Args:
        epsilon: Radius at which the images found are counted, in pixels of [0, 1].
        norm: `"l2"`.
        steps: Number of steps. Defaults to 100.
        init_radius: The first radius. Defaults to 1.
        gamma: By which share the radius moves. Defaults to 0.05.
        max_step_size: Length of the first step; the last is a hundredth of it. Defaults to 1.
        clip_to_epsilon: Test images beyond epsilon once more, projected back to it. Defaults to `False`.
        targeted: Take `y` as the classes to reach. Defaults to `False`.

    Reference: https://arxiv.org/abs/1811.09600
    """

    name = "ddn"
    norms = ("l2",)

    def __init__(self, epsilon, norm="l2", *, init_radius: float = 1.0, **kwargs):
        super().__init__(epsilon, norm, **kwargs)
        self.init_radius = self.first_radius = float(init_radius)

    def objective(self, logits, labels):
        return losses.ce(logits, labels)

    def next_radius(self, i, walk, success, loss, gradient):
        return walk.radius * tf.where(success, 1.0 - self.gamma, 1.0 + self.gamma)

    def project_to_radius(self, delta, radius):
        """Rescaled to the radius, also if it is shorter."""
        return delta * radius / per_example(tf.maximum(self.threat.length(delta), TINY))
