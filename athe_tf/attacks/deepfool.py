"""DeepFool: walk to the nearest boundary of the linearized classifier until the class changes."""

import tensorflow as tf

from athe_tf.attacks.engine.arguments import check_at_least
from athe_tf.attacks.engine.loop import shrinking_loop
from athe_tf.attacks.engine.results import Costs, RoundResult
from athe_tf.attacks.minimum_norm import Linearization, MinimumNormAttack
from athe_tf.models.victim import Victim
from athe_tf.threat import TINY, per_example
from athe_tf.utils.where import where_rows

# Added to the length of every step: next to the boundary the overshoot alone is too short to cross it.
LEAST_STEP = 1e-5


class DeepFool(MinimumNormAttack):
    """DeepFool (Moosavi-Dezfooli et al., 2016), in l2 and linf.

    Every step goes to the nearest boundary between the label and one of the classes that were the most
    likely at the clean image, as if the logits were linear; an image is done when its class changes.

    Example:

    >>> result = DeepFool(epsilon=8 / 255).run(model, x, y)
    >>> typical_distance = np.median(result.norm)

    Args:
        epsilon: Radius at which the images found are counted, in pixels of [0, 1].
        norm: `"linf"` (default) or `"l2"`: what the steps minimize, and what is counted.
        steps: Largest number of iterations. Defaults to 100.
        overshoot: By how much of its length the perturbation is stretched to cross the boundary.
            Defaults to 0.02.
        n_targets: Number of wrong classes that are considered, the likeliest ones. Defaults to 9.
        clip_to_epsilon: Test images beyond epsilon once more, projected back to it. Defaults to `False`.

    Reference: https://arxiv.org/abs/1511.04599
    """

    name = "deepfool"
    norms = ("linf", "l2")

    def __init__(
        self,
        epsilon,
        norm="linf",
        *,
        steps: int = 100,
        overshoot: float = 0.02,
        n_targets: int = 9,
        clip_to_epsilon: bool = False,
    ):
        super().__init__(epsilon, norm, steps=steps, clip_to_epsilon=clip_to_epsilon)
        check_at_least(0, overshoot=overshoot)
        check_at_least(1, n_targets=n_targets)
        self.overshoot, self.n_targets = overshoot, int(n_targets)

    def costs(self, victim: Victim) -> Costs:
        boundaries = min(self.n_targets, (victim.num_classes or self.n_targets + 1) - 1)
        return super().costs(victim)._replace(backward=boundaries)

    def run_round(self, victim: Victim, x, y, ids, seed, round_index) -> RoundResult:
        """Images leave the batch as soon as their class changes."""

        def body(i, state, constants):
            x_adv, path, rivals, _ = state
            images, labels = constants
            here = Linearization(victim, x_adv)
            # The first step is at the clean image, so finding the likeliest classes needs no further pass.
            rivals = tf.cond(tf.equal(i, 0), lambda: self._rivals(here.logits, labels), lambda: rivals)
            count = tf.minimum(self.n_targets, tf.shape(here.logits)[-1] - 1)
            gap, normal, bad = here.nearest(labels, rivals, count, self.threat)
            wrong, judged = self.verdict(victim, x_adv, here.logits, labels)
            path += self._step(gap, normal)
            moved = tf.clip_by_value(images + (1.0 + self.overshoot) * path, 0.0, 1.0)
            return [where_rows(wrong, x_adv, moved), path, rivals, wrong], wrong, bad, judged

        def test_last(state, constants):
            x_adv, path, rivals, _ = state
            logits = victim.source.logits(x_adv)
            wrong, judged = self.verdict(victim, x_adv, logits, constants[1], last=True)
            return [x_adv, path, rivals, wrong], judged

        rivals = tf.zeros([tf.shape(x)[0], self.n_targets], tf.int32)
        state = [x, tf.zeros_like(x), rivals, tf.zeros(tf.shape(x)[:1], tf.bool)]
        loop = shrinking_loop(body, state, [x, y], self.steps, test_last)
        x_adv, _, _, success = loop.state
        norm = tf.where(success, self.threat.distance(x, x_adv), float("inf"))
        return self.outcome(victim, x, y, x_adv, norm, loop)

    def _rivals(self, logits, labels):
        """The likeliest classes other than the label; columns beyond the number of classes are not read."""
        classes = tf.shape(logits)[-1]
        others = tf.where(tf.one_hot(labels, classes, on_value=True, off_value=False), -float("inf"), logits)
        count = tf.minimum(self.n_targets, classes - 1)
        rivals = tf.math.top_k(others, k=count).indices
        return tf.ensure_shape(tf.pad(rivals, [[0, 0], [0, self.n_targets - count]]), [None, self.n_targets])

    def _step(self, gap, normal):
        """The shortest way to where the linearized gap is zero, and a little further."""
        length = self.threat.dual_length(normal)
        distance = per_example(tf.abs(gap) / tf.maximum(length, TINY) + LEAST_STEP)
        return distance * self.threat.ascent(normal)
