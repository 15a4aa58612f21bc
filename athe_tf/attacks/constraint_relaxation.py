"""Constraint relaxation: a strong attack for a fraction of AutoAttack's passes, at any logit scale."""

import math
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from athe_tf.attacks import losses
from athe_tf.attacks.engine.arguments import check_at_least, check_positive
from athe_tf.attacks.engine.attack import Attack
from athe_tf.attacks.engine.gradients import gradient_of
from athe_tf.attacks.engine.loop import LoopResult, shrinking_loop
from athe_tf.attacks.engine.results import Costs, RoundResult
from athe_tf.attacks.engine.schedule import Schedule
from athe_tf.attacks.minimum_norm import Linearization
from athe_tf.attacks.targets import ranked_target
from athe_tf.models.victim import Victim
from athe_tf.threat import threat_model
from athe_tf.utils import rng
from athe_tf.utils.errors import InputError
from athe_tf.utils.where import where_rows

# Rounds before the first target.
TARGET_ROUNDS = 2
# Wrong classes whose distance is measured to choose a target, the likeliest of the clean image.
CANDIDATES_PER_TARGET = 3
# Steps of the first round, on the margin, and the one among them that is half as long.
FIRST_STEPS, SHORT_STEP = 10, 5
# A cycle: steps in the larger ball, steps in the ball up to where distant targets are given up, all steps.
RELAXED, JUDGED, CYCLE = 10, 19, 30
# The shortest step of a cycle, in epsilons.
SHORTEST = 0.05


class Search(NamedTuple):
    """The state of a round, and its outcome; one row per example."""

    x_adv: Any
    success: Any
    closest: Any  # smallest margin at a tested point, z_y - max z_j
    distance: Any  # smallest linearized distance to the target's boundary, in epsilons


class RelaxationSchedule(Schedule):
    """A short PGD, the ranking of the targets, the first start of all targets, then all their restarts.

    An image remembers its targets, the distance to each in epsilons, and its margins: the clean one and the
    smallest one.
    """

    rounds_in_parallel = True

    def memory_columns(self, victim: Victim) -> int:
        return 2 * self.attack.target_count(victim) + 2

    def independent_rounds(self, victim: Victim, round_index: int) -> int:
        """The first start of all targets; then, for those that came close to one, all restarts."""
        targets, rounds = self.attack.target_count(victim), self.attack.rounds(victim)
        ends = (1, TARGET_ROUNDS, TARGET_ROUNDS + targets, rounds)
        return next(end for end in ends if end > round_index) - round_index

    def eligible(self, victim: Victim, round_index: int, memory: np.ndarray) -> np.ndarray | None:
        """All images take part in the first start of each target; then those that came close to it."""
        rank, restart = self.attack.split(victim, round_index)
        return None if restart < 1 else distances(memory)[:, rank] < self.attack.come_close

    def craft_rounds(self, victim: Victim) -> int:
        """Without the restarts."""
        return TARGET_ROUNDS + self.attack.target_count(victim)

    def craft_passes(self, victim: Victim) -> float:
        """Of an image all of whose targets are given up in the first cycle, as most are."""
        attack = self.attack
        count = attack.target_count(victim)
        per_target = 2.0 * (JUDGED + 1) + RELAXED
        return 2.0 * FIRST_STEPS + 1.0 + 1.0 + attack.candidate_count(victim) + count * per_target


def distances(memory):
    """Of a memory of `cr`, the distance to each target in epsilons; infinite before its first start."""
    return memory[:, memory.shape[1] // 2 - 1 : -2]


def closest_margin(memory):
    """Of a memory of `cr`, the smallest margin `z_y - max z_j` of each image at any tested point."""
    return memory[:, -1]


def came_close(memory, reach: float):
    """Of a memory of `cr`, which images came within `reach` epsilons of a boundary, if logits were linear.

    Either by the slope at the edge of the ball, or by what is left of the clean margin. On a linear model
    both are the same; where logits jump, the slope says little.
    """
    return (distances(memory).min(axis=1) < reach) | (memory[:, -1] * (1 + reach) < memory[:, -2] * reach)


class ConstraintRelaxation(Attack):
    """Constraint relaxation (Pan et al., 2025), with thresholds that do not depend on the logit scale.

    The first round is a short PGD on the margin. The second ranks wrong classes by the distance of their
    boundary from the clean image, as if the logits were linear (Melamed et al., 2024): the nearest ones are
    the targets. Then every target has up to `cycles` cycles on the difference of two logits. A cycle steps
    through a ball that is larger than epsilon, testing the projection of every point; then inside the ball;
    then, after shrinking the perturbation and adding noise, inside the ball again. Steps, extra radius and
    noise are halved from cycle to cycle. Further restarts are only for pairs of image and target that came
    close.

    In the middle of a cycle, a target that is too far away is given up. The paper measures that by a
    difference of logits, which prunes nothing on raw cosines and too much on large logits. Here it is the
    linearized distance to the boundary in epsilons, `(z_y - z_t) / (epsilon * ||grad(z_t - z_y)||_dual)`,
    at the point itself: multiplying all logits by a positive number changes nothing.

    It has no black-box part, so masked gradients mislead it: `swift` adds one.

    Example:

    >>> attack = ConstraintRelaxation(epsilon=8 / 255)                     # athe_tf.attacks.get("cr", ...)
    >>> result = attack.run(model, x, y)
    >>> passes_per_image = result.passes.mean()

    Args:
        epsilon: Radius of the ball, in pixels of [0, 1].
        norm: `"linf"` (default) or `"l2"`. The paper has linf only. There is none in l1, where an attack of
            this form left 54% of the images of a model that AutoAttack leaves 19% of.
        cycles: Cycles of 30 steps per target and restart; the number in `"cr-3"`. Defaults to 5.
        n_targets: Number of targets per image. Defaults to the logarithm of the number of classes, rounded
            up: 3 for 10 classes, 5 for 100, 7 for 1,000.
        restarts: Number of starts per target. Defaults to 5.
        give_up: A target is given up if its distance is larger than this many steps of the cycle. Defaults
            to 0.5.
        come_close: Pairs of image and target below this distance, in epsilons, are restarted. Defaults to
            0.05.

    References:
        Pan et al., "Efficient Robustness Evaluation via Constraint Relaxation", AAAI 2025.
        Melamed et al., "MALT Powers Up Adversarial Attacks", NeurIPS 2024.
    """

    name = "cr"
    norms = ("linf", "l2")
    number_argument = "cycles"
    schedule_class = RelaxationSchedule

    def __init__(
        self,
        epsilon,
        norm="linf",
        *,
        cycles: int = 5,
        n_targets: int | None = None,
        restarts: int = 5,
        give_up: float = 0.5,
        come_close: float = 0.05,
    ):
        super().__init__(epsilon, norm)
        check_at_least(1, cycles=cycles, n_targets=n_targets, restarts=restarts)
        check_positive(give_up=give_up)
        check_at_least(0, come_close=come_close)
        self.cycles = int(cycles)
        self.n_targets = n_targets if n_targets is None else int(n_targets)
        self.restarts, self.give_up, self.come_close = int(restarts), float(give_up), float(come_close)

    def check_victim(self, victim: Victim) -> None:
        self._class_count(victim)

    @staticmethod
    def _class_count(victim: Victim) -> int:
        if victim.num_classes is None:
            raise InputError(
                f"The number of targets follows from the number of classes, and that of '{victim.name}' is "
                "unknown. Use athe_tf.victim(model, num_classes=...)."
            )
        return victim.num_classes

    def target_count(self, victim: Victim) -> int:
        """The number of targets on this victim."""
        classes = self._class_count(victim)
        wanted = math.ceil(math.log(classes)) if self.n_targets is None else self.n_targets
        return min(wanted, classes - 1)

    def rounds(self, victim: Victim) -> int:
        return TARGET_ROUNDS + self.target_count(victim) * self.restarts

    def candidate_count(self, victim: Victim) -> int:
        """The number of classes among which targets are chosen."""
        return min(CANDIDATES_PER_TARGET * self.target_count(victim), self._class_count(victim) - 1)

    def costs(self, victim: Victim) -> Costs:
        """Those of a start toward a target, the longest round; each cycle tests `RELAXED` projections."""
        return Costs(self.cycles * CYCLE, forward=1, backward=1, after=1 + self.cycles * RELAXED)

    def split(self, victim: Victim, round_index):
        """`(rank of the target, number of the restart)` of a round, or of one round for each image."""
        targets = self.target_count(victim)
        return (round_index - TARGET_ROUNDS) % targets, (round_index - TARGET_ROUNDS) // targets

    def run_round(self, victim: Victim, x, y, ids, seed, round_index, memory=None) -> RoundResult:
        """A short PGD, the ranking of the targets, or a start of each image toward one of its targets."""
        return tf.switch_case(
            tf.minimum(tf.reduce_min(round_index), TARGET_ROUNDS),
            [
                lambda: self._short_pgd(victim, x, y, ids, rng.fold(seed, 0)),
                lambda: self._rank_targets(victim, x, y),
                lambda: self._reach_target(victim, x, y, ids, seed, round_index, memory),
            ],
        )

    @staticmethod
    def _begin(start) -> Search:
        unknown = tf.fill(tf.shape(start)[:1], math.inf)
        return Search(start, unknown < 0, unknown, unknown)

    def _tested(self, victim: Victim, search: Search, x_adv, logits, labels, last: bool = False):
        """`(the state after a test of feasible points, questions to the judge)`."""
        success, judged = self.verdict(victim, x_adv, logits, labels, last)
        closest = tf.minimum(search.closest, -losses.margin(logits, labels))
        return search._replace(x_adv=x_adv, success=success, closest=closest), judged

    def _test_last(self, victim: Victim):
        def test(search: Search, constants):
            logits = victim.source.logits(search.x_adv)
            return self._tested(victim, search, search.x_adv, logits, constants[1], last=True)

        return test

    def _outcome(self, victim: Victim, x, loop: LoopResult, targets, distances, extra=0) -> RoundResult:
        search = loop.state
        closest = search.closest[:, tf.newaxis]
        memory = tf.concat([targets, distances, tf.fill(tf.shape(closest), math.inf), closest], axis=1)
        return self.round_result(victim, x, search.x_adv, search.success, loop, extra=extra, memory=memory)

    def _short_pgd(self, victim: Victim, x, y, ids, seed) -> RoundResult:
        """PGD on the margin, which finds most adversarial examples."""
        epsilon = self.threat.epsilon

        def body(i, search: Search, constants):
            images, labels = constants

            def objective(v):
                logits = victim.source.logits(v)
                return losses.margin(logits, labels), logits

            logits, gradient, bad = gradient_of(objective, search.x_adv)
            search, judged = self._tested(victim, search, search.x_adv, logits, labels)
            size = tf.where(tf.equal(i, SHORT_STEP), epsilon / 4, epsilon / 2)
            stepped = self.threat.project(images, search.x_adv + size * self.threat.ascent(gradient))
            return self._stepped(search, stepped), search.success, bad, judged

        start = self._begin(self.threat.random_start(x, ids, seed))
        loop = shrinking_loop(body, start, [x, y], FIRST_STEPS, self._test_last(victim))
        nothing = tf.fill([tf.shape(x)[0], self.target_count(victim)], math.inf)
        return self._outcome(victim, x, loop, nothing, nothing)

    def _rank_targets(self, victim: Victim, x, y) -> RoundResult:
        """The classes whose boundaries are nearest to the clean images, as if the logits were linear."""
        count, candidates = self.target_count(victim), self.candidate_count(victim)
        here = Linearization(victim, x)
        ranked = tf.stack([ranked_target(here.logits, y, rank) for rank in range(candidates)], axis=1)

        def measure(rank, distances, faults):
            gap, normal, bad = here.boundary(y, ranked[:, rank])
            return rank + 1, distances.write(rank, self._distance(-gap, normal)), faults + bad

        zeros = tf.zeros(tf.shape(x)[:1], tf.int32)
        none = tf.stack([zeros, zeros], axis=1)
        loop = (0, tf.TensorArray(tf.float32, candidates, element_shape=[None]), none)
        _, distances, faults = tf.while_loop(
            lambda rank, *_: rank < candidates, measure, loop, parallel_iterations=1
        )
        order = tf.argsort(tf.transpose(distances.stack()), axis=1, stable=True)[:, :count]
        targets = tf.cast(tf.gather(ranked, order, batch_dims=1), tf.float32)
        nowhere = tf.fill(tf.shape(zeros), math.inf)
        margins = tf.stack([-losses.margin(here.logits, y), nowhere], axis=1)
        memory = tf.concat([targets, tf.fill(tf.shape(targets), math.inf), margins], axis=1)
        judged = None if victim.source is victim else zeros
        costs, (nonfinite, zero) = (zeros + 1, zeros + candidates), tf.unstack(faults, axis=1)
        return RoundResult(x, zeros > 0, *costs, nowhere, nonfinite, memory, judged, zero)

    def _reach_target(self, victim: Victim, x, y, ids, seed, round_index, memory) -> RoundResult:
        """Cycles of 30 steps on the difference of two logits."""
        count = self.target_count(victim)
        rank, _ = self.split(victim, round_index)
        targets = tf.cast(tf.gather(memory, rank, axis=1, batch_dims=1), tf.int32)

        def start_seed(rounds):
            rank, restart = self.split(victim, rounds)
            return rng.fold(seed, 1 + rank, restart)

        def body(i, search: Search, constants):
            images, labels, targets, names, rounds = constants
            cycle, step = i // CYCLE, i % CYCLE
            share = tf.maximum(0.5 ** tf.cast(cycle + 1, tf.float32), SHORTEST)

            def objective(v):
                logits = victim.source.logits(v)
                return losses.gap(logits, labels, targets), logits

            point = search.x_adv
            logits, gradient, bad = gradient_of(objective, point)
            # After a step in the larger ball the point itself does not count: its projection does.
            outside = (step > 0) & (step <= RELAXED)
            tested = tf.cond(outside, lambda: self.threat.project(images, point), lambda: point)
            tested_logits = tf.cond(outside, lambda: victim.source.logits(tested), lambda: logits)
            search, judged = self._tested(victim, search, tested, tested_logits, labels)
            distance = self._distance(-losses.gap(logits, labels, targets), gradient)
            distance = tf.where(tf.equal(step, JUDGED), distance, math.inf)
            search = search._replace(distance=tf.minimum(search.distance, distance))
            given_up = tf.equal(step, JUDGED) & (distance > self.give_up * share)
            moved = self._step(images, point, gradient, step, share)

            def perturbed():
                return self._perturbed(images, moved, share, names, rng.fold(start_seed(rounds), cycle + 1))

            stepped = tf.cond(tf.equal(step, JUDGED), perturbed, lambda: moved)
            return self._stepped(search, stepped), search.success | given_up, bad, judged

        start = self._begin(self.threat.random_start(x, ids, start_seed(round_index)))
        constants = [x, y, targets, ids, round_index]
        steps = self.cycles * CYCLE
        loop = shrinking_loop(body, start, constants, steps, self._test_last(victim))
        here = tf.one_hot(rank, count, on_value=True, off_value=False)
        distances = tf.where(here, loop.state.distance[:, tf.newaxis], math.inf)
        # Steps 1 to `RELAXED` of a cycle test a projection, for one more forward pass.
        cycles, rest = loop.steps // CYCLE, loop.steps % CYCLE
        projections = RELAXED * cycles + tf.clip_by_value(rest - 1, 0, RELAXED)
        return self._outcome(victim, x, loop, memory[:, :count], distances, extra=projections)

    @staticmethod
    def _stepped(search: Search, stepped) -> Search:
        """The state after a step; an image that is misclassified stays where it is."""
        return search._replace(x_adv=where_rows(search.success, search.x_adv, stepped))

    def _ball(self, factor):
        return threat_model(self.norm, self.threat.epsilon * factor)

    def _distance(self, gap, gradient):
        """How far the boundary is, in epsilons, if the logits were linear; infinite without a gradient."""
        slope = self.threat.radii * self.threat.dual_length(gradient)
        return tf.where(slope > 0, gap / tf.where(slope > 0, slope, 1.0), math.inf)

    def _step(self, images, point, gradient, step, share):
        radius = 1.0 + share * tf.cast(step < RELAXED, tf.float32)
        moved = point + self.threat.epsilon * share * self.threat.ascent(gradient)
        return self._ball(radius).project(images, moved)

    def _perturbed(self, images, point, share, ids, seed):
        """The point, pulled toward the image by a share of epsilon, and as much noise."""
        shrunk = self._ball(1.0 - share).project(images, point)
        noise = self._ball(share).uniform_start(images, ids, seed)
        return self.threat.project(images, shrunk + noise)
