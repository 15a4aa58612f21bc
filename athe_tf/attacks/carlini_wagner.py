"""The l2 attack of Carlini and Wagner: a penalty method in a space where every point is an image."""

from typing import Any, NamedTuple

import tensorflow as tf

from athe_tf.attacks.engine.arguments import check_at_least, check_positive
from athe_tf.attacks.engine.gradients import Adam, gradient_of
from athe_tf.attacks.engine.loop import shrinking_loop
from athe_tf.attacks.engine.results import Costs, RoundResult
from athe_tf.attacks.losses import margin
from athe_tf.attacks.minimum_norm import MinimumNormAttack
from athe_tf.models.victim import Victim
from athe_tf.threat import per_example
from athe_tf.utils import rng
from athe_tf.utils.where import where_rows

# Pixels of 0 and 1 are at infinity in tanh space; scaled by this factor, they can come back.
TANH_SHRINK = 0.999999
# A run makes no progress when a tenth of it lowers the loss by less than a ten-thousandth.
CHECKS, IMPROVEMENT = 10, 0.9999
# Then, if it has succeeded, it continues with a tenth of the learning rate, twice; else it ends.
SLOWER, SLOWEST = 0.1, 0.02
# As long as no c has succeeded, c grows by this factor.
GROWTH = 10.0
# How far beside the image a further restart begins, in tanh space: at most half as far in pixels.
START_NOISE = 0.1


class Search(NamedTuple):
    """The state of the search of every image; one row per image."""

    offset: Any  # of the iterate in tanh space
    adam: Adam
    rate: Any  # the share of the learning rate that is used
    iteration: Any  # of this run
    lowest: Any  # loss of this run
    milestone: Any  # the lowest loss at the last check
    found: Any  # whether this run has succeeded, at its present rate
    c: Any
    too_small: Any  # bounds of c
    large_enough: Any
    runs: Any  # finished
    nearest: Any  # adversarial image, in l2
    length: Any  # of its perturbation, in l2


class CWL2(MinimumNormAttack):
    """Carlini and Wagner's attack in l2 (2017).

    Minimizes `||x' - x||^2 + c max(0, z_y - max_{j != y} z_j + confidence)` with Adam, where
    `x' = (1 + tanh(w)) / 2` is always an image, and searches for the smallest `c` that succeeds, by
    bisection. Every image has its own search: it continues with its next `c` as soon as it stops making
    progress, and leaves the batch after its last, independently of the others.

    With `norm="linf"` the l2 norm is still minimized, and an image counts if its linf norm is at most
    epsilon. The C&W columns of many tables were counted like this; it is a weak attack in linf, for which
    `cw-linf` is made.

    Example:

    >>> result = CWL2(epsilon=0.5, norm="l2", steps=100).run(model, x, y)
    >>> typical_distance = np.median(result.norm)

    Args:
        epsilon: Radius at which the images found are counted, in pixels of [0, 1].
        norm: In which norm they are counted and reported: `"l2"` (default) or `"linf"`.
        steps: Largest number of iterations for each `c`. Defaults to 1000.
        search_steps: Number of values of `c` that are tried. Defaults to 9.
        initial_c: The first of them. Defaults to 0.01.
        learning_rate: Of Adam. Defaults to 0.01.
        confidence: By how much another logit must exceed the true one (kappa). Defaults to 0.
        restarts: The first search starts at the image. Further ones, for images that are not within
            epsilon yet, start a little beside it, and may find nearer classes than the first.
            Defaults to 1.
        clip_to_epsilon: Test images beyond epsilon once more, projected back to it. Defaults to `False`.
        targeted: Take `y` as the classes to reach. Defaults to `False`.

    Reference: https://arxiv.org/abs/1608.04644
    """

    name = "cw-l2"
    norms = ("l2", "linf")

    def __init__(
        self,
        epsilon,
        norm="l2",
        *,
        steps: int = 1000,
        search_steps: int = 9,
        initial_c: float = 1e-2,
        learning_rate: float = 0.01,
        confidence: float = 0.0,
        restarts: int = 1,
        clip_to_epsilon: bool = False,
        targeted: bool = False,
    ):
        super().__init__(epsilon, norm, steps=steps, clip_to_epsilon=clip_to_epsilon, targeted=targeted)
        check_at_least(1, search_steps=search_steps, restarts=restarts)
        check_positive(initial_c=initial_c, learning_rate=learning_rate)
        check_at_least(0, confidence=confidence)
        self.search_steps, self.initial_c, self.learning_rate = int(search_steps), initial_c, learning_rate
        self.confidence, self.restarts = confidence, int(restarts)

    def costs(self, victim: Victim) -> Costs:
        steps = self.search_steps * self.steps
        return super().costs(victim)._replace(steps=steps, after=int(self.clip_to_epsilon))

    def run_round(self, victim: Victim, x, y, ids, seed, round_index) -> RoundResult:
        """All searches, side by side; an iteration is one forward and one backward pass."""

        def body(i, state, constants):
            *seen, start = constants
            search, *events = self._iterate(victim, state, *seen)
            search = self._next_run(search, start)
            return search, search.runs >= self.search_steps, *events

        origin = tf.atanh(TANH_SHRINK * (2.0 * x - 1.0))
        beside = START_NOISE * rng.normal(rng.fold(seed, round_index), ids, x.shape[1:])
        start = tf.where(round_index > 0, beside, tf.zeros_like(x))
        constants = [x, y, origin, start]
        loop = shrinking_loop(body, self._initial(x, start), constants, self.costs(victim).steps)
        found = tf.math.is_finite(loop.state.length)
        norm = tf.where(found, self.threat.distance(x, loop.state.nearest), float("inf"))
        return self.outcome(victim, x, y, loop.state.nearest, norm, loop)

    def _initial(self, x, start) -> Search:
        zeros, count = tf.zeros_like(x), tf.zeros(tf.shape(x)[:1], tf.int32)
        zero = tf.cast(count, tf.float32)
        never = zero + float("inf")
        return Search(
            offset=start, adam=Adam(zeros, zeros), rate=zero + 1.0, iteration=count, lowest=never,
            milestone=never, found=count > 0, c=zero + self.initial_c, too_small=zero, large_enough=never,
            runs=count, nearest=x, length=never,
        )  # fmt: skip

    def _iterate(self, victim: Victim, search: Search, images, labels, origin) -> tuple:
        """One evaluation, and one step of Adam: `(search, non-finite gradients, questions to the judge)`."""

        def objective(offset):
            image = 0.5 * (1.0 + tf.tanh(origin + offset))
            logits = victim.source.logits(image)
            length = tf.reduce_sum(tf.square(image - images), axis=[1, 2, 3])
            penalty = tf.nn.relu(self.confidence - self.loss_sign * margin(logits, labels))
            loss = length + search.c * penalty
            return loss, (loss, image, logits, tf.sqrt(tf.stop_gradient(length)))

        (loss, image, logits, length), gradient, bad = gradient_of(objective, search.offset)
        success, judged = self.verdict(victim, image, self._handicapped(logits, labels), labels)
        nearer = success & (length < search.length)
        adam = search.adam.updated(gradient)
        unbiased, root = adam.unbiased(per_example(tf.cast(search.iteration + 1, tf.float32)))
        search = search._replace(
            offset=search.offset - self.learning_rate * per_example(search.rate) * unbiased / root,
            adam=adam,
            iteration=search.iteration + 1,
            lowest=tf.minimum(search.lowest, loss),
            milestone=tf.where(search.iteration > 0, search.milestone, loss),
            found=search.found | success,
            nearest=where_rows(nearer, image, search.nearest),
            length=tf.where(nearer, length, search.length),
        )
        return search, bad, judged

    def _handicapped(self, logits, labels):
        """Logits that are wrong only with a gap of `confidence`."""
        handicap = tf.one_hot(labels, tf.shape(logits)[-1], on_value=self.confidence, off_value=0.0)
        return logits + self.loss_sign * handicap

    def _next_run(self, search: Search, start) -> Search:
        """Ends the runs that are over or make no progress, and restarts their images with another c."""
        due = tf.equal(search.iteration % max(self.steps // CHECKS, 1), 0)
        stalled = due & (search.lowest > IMPROVEMENT * search.milestone)
        slower = stalled & search.found & (search.rate > SLOWEST)
        rate = tf.where(slower, SLOWER * search.rate, search.rate)
        over = (stalled & ~slower) | (search.iteration >= self.steps)
        large_enough = tf.where(over & search.found, search.c, search.large_enough)
        too_small = tf.where(over & ~search.found, search.c, search.too_small)
        bounded = tf.math.is_finite(large_enough)
        c = tf.where(bounded, 0.5 * (too_small + large_enough), GROWTH * search.c)

        def restarted(value, initial):
            rows = per_example(over) if value.shape.rank == 4 else over
            return tf.where(rows, tf.cast(initial, value.dtype), value)

        return search._replace(
            offset=restarted(search.offset, start),
            adam=Adam(*(restarted(average, 0) for average in search.adam)),
            rate=restarted(rate, 1),
            iteration=restarted(search.iteration, 0),
            lowest=tf.where(over | slower, float("inf"), search.lowest),
            milestone=tf.where(over | slower, float("inf"), tf.where(due, search.lowest, search.milestone)),
            # Adam's first steps overshoot: a success there does not show that c is large enough.
            found=search.found & ~(over | slower),
            c=tf.where(over, c, search.c),
            too_small=too_small,
            large_enough=large_enough,
            runs=search.runs + tf.cast(over, tf.int32),
        )
