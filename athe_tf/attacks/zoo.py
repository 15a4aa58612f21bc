"""ZOO: C&W with one estimated derivative at a time."""

import math
from typing import NamedTuple

import tensorflow as tf

from athe_tf.attacks.black_box import BlackBoxAttack, query_budget
from athe_tf.attacks.engine.active_set import shrinking_loop
from athe_tf.attacks.engine.victim import Victim
from athe_tf.attacks.minimum_norm import TOLERANCE, flat
from athe_tf.threat import per_example
from athe_tf.utils import rng
from athe_tf.utils.errors import check, check_choice

MODES = ("linf", "threshold")

# Adam's usual constants.
BETA1, BETA2, TINY = 0.9, 0.999, 1e-8

# Two probes, a test where one of them is wrong, and the test of the last iterate.
MOST_QUERIES_OF_A_ROUND = 4


class Adam(NamedTuple):
    """Adam for each coordinate on its own: the two averages, and how often it was visited; `[n, D]`."""

    mean: tf.Tensor
    square: tf.Tensor
    visits: tf.Tensor

    def updated(self, slope, visited):
        """`(Adam, direction)` after a slope was seen at the visited coordinates."""
        visits = self.visits + tf.cast(visited, tf.float32)
        mean = tf.where(visited, BETA1 * self.mean + (1 - BETA1) * slope, self.mean)
        square = tf.where(visited, BETA2 * self.square + (1 - BETA2) * slope**2, self.square)
        age = tf.maximum(visits, 1.0)
        direction = mean / (1 - BETA1**age) / (tf.sqrt(square / (1 - BETA2**age)) + TINY)
        return Adam(mean, square, visits), tf.where(visited, direction, tf.zeros_like(direction))


class ZOO(BlackBoxAttack):
    """Zeroth-order optimisation (Chen et al., 2017), as in Table 8 of the hypersphere-embedding paper.

    An update picks one random coordinate, estimates the derivative of the objective there by two queries at
    +-`sigma`, and moves that coordinate by Adam, whose averages and step counts are the coordinate's own.
    All images of a batch are updated at once, each at its own coordinate.

    The paper leaves open how epsilon enters. There are two modes, to be reported both:

    * `"linf"`: the margin is attacked inside the ball, where every update is projected to. The term
      ||delta||^2 of the objective is left out, for the projection does its work.
    * `"threshold"`: `constant * max(J, 0) + ||delta||^2` (Eq. 21) is minimised in [0, 1], and an
      adversarial image counts when it happens to lie within epsilon. Much weaker.

    An update costs two queries. The iterate itself is tested, for one more, when a probe beside it is wrong
    and it lies within epsilon; and once at the end.

    **Rounding.** Logits are float32. The difference of two margins has an error of about 1e-7 |logits|, which
    divided by `2 sigma` = 2e-4 is 5e-4 |logits|: as much as the derivative by one pixel of a network with
    cosine logits often is. Here the differences are divided by the step as it was rounded, and the
    derivative of ||delta||^2 is exact; what is left is noise in the logits, against which only a larger
    `sigma` helps: take 1e-3 or 1e-2 for hypersphere heads and large networks.

    Example:

    >>> result = athe_tf.attacks.get("zoo", epsilon=0.031, sigma=1e-3).run(model, x, y)

    Args:
        epsilon: Radius of the linf ball, in pixels of [0, 1].
        norm: `"linf"`.
        n_queries: Most queries of an image, the clean one included. Defaults to 20,000.
        steps: The same; what the number in `"zoo-20000"` sets.
        mode: `"linf"` (default) or `"threshold"`.
        sigma: Half the length of the finite differences. Defaults to 1e-4.
        step_size: Adam's learning rate. Defaults to 0.01.
        constant: The c of the objective, in mode `"threshold"`. Defaults to 0.5.
        targeted: Take `y` as the classes to reach. Defaults to `False`.

    Reference: https://arxiv.org/abs/1708.03999
    """

    name = "zoo"
    norms = ("linf",)

    def __init__(
        self,
        epsilon,
        norm="linf",
        *,
        n_queries: int = 20_000,
        steps: int | None = None,
        mode: str = "linf",
        sigma: float = 1e-4,
        step_size: float = 0.01,
        constant: float = 0.5,
        targeted: bool = False,
    ):
        super().__init__(epsilon, norm, targeted)
        check_choice("mode", mode, MODES)
        check(sigma > 0, f"`sigma` must be positive. Received: sigma={sigma}.")
        self.n_queries = query_budget(n_queries, steps, least=1 + MOST_QUERIES_OF_A_ROUND)
        self.mode = mode
        self.sigma = sigma
        self.step_size = step_size
        self.constant = constant

    def search(self, victim: Victim, x, y, ids, seed):
        budget = self.n_queries - 1  # one query went to the clean image

        def body(i, state, constants):
            x_adv, solved, queries, *memory = state
            images, labels, names = constants
            coordinate = rng.integers(rng.fold(seed, i), names, (), math.prod(x.shape[1:]))
            visited = tf.one_hot(coordinate, math.prod(x.shape[1:]), on_value=True, off_value=False)
            slope, suspect = self._slope(victim, images, x_adv, labels, visited)
            tested = suspect & ~solved & self._within(images, x_adv)
            success = solved | self.successes(victim, x_adv, labels, tested)
            adam, direction = Adam(*memory).updated(slope, visited)
            moved = self._move(images, x_adv, direction)
            x_adv = tf.where(per_example(success), x_adv, moved)
            queries += 2 + tf.cast(tested, tf.int32)
            return [x_adv, success, queries, *adam], success | (queries + MOST_QUERIES_OF_A_ROUND > budget)

        zeros = tf.zeros(tf.shape(x)[:1], tf.int32)
        memory = [tf.zeros_like(flat(x))] * 3
        x_adv, success, queries, *_ = shrinking_loop(
            body, [x, zeros > 0, zeros, *memory], [x, y, ids], budget // 2
        )
        tested = ~success & self._within(x, x_adv)
        success |= self.successes(victim, x_adv, y, tested)
        # Who only wants images gets admissible ones in either mode.
        x_adv = tf.where(per_example(success), x_adv, self.threat.project(x, x_adv))
        return x_adv, success, queries + tf.cast(tested, tf.int32)

    def _slope(self, victim: Victim, images, x_adv, labels, visited):
        """`(slope of the objective at the visited coordinates, whether a probe is wrong)`."""
        rows = flat(x_adv)
        ahead = rows + self.sigma * tf.cast(visited, tf.float32)
        behind = rows - self.sigma * tf.cast(visited, tf.float32)
        probes = tf.reshape(tf.concat([ahead, behind], axis=0), [-1, *images.shape[1:]])
        margin, wrong = self.judged(victim, probes, tf.tile(labels, [2]))
        hinge = tf.maximum(-margin, 0.0)
        rise = hinge[: tf.shape(labels)[0]] - hinge[tf.shape(labels)[0] :]
        # The rounded step, not 2 sigma: at a pixel near 1 they differ by a thousandth.
        step = tf.reduce_sum(ahead - behind, axis=1)
        slope = rise / step
        slope = tf.where(tf.math.is_finite(slope), slope, tf.zeros_like(slope))[:, tf.newaxis]
        if self.mode == "threshold":
            slope = self.constant * slope + 2.0 * (rows - flat(images))
        return slope, tf.reduce_any(tf.reshape(wrong, [2, -1]), axis=0)

    def _move(self, images, x_adv, direction):
        moved = x_adv - self.step_size * tf.reshape(direction, tf.shape(x_adv))
        if self.mode == "linf":
            return self.threat.project(images, moved)
        return tf.clip_by_value(moved, 0.0, 1.0)

    def _within(self, images, x_adv):
        """Whether the images may count; projected ones may, though rounding moves them past epsilon."""
        if self.mode == "linf":
            return tf.fill(tf.shape(images)[:1], True)
        epsilon = tf.cast(self.threat.epsilon, tf.float32)
        return self.threat.distance(images, x_adv) <= epsilon + TOLERANCE * tf.minimum(epsilon, 1.0)

    def settings(self) -> dict:
        names = ("n_queries", "mode", "sigma", "step_size", "constant")
        return super().settings() | {name: getattr(self, name) for name in names}
