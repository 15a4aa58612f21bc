"""ZOO: C&W with one estimated derivative at a time."""

import math

import tensorflow as tf

from athe_tf.attacks.black_box import BlackBoxAttack, query_budget
from athe_tf.attacks.engine.arguments import check_positive
from athe_tf.attacks.engine.gradients import Adam
from athe_tf.attacks.engine.loop import shrinking_loop
from athe_tf.attacks.engine.results import Costs
from athe_tf.models.victim import Victim
from athe_tf.threat import flat
from athe_tf.utils import rng
from athe_tf.utils.errors import check_choice
from athe_tf.utils.where import where_rows

# Two probes, a test if one of them is wrong, and the test of the last iterate.
MAX_QUERIES_PER_UPDATE = 4


class ZOO(BlackBoxAttack):
    """Zeroth-order optimization (Chen et al., 2017), as in Table 8 of the hypersphere-embedding paper.

    An update picks one random coordinate, estimates the derivative of the objective there by two queries at
    +-`sigma`, and moves that coordinate by Adam, whose averages and step counts are the coordinate's own.
    All images of a batch are updated at once, each at its own coordinate.

    The paper does not say how epsilon enters. There are two modes; report both:

    * `"linf"`: the margin is attacked inside the ball, onto which every update is projected. The term
      ||delta||^2 of the objective is omitted, because the projection replaces it.
    * `"threshold"`: `constant * max(J, 0) + ||delta||^2` (Eq. 21) is minimized in [0, 1], and an
      adversarial image counts if it happens to lie within epsilon. Much weaker.

    An update costs two queries. The iterate itself is tested, for one more, if a probe beside it is wrong
    and it lies within epsilon; and once at the end.

    **Rounding.** Logits are float32. The difference of two margins has an error of about 1e-7 |logits|, which
    divided by `2 sigma` = 2e-4 is 5e-4 |logits|: as much as the derivative by one pixel of a network with
    cosine logits often is. Here the differences are divided by the step as it was rounded, and the
    derivative of ||delta||^2 is exact; what is left is noise in the logits, against which only a larger
    `sigma` helps: take 1e-3 or 1e-2 for hypersphere heads and large networks.

    Example:

    >>> result = athe_tf.attacks.get("zoo-2000", epsilon=0.031, sigma=1e-3).run(model, x, y)

    Args:
        epsilon: Radius of the linf ball, in pixels of [0, 1].
        norm: `"linf"`.
        n_queries: Largest number of queries per image, including the clean one; the number in `"zoo-20000"`.
            Defaults to 20,000.
        mode: `"linf"` (default) or `"threshold"`.
        sigma: Half the length of the finite differences. Defaults to 1e-4.
        learning_rate: Of Adam. Defaults to 0.01.
        constant: The c of the objective, in mode `"threshold"`. Defaults to 0.5.
        targeted: Take `y` as the classes to reach. Defaults to `False`.

    Reference: https://arxiv.org/abs/1708.03999
    """

    name = "zoo"
    norms = ("linf",)
    number_argument = "n_queries"

    def __init__(
        self,
        epsilon,
        norm="linf",
        *,
        n_queries: int = 20_000,
        mode: str = "linf",
        sigma: float = 1e-4,
        learning_rate: float = 0.01,
        constant: float = 0.5,
        targeted: bool = False,
    ):
        super().__init__(epsilon, norm, targeted)
        check_choice("mode", mode, ("linf", "threshold"))
        check_positive(sigma=sigma)
        self.n_queries = query_budget(n_queries, minimum=1 + MAX_QUERIES_PER_UPDATE)
        self.mode, self.sigma, self.learning_rate = mode, sigma, learning_rate
        self.constant = constant

    def costs(self, victim: Victim) -> Costs:
        # Tests between updates are not at every step: with them, the budget may allow fewer updates.
        return Costs((self.n_queries - 1) // 2, forward=2, after=(self.n_queries - 1) % 2)

    def extra_queries(self, loop):
        return loop.state[2]

    def search(self, victim: Victim, x, y, ids, seed):
        budget = self.n_queries - 1  # one query went to the clean image

        def body(i, state, constants):
            x_adv, solved, tests, adam, visits = state
            images, labels, names = constants
            coordinate = rng.integers(rng.fold(seed, i), names, (), math.prod(x.shape[1:]))
            visited = tf.one_hot(coordinate, math.prod(x.shape[1:]), on_value=True, off_value=False)
            slope, suspect = self._slope(victim, images, x_adv, labels, visited)
            tested = suspect & ~solved & self._within(images, x_adv)
            success = solved | self.successes(victim, x_adv, labels, tested)
            adam, visits, direction = _coordinate_step(adam, visits, slope, visited)
            moved = self._move(images, x_adv, direction)
            x_adv = where_rows(success, x_adv, moved)
            tests += tf.cast(tested, tf.int32)
            done = success | (2 * (i + 1) + tests + MAX_QUERIES_PER_UPDATE > budget)
            return [x_adv, success, tests, adam, visits], done

        zeros = tf.zeros(tf.shape(x)[:1], tf.int32)
        none = tf.zeros_like(flat(x))
        state = [x, zeros > 0, zeros, Adam(none, none), none]
        loop = shrinking_loop(body, state, [x, y, ids], budget // 2)
        x_adv, success, tests, *_ = loop.state
        tested = ~success & self._within(x, x_adv)
        success |= self.successes(victim, x_adv, y, tested)
        # A call, which returns every image, returns admissible ones in either mode.
        x_adv = where_rows(success, x_adv, self.threat.project(x, x_adv))
        return loop._replace(state=(x_adv, success, tests + tf.cast(tested, tf.int32)))

    def _slope(self, victim: Victim, images, x_adv, labels, visited):
        """`(slope of the objective at the visited coordinates, whether a probe is wrong)`."""
        rows = flat(x_adv)
        ahead = rows + self.sigma * tf.cast(visited, tf.float32)
        behind = rows - self.sigma * tf.cast(visited, tf.float32)
        probes = tf.reshape(tf.concat([ahead, behind], axis=0), [-1, *images.shape[1:]])
        margin, wrong = self.margin_and_success(victim, probes, tf.tile(labels, [2]))
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
        moved = x_adv - self.learning_rate * tf.reshape(direction, tf.shape(x_adv))
        if self.mode == "linf":
            return self.threat.project(images, moved)
        return tf.clip_by_value(moved, 0.0, 1.0)

    def _within(self, images, x_adv):
        """Whether images count; projected ones do, even if rounding moves them past epsilon."""
        if self.mode == "linf":
            return tf.fill(tf.shape(images)[:1], True)
        return self.threat.within(self.threat.distance(images, x_adv))


def _coordinate_step(adam: Adam, visits, slope, visited):
    """`(averages, visits, direction)` after a slope at the visited coordinates, each with its own Adam."""
    visits += tf.cast(visited, tf.float32)
    pairs = zip(adam.updated(slope), adam, strict=True)
    adam = Adam(*(tf.where(visited, new, old) for new, old in pairs))
    mean, root = adam.unbiased(tf.maximum(visits, 1.0))
    direction = mean / root
    return adam, visits, tf.where(visited, direction, tf.zeros_like(direction))
