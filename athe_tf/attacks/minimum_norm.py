"""What the attacks share that look for the smallest perturbation: DeepFool, C&W, FAB and RayS.

They do not need epsilon to search. What they find is counted at epsilon afterward, so one run answers for
every epsilon: `(result.norm <= epsilon).mean()` is the share of images that are misclassified within it.
"""

import tensorflow as tf

from athe_tf.attacks.engine.arguments import check_at_least
from athe_tf.attacks.engine.attack import Attack
from athe_tf.attacks.engine.gradients import finite_gradient, inner_product
from athe_tf.attacks.engine.loop import LoopResult
from athe_tf.attacks.engine.results import Costs, RoundResult
from athe_tf.attacks.losses import true_logit
from athe_tf.models.victim import Victim
from athe_tf.threat import TINY, ThreatModel
from athe_tf.utils.where import where_rows


class MinimumNormAttack(Attack):
    """An attack that looks for the nearest adversarial image, inside epsilon or not.

    `AttackResult.norm` is the smallest norm that was found, also above epsilon; `success` says whether it is
    at most epsilon, and only then is the adversarial image returned. To see the nearest adversarial image of
    every example, attack with an epsilon that admits them all.

    With `clip_to_epsilon`, images beyond epsilon are projected back to it and tested once more, as foolbox
    counts; that costs one more query for those images, and sometimes finds one more.
    """

    def __init__(
        self, epsilon, norm="linf", *, steps: int, clip_to_epsilon: bool = False, targeted: bool = False
    ):
        super().__init__(epsilon, norm, targeted)
        check_at_least(1, steps=steps)
        self.steps, self.clip_to_epsilon = int(steps), clip_to_epsilon

    def costs(self, victim: Victim) -> Costs:
        return Costs(self.steps, forward=1, backward=1, after=1 + self.clip_to_epsilon)

    def outcome(self, victim: Victim, x, y, found, norm, loop: LoopResult) -> RoundResult:
        """The result of a round that found the images `found` at the distances `norm`, infinite if none."""
        extra = 0
        if self.clip_to_epsilon:
            found, norm, extra = self._clipped(victim, x, y, found, norm)
        return self.round_result(victim, x, found, self.threat.within(norm), loop, norm=norm, extra=extra)

    def _clipped(self, victim: Victim, x, y, found, norm):
        """`(images, norms, queries)` after images beyond epsilon were projected back to it and tested."""
        beyond = tf.math.is_finite(norm) & ~self.threat.within(norm)
        pulled = self.threat.project(x, found)
        success = self.successes(victim, pulled, y, tested=beyond)
        norm = tf.where(success, self.threat.distance(x, pulled), norm)
        return where_rows(success, pulled, found), norm, tf.cast(beyond, tf.int32)

    def _keep_nearer(self, images, x_adv, success, nearest, norm):
        """The nearest adversarial images and their norms, after these were tested."""
        distance = self.threat.distance(images, x_adv)
        nearer = success & (distance < norm)
        return where_rows(nearer, x_adv, nearest), tf.where(nearer, distance, norm)


class Linearization:
    """The logits at a batch of images, and the linearized boundaries between classes there.

    One forward pass, and one backward pass for every boundary. Weights are not watched.
    """

    def __init__(self, victim: Victim, x):
        self.x = x
        with tf.GradientTape(persistent=True, watch_accessed_variables=False) as self._tape:
            self._tape.watch(x)
            self.logits = victim.source.logits(x)

    def boundary(self, labels, rivals):
        """`(gap, normal, faults)`: the logit of a rival class minus the label's, and its slope."""
        classes = tf.shape(self.logits)[-1]
        weights = tf.one_hot(rivals, classes) - tf.one_hot(labels, classes)
        slope = self._tape.gradient(self.logits, self.x, output_gradients=weights)
        normal, faults = finite_gradient(slope)
        return true_logit(self.logits, rivals) - true_logit(self.logits, labels), normal, faults

    def nearest(self, labels, rivals, count, threat: ThreatModel, seen_from=None):
        """The boundary that would be nearest if the logits were linear.

        Args:
            labels: The class on this side of the boundaries, `[n]`.
            rivals: The classes on the other sides, `[n, K]`; a loop over K, so that memory does not grow.
            count: Number of columns to use, at least 1.
            threat: Measures distances.
            seen_from: Images from which the distance is measured; by default where the logits are.

        Returns:
            `(gap, normal, faults)`: the difference of logits at `seen_from`, its slope, and the faults
            of all slopes, as in `finite_gradient`.
        """
        move = None if seen_from is None or seen_from is self.x else seen_from - self.x

        def measure(column):
            gap, normal, bad = self.boundary(labels, rivals[:, column])
            gap = gap if move is None else gap + inner_product(normal, move)
            distance = tf.abs(gap) / tf.maximum(threat.dual_length(normal), TINY)
            return distance, gap, normal, bad

        def compare(column, nearest, gap, normal, faults):
            distance, *other, bad = measure(column)
            closer = distance < nearest
            gap = tf.where(closer, other[0], gap)
            normal = where_rows(closer, other[1], normal)
            return column + 1, tf.minimum(distance, nearest), gap, normal, faults + bad

        first = (tf.constant(1), *measure(0))
        if rivals.shape[1] == 1:
            return first[2:]
        return tf.while_loop(lambda column, *_: column < count, compare, first, parallel_iterations=1)[2:]
