"""What the attacks that look for the smallest perturbation share: DeepFool, C&W and FAB.

They do not need epsilon to search. What they find is counted at epsilon afterwards, so one run answers for
every epsilon: `(result.norm <= epsilon).mean()` is the share of images that fall.
"""

import tensorflow as tf

from athe_tf.attacks.engine.attack import Attack
from athe_tf.attacks.engine.results import Attempt
from athe_tf.attacks.engine.victim import Victim
from athe_tf.attacks.gradient import finite_gradient
from athe_tf.attacks.losses import true_logit
from athe_tf.threat import per_example
from athe_tf.utils.errors import check

TINY = 1e-12

# A norm is the rounded sum of rounded differences: a strict comparison would drop images on the sphere.
TOLERANCE = 1e-6

#: From a norm to its dual, which turns a difference of logits into a distance to the boundary.
DUAL = {"linf": 1, "l2": 2, "l1": float("inf")}


def flat(x):
    """Images as rows."""
    return tf.reshape(x, [tf.shape(x)[0], -1])


def inner(a, b):
    """The inner product of each image of `a` with that of `b`."""
    return tf.reduce_sum(a * b, axis=[1, 2, 3])


class MinimumNormAttack(Attack):
    """An attack that looks for the nearest adversarial image, wherever it is.

    `AttackResult.norm` is the smallest norm that was found, above epsilon too; `success` says whether it is
    at most epsilon, and only then does the adversarial image come back. To see the nearest adversarial
    image of every example, attack with an epsilon that admits them all.

    Args:
        epsilon: Radius at which the images found are counted, in pixels of [0, 1].
        norm: The norm of the threat model.
        steps: Most iterations of a round.
        clip_to_epsilon: Pull what lies beyond epsilon back to it and test it once more, as foolbox counts;
            one query more for those images, and sometimes a success more. Defaults to `False`.
        targeted: Whether the labels are classes to reach. Defaults to `False`.
    """

    def __init__(
        self,
        epsilon,
        norm: str = "linf",
        *,
        steps: int,
        clip_to_epsilon: bool = False,
        targeted: bool = False,
    ):
        super().__init__(epsilon, norm, targeted)
        check(steps >= 1, f"`steps` must be at least 1. Received: steps={steps}.")
        self.steps = int(steps)
        self.clip_to_epsilon = clip_to_epsilon

    def craft(self, victim: Victim, x, y, ids, seed):
        """The nearest adversarial image of all rounds; the clean one where none is within epsilon."""

        def body(round_index, nearest, norm):
            attempt = self.attempt(victim, x, y, ids, seed, round_index)
            nearer = attempt.success & (attempt.norm < norm)
            nearest = tf.where(per_example(nearer), attempt.x_adv, nearest)
            return round_index + 1, nearest, tf.where(nearer, attempt.norm, norm)

        loop = (0, x, tf.fill(tf.shape(x)[:1], float("inf")))
        rounds = self.rounds(victim)
        return tf.while_loop(lambda i, *_: i < rounds, body, loop, parallel_iterations=1)[1]

    def within(self, norm):
        """Whether an image at this distance counts, up to rounding and never by more than 1e-6."""
        epsilon = tf.cast(self.threat.epsilon, tf.float32)
        return norm <= epsilon + TOLERANCE * tf.minimum(epsilon, 1.0)

    def outcome(self, victim: Victim, x, y, found, norm, queries, gradients, nonfinite) -> Attempt:
        """The attempt that found the images `found` at the distances `norm`, infinite where none."""
        if self.clip_to_epsilon:
            found, norm, queries = self._clipped(victim, x, y, found, norm, queries)
        return Attempt(found, self.within(norm), queries, gradients, norm, nonfinite)

    def _clipped(self, victim: Victim, x, y, found, norm, queries):
        beyond = tf.math.is_finite(norm) & ~self.within(norm)
        rows = tf.where(beyond)

        def retest():
            images, labels, images_found = (tf.gather_nd(v, rows) for v in (x, y, found))
            pulled = self.threat.project(images, images_found)
            fell = self.succeeded(victim.logits(pulled), labels)
            nearer = tf.where(fell, self.threat.distance(images, pulled), tf.gather_nd(norm, rows))
            pulled = tf.where(per_example(fell), pulled, images_found)
            return (
                tf.tensor_scatter_nd_update(found, rows, pulled),
                tf.tensor_scatter_nd_update(norm, rows, nearer),
            )

        found, norm = tf.cond(tf.reduce_any(beyond), retest, lambda: (found, norm))
        return found, norm, queries + tf.cast(beyond, queries.dtype)

    def settings(self) -> dict:
        return super().settings() | {"steps": self.steps, "clip_to_epsilon": self.clip_to_epsilon}


class Linearization:
    """The logits at a batch of images, and the boundaries between classes as they look from there.

    One forward pass; one backward pass for every boundary that is looked at. Weights are not watched.
    """

    def __init__(self, victim: Victim, x):
        self.x = x
        with tf.GradientTape(persistent=True, watch_accessed_variables=False) as self._tape:
            self._tape.watch(x)
            self.logits = victim.logits(x)

    def boundary(self, labels, rivals):
        """`(gap, normal, nonfinite)`: the logit of a rival class minus that of the label, and its slope."""
        classes = tf.shape(self.logits)[-1]
        weights = tf.one_hot(rivals, classes) - tf.one_hot(labels, classes)
        normal, nonfinite = finite_gradient(
            self._tape.gradient(self.logits, self.x, output_gradients=weights)
        )
        return true_logit(self.logits, rivals) - true_logit(self.logits, labels), normal, nonfinite

    def nearest(self, labels, rivals, count, norm: str, seen_from=None):
        """The boundary that is nearest in a norm, if the logits were linear.

        Args:
            labels: The class on this side of the boundaries, `[n]`.
            rivals: The classes on the other sides, `[n, K]`; a loop over K, so that memory does not grow.
            count: How many of the K columns to look at, at least 1.
            norm: The norm of the distance.
            seen_from: Images from which the distance is measured; where the logits were taken by default.

        Returns:
            `(gap, normal, nonfinite)`: the difference of logits at `seen_from`, its slope, and how many
            slopes had entries that are not finite.
        """
        move = None if seen_from is None or seen_from is self.x else seen_from - self.x

        def look(column):
            gap, normal, bad = self.boundary(labels, rivals[:, column])
            gap = gap if move is None else gap + inner(normal, move)
            distance = tf.abs(gap) / tf.maximum(tf.norm(flat(normal), ord=DUAL[norm], axis=1), TINY)
            return distance, gap, normal, bad

        def compare(column, nearest, gap, normal, nonfinite):
            distance, *other, bad = look(column)
            closer = distance < nearest
            gap = tf.where(closer, other[0], gap)
            normal = tf.where(per_example(closer), other[1], normal)
            return column + 1, tf.minimum(distance, nearest), gap, normal, nonfinite + bad

        first = (tf.constant(1), *look(0))
        if rivals.shape[1] == 1:
            return first[2:]
        return tf.while_loop(lambda column, *_: column < count, compare, first, parallel_iterations=1)[2:]
