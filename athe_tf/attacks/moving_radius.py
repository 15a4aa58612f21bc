"""DDN and FMN: gradient ascent in a ball that shrinks where it succeeds and grows elsewhere."""

import math
from typing import Any, NamedTuple

import tensorflow as tf

from athe_tf.attacks import losses
from athe_tf.attacks.engine.arguments import check_positive
from athe_tf.attacks.engine.gradients import gradient_of
from athe_tf.attacks.engine.loop import shrinking_loop
from athe_tf.attacks.engine.results import RoundResult
from athe_tf.attacks.minimum_norm import MinimumNormAttack
from athe_tf.models.victim import Victim
from athe_tf.threat import TINY, per_example
from athe_tf.utils.errors import check

# The share by which the radius of FMN moves in the last step.
LAST_GAMMA = 0.001
# The linearized boundary is overshot by this share: rounding may stop exactly before it. Not in the paper.
OVERSHOOT = 0.001


class Walk(NamedTuple):
    """The state of a walk; one row per example."""

    delta: Any
    radius: Any
    nearest: Any  # the adversarial image of the smallest norm
    norm: Any  # its norm, infinite if there is none


class MovingRadiusAttack(MinimumNormAttack):
    """A minimum-norm attack that moves the radius of its ball, by `gamma`, after every step.

    A subclass says what is climbed in `objective`, the first radius, how the radius moves in `next_radius`,
    and how a perturbation is brought to it in `project_to_radius`.
    """

    first_radius = math.inf

    def __init__(
        self,
        epsilon,
        norm="linf",
        *,
        steps: int = 100,
        gamma: float = 0.05,
        max_step_size: float = 1.0,
        clip_to_epsilon: bool = False,
        targeted: bool = False,
    ):
        super().__init__(epsilon, norm, steps=steps, clip_to_epsilon=clip_to_epsilon, targeted=targeted)
        check(0 < gamma < 1, f"`gamma` must lie between 0 and 1. Received: gamma={gamma}.")
        check_positive(max_step_size=max_step_size)
        self.gamma, self.max_step_size = gamma, max_step_size

    def objective(self, logits, labels):
        """What is climbed: one value per example."""
        raise NotImplementedError

    def next_radius(self, i, walk: Walk, success, loss, gradient):
        """The next radius; `walk` has the nearest adversarial image up to here."""
        raise NotImplementedError

    def project_to_radius(self, delta, radius):
        """The perturbation, brought to the radius."""
        raise NotImplementedError

    def annealed(self, i, first: float, last: float):
        """A value that falls like a cosine over the steps."""
        share = (1.0 + tf.cos(math.pi * tf.cast(i, tf.float32) / self.steps)) / 2.0
        return last + (first - last) * share

    def run_round(self, victim: Victim, x, y, ids, seed, round_index) -> RoundResult:
        """One walk; the nearest adversarial iterate."""

        def body(i, walk: Walk, constants):
            images, labels = constants

            def objective(v):
                logits = victim.source.logits(v)
                loss = self.loss_sign * self.objective(logits, labels)
                return loss, (loss, logits)

            (loss, logits), gradient, bad = gradient_of(objective, images + walk.delta)
            success, judged = self.verdict(victim, images + walk.delta, logits, labels)
            walk = self._nearer(walk, images, success)
            radius = self.next_radius(i, walk, success, loss, gradient)
            largest = self.threat.length(tf.maximum(images, 1.0 - images))
            radius = tf.minimum(radius, largest)
            size = self.annealed(i, self.max_step_size, self.max_step_size / 100)
            length = tf.norm(tf.reshape(gradient, [tf.shape(gradient)[0], -1]), axis=1)
            stepped = walk.delta + size * gradient / per_example(tf.maximum(length, TINY))
            delta = self.project_to_radius(stepped, per_example(radius))
            delta = tf.clip_by_value(images + delta, 0.0, 1.0) - images
            return walk._replace(delta=delta, radius=radius), tf.zeros_like(success), bad, judged

        def test_last(walk: Walk, constants):
            images, labels = constants
            logits = victim.source.logits(images + walk.delta)
            success, judged = self.verdict(victim, images + walk.delta, logits, labels, last=True)
            return self._nearer(walk, images, success), judged

        nowhere, radius = (tf.fill(tf.shape(x)[:1], value) for value in (math.inf, self.first_radius))
        walk = Walk(tf.zeros_like(x), radius, x, nowhere)
        loop = shrinking_loop(body, walk, [x, y], self.steps, test_last)
        return self.outcome(victim, x, y, loop.state.nearest, loop.state.norm, loop)

    def _nearer(self, walk: Walk, images, success) -> Walk:
        nearest, norm = self._keep_nearer(images, images + walk.delta, success, walk.nearest, walk.norm)
        return walk._replace(nearest=nearest, norm=norm)


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
        init_radius: The first radius. Defaults to 1.
        **kwargs: `steps` (100), `max_step_size` (1), `clip_to_epsilon` and `targeted`, as in `FMN`; `gamma`
            (0.05), by which share the radius moves in every step.

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
