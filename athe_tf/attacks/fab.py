"""FAB, the fast adaptive boundary attack: repeated projections onto the linearized boundary."""

import tensorflow as tf

from athe_tf.attacks.box_projection import to_hyperplane
from athe_tf.attacks.engine.arguments import check_at_least
from athe_tf.attacks.engine.gradients import inner_product
from athe_tf.attacks.engine.loop import shrinking_loop
from athe_tf.attacks.engine.results import Costs, RoundResult
from athe_tf.attacks.minimum_norm import Linearization, MinimumNormAttack
from athe_tf.attacks.targets import TargetRounds
from athe_tf.models.victim import Victim
from athe_tf.threat import flat, per_example
from athe_tf.utils import rng
from athe_tf.utils.errors import check
from athe_tf.utils.where import where_rows

# Restarts begin at this share of epsilon from the image.
START_RADIUS = 0.5


class FAB(MinimumNormAttack):
    """The fast adaptive boundary attack (Croce and Hein, 2020), in linf, l2 and l1.

    It walks along the decision boundary toward the image. Every step linearizes the logits, picks the
    class whose boundary is nearest, and mixes the projections of the iterate and of the image onto it, both
    exact within [0, 1]. An adversarial iterate is kept if it is the nearest so far, and is pulled back
    toward the image. The result does not depend on scale or shift of the logits.

    A step costs two forward passes, one to test the iterate and one where the walk continues, and a backward
    pass for every other class; with many classes use `fab-t`. With `reuse_passes` one forward pass does
    both.

    Example:

    >>> result = FAB(epsilon=0.5, norm="l2").run(model, x, y)
    >>> robust_accuracy = 1 - result.success.mean()

    Args:
        epsilon: Radius at which the images found are counted, in pixels of [0, 1].
        norm: `"linf"` (default), `"l2"` or `"l1"`: what is minimized and counted.
        steps: Iterations of a round. Defaults to 100.
        restarts: Number of starts that are tried until an image is within epsilon: the image itself, then
            random points around it. Defaults to 1.
        alpha_max: Largest weight of the image's own projection. Defaults to 0.1.
        eta: Extrapolation of the projections beyond the boundary. Defaults to 1.05.
        beta: Where an adversarial iterate is pulled back to, 0 being the image. Defaults to 0.9.
        reuse_passes: Linearize where an iterate was tested, even if it is adversarial and the walk continues
            from the point it is pulled back to. A third cheaper, as strong with a hundred steps, slightly
            weaker with few. Defaults to `False`, as the authors do.
        stop_on_success: Finish an image as soon as it has an adversarial point within epsilon. Faster, but
            `norm` is then an upper bound only. Defaults to `False`.
        clip_to_epsilon: Test images beyond epsilon once more, projected back to it. Defaults to `False`.

    Reference: https://arxiv.org/abs/1907.02044
    """

    name = "fab"

    def __init__(
        self,
        epsilon,
        norm="linf",
        *,
        steps: int = 100,
        restarts: int = 1,
        alpha_max: float = 0.1,
        eta: float = 1.05,
        beta: float = 0.9,
        reuse_passes: bool = False,
        stop_on_success: bool = False,
        clip_to_epsilon: bool = False,
    ):
        super().__init__(epsilon, norm, steps=steps, clip_to_epsilon=clip_to_epsilon)
        check_at_least(1, restarts=restarts, eta=eta)
        check(0 <= alpha_max <= 1, f"`alpha_max` must lie in [0, 1]. Received: alpha_max={alpha_max}.")
        check(0 < beta < 1, f"`beta` must lie between 0 and 1. Received: beta={beta}.")
        self.restarts, self.alpha_max, self.eta = int(restarts), alpha_max, eta
        self.beta, self.reuse_passes, self.stop_on_success = beta, reuse_passes, stop_on_success

    def split(self, victim: Victim, round_index):
        """`(rank of the target, 0 here; number of the restart)`."""
        return 0, round_index

    def round_seed(self, victim: Victim, seed, round_index):
        """The seed of the start of a round."""
        return rng.fold(seed, *self.split(victim, round_index))

    #: Passes of `clean_inputs`, forward and backward.
    clean_passes: tuple[int, int] | None = (0, 0)

    def clean_inputs(self, victim: Victim, x, y) -> list:
        """What targets are ranked by; nothing here."""
        return []

    def round_inputs(self, victim: Victim, inputs: list, y, ids, seed, round_index) -> list:
        """The only rivals of a round; none here, where all classes are rivals."""
        return inputs

    def costs(self, victim: Victim) -> Costs:
        forward, backward = 1 if self.reuse_passes else 2, self.boundary_count(victim)
        before = self.clean_passes or (0, 0)
        return Costs(self.steps, forward, backward, before, after=1 + self.clip_to_epsilon)

    def boundary_count(self, victim: Victim) -> int:
        """How many boundaries are compared in a step, each for a backward pass; one if it is unknown."""
        return (victim.num_classes or 2) - 1

    def rivals(self, logits, labels, targets):
        """`(classes whose boundaries are compared [n, K], K)`."""
        classes = tf.shape(logits)[-1]
        return (labels[:, tf.newaxis] + tf.range(1, classes)) % classes, classes - 1

    def run_round(self, victim: Victim, x, y, ids, seed, round_index) -> RoundResult:
        """One walk; the nearest adversarial iterate."""

        def body(i, state, constants):
            x_adv, nearest, norm = state
            images, labels, *targets = constants
            here = Linearization(victim, x_adv) if self.reuse_passes else None
            logits = victim.source.logits(x_adv) if here is None else here.logits
            wrong, judged = self.verdict(victim, x_adv, logits, labels)
            nearest, norm = self._keep_nearer(images, x_adv, wrong, nearest, norm)
            back = images + self.beta * (x_adv - images)
            point = where_rows(wrong, back, x_adv)
            here = here or Linearization(victim, point)
            rivals, count = self.rivals(here.logits, labels, targets)
            gap, normal, bad = here.nearest(labels, rivals, count, self.threat, seen_from=point)
            x_adv = self._step(images, point, gap, normal)
            done = self.threat.within(norm) if self.stop_on_success else tf.zeros_like(wrong)
            return [x_adv, nearest, norm], done, bad, judged

        def test_last(state, constants):
            x_adv, nearest, norm = state
            logits = victim.source.logits(x_adv)
            wrong, judged = self.verdict(victim, x_adv, logits, constants[1], last=True)
            return [x_adv, *self._keep_nearer(constants[0], x_adv, wrong, nearest, norm)], judged

        clean_inputs = self.clean_inputs(victim, x, y)
        targets = self.round_inputs(victim, clean_inputs, y, ids, seed, round_index)
        restart = self.split(victim, round_index)[1]
        start = self._start(x, ids, self.round_seed(victim, seed, round_index), restart)
        state = [start, x, tf.fill(tf.shape(x)[:1], float("inf"))]
        loop = shrinking_loop(body, state, [x, y, *targets], self.steps, test_last)
        _, nearest, norm = loop.state
        return self.outcome(victim, x, y, nearest, norm, loop)

    def _step(self, images, point, gap, normal):
        """The projections of iterate and image onto the hyperplane, extrapolated and mixed (Eq. 9)."""
        # Both at once: the projection is a loop of small operations.
        both = tf.concat([flat(point), flat(images)], axis=0)
        gaps = tf.concat([gap, gap + inner_product(normal, images - point)], axis=0)
        normals = tf.tile(flat(normal), [2, 1])
        moves = to_hyperplane(both, normals, gaps, self.threat.norm)
        lengths = self.threat.length(moves)
        own, original = tf.split(tf.maximum(lengths, 1e-8), 2)
        alpha = per_example(tf.minimum(own / (own + original), self.alpha_max))
        move, move_original = (tf.reshape(m, tf.shape(images)) for m in tf.split(moves, 2))
        mixed = (1.0 - alpha) * (point + self.eta * move) + alpha * (images + self.eta * move_original)
        return tf.clip_by_value(mixed, 0.0, 1.0)

    def _start(self, x, ids, seed, restart):
        """The image itself; at later restarts a random point at half of epsilon from it."""
        noise = self.threat.random_direction(seed, ids, x.shape[1:])
        noise /= per_example(tf.maximum(self.threat.length(noise), 1e-12))
        radius = START_RADIUS * self.threat.epsilon * per_example(tf.cast(restart > 0, tf.float32))
        return tf.clip_by_value(x + radius * noise, 0.0, 1.0)


class TargetedFAB(TargetRounds, FAB):
    """FAB toward one class at a time, the likeliest of the clean image first: one backward pass per step.

    A round is a target and a restart; images that are within epsilon are not part of the next one, so their
    `norm` is the smallest of the rounds before. Any misclassification counts.

    Example:

    >>> result = TargetedFAB(epsilon=8 / 255, n_targets=4).run(model, x, y)

    Args:
        n_targets: Number of classes that are tried, at most all wrong ones. Defaults to 9.
        **kwargs: Those of `FAB`; `restarts` is for each target.
    """

    name = "fab-t"

    def __init__(self, epsilon, norm="linf", *, n_targets: int = 9, **kwargs):
        super().__init__(epsilon, norm, n_targets=n_targets, **kwargs)

    def boundary_count(self, victim):
        return 1

    def rivals(self, logits, labels, targets):
        return targets[0][:, tf.newaxis], 1
