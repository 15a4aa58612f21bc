"""Auto-PGD: gradient ascent that sets its own step size (Croce and Hein, 2020 and 2021).

The loop is written once, in `APGD`. What depends on the norm is its *pace*, in `pace.py`.
"""

import math
from typing import Any, NamedTuple

import tensorflow as tf

from athe_tf.attacks import losses
from athe_tf.attacks.apgd_steps import PACES, Iterate, Pace, choose
from athe_tf.attacks.engine.active_set import shrinking_loop
from athe_tf.attacks.engine.attack import Attack
from athe_tf.attacks.engine.results import Attempt
from athe_tf.attacks.engine.victim import Victim
from athe_tf.attacks.gradient import best_round, mean_gradient
from athe_tf.attacks.multitargeted import capped_targets, ranked_target, target_and_restart
from athe_tf.threat import ThreatModel, per_example, threat_model
from athe_tf.utils import rng
from athe_tf.utils.errors import InputError, NotApplicable, check

# The l1 schedule of AutoAttack: multiples of epsilon, and the shares of the steps spent there.
LARGER_EPSILONS = ((3.0, 0.3), (2.0, 0.3), (1.0, 0.4))


class Climb(NamedTuple):
    """The outcome of one climb."""

    x_adv: Any
    success: Any
    queries: Any
    gradients: Any
    nonfinite: Any
    best_x: Any


class APGD(Attack):
    """Auto-PGD: PGD without a step size to tune, on cross-entropy unless told otherwise.

    The first step is 2 epsilon long (epsilon in l1). At fixed checkpoints, where the loss has not risen
    often enough or the best point has not changed, the step size is halved and the climb goes on from the
    best point. In l1 the steps are sparse and the projection onto ball and box is exact.

    Calling the attack gives the points of highest loss, as training wants them; `run` counts every iterate
    that is misclassified. `n` steps cost `n` gradients and `n + 1` queries a restart.

    Example:

    >>> attack = APGD(epsilon=8 / 255, steps=100)                 # athe_tf.attacks.get("apgd-ce-100", ...)
    >>> result = attack.run(model, x, y)

    Args:
        epsilon: Radius of the ball, in pixels of [0, 1].
        norm: `"linf"`, `"l2"` or `"l1"`. Defaults to `"linf"`.
        steps: Number of steps a restart, at least 1. Defaults to 100.
        restarts: How many starts are tried, until one succeeds. Defaults to 1.
        loss: `"ce"` (default), `"dlr"`, `"margin"`, or a function of `(logits, labels)` that returns one
            number an example.
        logit_scale: The scale of the logits that the loss sees: `"model"` (default), or a number in place
            of a hypersphere head's. `"dlr"` and `"margin"` do not depend on it.
        larger_epsilon: For l1 only: climb in balls of 3 and 2 epsilon first, with 30 % of the steps each,
            as AutoAttack does. Only points of the last ball count. Defaults to `False`.
        passes: For models whose answers contain chance: passes over which logits and gradients are
            averaged at every point (expectation over transformation). Defaults to 1.
        targeted: Take `y` as the classes to reach. Defaults to `False`.

    Reference:
        Croce and Hein, "Reliable evaluation of adversarial robustness with an ensemble of diverse
        parameter-free attacks", ICML 2020; "Mind the box: l1-APGD for sparse adversarial attacks on image
        classifiers", ICML 2021.
    """

    name = "apgd-ce"

    def __init__(
        self,
        epsilon,
        norm="linf",
        *,
        steps: int = 100,
        restarts: int = 1,
        loss="ce",
        logit_scale="model",
        larger_epsilon: bool = False,
        passes: int = 1,
        targeted: bool = False,
    ):
        super().__init__(epsilon, norm, targeted)
        check(passes >= 1, f"`passes` must be at least 1. Received: passes={passes}.")
        check(steps >= 1, f"`steps` must be at least 1. Received: steps={steps}.")
        check(restarts >= 1, f"`restarts` must be at least 1. Received: restarts={restarts}.")
        losses.check_logit_scale(logit_scale)
        if larger_epsilon and norm != "l1":
            raise InputError(f"`larger_epsilon` is a schedule for norm='l1'. Received: norm={norm!r}.")
        self.steps = int(steps)
        self.restarts = int(restarts)
        self.loss = loss
        self.loss_function = losses.get(loss) if isinstance(loss, str) else loss
        self.logit_scale = logit_scale
        self.larger_epsilon = larger_epsilon
        self.passes = int(passes)

    # -- the objective ----------------------------------------------------------------------------------

    def round_inputs(self, victim: Victim, x, y, round_index) -> list:
        """What the loss needs besides logits and labels in one round; each costs one query."""
        return []

    def round_seed(self, victim: Victim, seed, round_index):
        """The seed of the start of a round."""
        return rng.fold(seed, round_index)

    def loss_of(self, victim: Victim, logits, y, inputs):
        """What is maximised; one number an example."""
        return self.aim * self.loss_function(losses.scale_factor(self.logit_scale, victim) * logits, y)

    def comparison(self, victim: Victim, y):
        """From images to the number by which training prefers one round to another."""
        return lambda x: self.loss_of(victim, victim.logits(x), y, [])

    # -- the loop ---------------------------------------------------------------------------------------

    def stages(self) -> list[tuple[ThreatModel, int]]:
        """The balls that are climbed one after another, and the steps in each."""
        if not self.larger_epsilon:
            return [(self.threat, self.steps)]
        *early, (_, _) = LARGER_EPSILONS
        spent = [math.ceil(share * self.steps) for _, share in early]
        wide = [
            (threat_model(self.threat.norm, factor * self.threat.epsilon), steps)
            for (factor, _), steps in zip(early, spent, strict=True)
        ]
        return [*wide, (self.threat, max(self.steps - sum(spent), 1))]

    def climb(self, victim: Victim, x, y, ids, seed, round_index, stop: bool) -> Climb:
        """One round; with `stop`, images leave the batch as soon as an iterate succeeds."""
        inputs = self.round_inputs(victim, x, y, round_index)
        seed = self.round_seed(victim, seed, round_index)
        *early, final = [PACES[threat.norm](threat, steps) for threat, steps in self.stages()]
        start = (early or [final])[0].start(x, ids, seed)
        costs = [tf.zeros(tf.shape(x)[:1], tf.int32)] * 3
        for pace in early:
            stage = self._climb_in(victim, pace, x, y, inputs, start, stop=False, resumed=True)
            costs = [a + b for a, b in zip(costs, stage[2:5], strict=True)]
            start = stage.best_x
        stage = self._climb_in(victim, final, x, y, inputs, start, stop=stop, resumed=bool(early))
        queries, gradients, nonfinite = (a + b for a, b in zip(costs, stage[2:5], strict=True))
        return stage._replace(queries=queries + len(inputs), gradients=gradients, nonfinite=nonfinite)

    def _climb_in(self, victim, pace: Pace, x, y, inputs, start, *, stop: bool, resumed: bool) -> Climb:
        def measure(x_adv, labels, rest):
            logits = victim.logits(x_adv)
            loss = self.loss_of(victim, logits, labels, rest)
            return loss, (loss, logits)

        def body(i, state, constants):
            x_adv, _, queries, gradients, nonfinite, *tensors = state
            best, memory = Iterate(*tensors[:3]), tensors[3:]
            images, labels, *rest = constants
            here = mean_gradient(lambda v: measure(v, labels, rest), x_adv, self.passes)
            (loss, logits), gradient, bad = here
            wrong = self.succeeded(logits, labels)
            now = Iterate(x_adv, gradient, loss)
            best = choose(loss > best.loss, now, best)
            now, memory = pace.look(i, images, now, best, memory)
            stepped, memory = pace.step(i, images, now, memory)
            done = wrong if stop else tf.zeros_like(wrong)
            x_adv = tf.where(per_example(done), x_adv, stepped)
            costs = [queries + self.passes, gradients + self.passes, nonfinite + bad]
            return [x_adv, wrong, *costs, *best, *memory], done

        def measure_last(state, constants):
            x_adv, _, queries, gradients, nonfinite, *tensors = state
            best, memory = Iterate(*tensors[:3]), tensors[3:]
            _, (loss, logits) = measure(x_adv, constants[1], constants[2:])
            wrong = self.succeeded(logits, constants[1])
            best = choose(loss > best.loss, Iterate(x_adv, best.gradient, loss), best)
            return [x_adv, wrong, queries + 1, gradients, nonfinite, *best, *memory]

        zeros = tf.zeros(tf.shape(x)[:1], tf.int32)
        start = pace.threat.project(x, start)
        nothing_yet = Iterate(start, tf.zeros_like(x), tf.cast(zeros, tf.float32) - math.inf)
        memory = pace.memory(x, start, resumed)
        state = [start, zeros > 0, zeros, zeros, zeros, *nothing_yet, *memory]
        state = shrinking_loop(body, state, [x, y, *inputs], pace.steps, measure_last)
        return Climb(*state[:6])

    # -- the contract -----------------------------------------------------------------------------------

    def rounds(self, victim: Victim) -> int:
        return self.restarts

    def round_passes(self, victim: Victim) -> float:
        return self.passes * super().round_passes(victim)

    def check_victim(self, victim: Victim) -> None:
        if isinstance(self.loss, str):
            losses.check_classes(self.loss, victim.num_classes)

    def attempt(self, victim: Victim, x, y, ids, seed, round_index) -> Attempt:
        """One restart."""
        climb = self.climb(victim, x, y, ids, seed, round_index, stop=True)
        norm = tf.where(climb.success, self.threat.distance(x, climb.x_adv), math.inf)
        return Attempt(climb.x_adv, climb.success, climb.queries, climb.gradients, norm, climb.nonfinite)

    def craft(self, victim: Victim, x, y, ids, seed):
        """The points of highest loss; of several rounds the best."""
        return best_round(
            lambda index: self.climb(victim, x, y, ids, seed, index, stop=False).best_x,
            self.rounds(victim),
            self.comparison(victim, y),
            x,
            victim,
        )

    def settings(self) -> dict:
        return super().settings() | {
            "steps": self.steps,
            "restarts": self.restarts,
            "loss": self.loss if isinstance(self.loss, str) else getattr(self.loss, "__name__", "custom"),
            "logit_scale": self.logit_scale,
            "larger_epsilon": self.larger_epsilon,
            "passes": self.passes,
        }


class APGDDLR(APGD):
    """APGD on the difference of logits ratio: indifferent to scale and shift of the logits.

    Needs three classes. The arguments are those of `APGD`, but it cannot be targeted: the ratio is one of
    the label's logit to the two largest. Use `apgd-ce` with `loss="margin"` to reach a class.
    """

    name = "apgd-dlr"

    def __init__(self, epsilon, norm="linf", *, loss="dlr", **kwargs):
        super().__init__(epsilon, norm, loss=loss, targeted=False, **kwargs)

    def check_victim(self, victim):
        check_dlr(victim.num_classes)

    def loss_of(self, victim, logits, y, inputs):
        check_dlr(logits.shape[-1])  # a callable says how many classes it has only here
        return super().loss_of(victim, logits, y, inputs)


def check_dlr(classes: int | None) -> None:
    """Raises `NotApplicable` when there is no third logit."""
    if classes is not None and classes < 3:
        raise NotApplicable(
            f"APGD-DLR needs at least 3 classes. Received: num_classes={classes}. Use 'apgd-ce' instead."
        )


class APGDT(APGD):
    """APGD towards the nearest wrong classes, one after another.

    Targets are ranked by the clean logits of the image. The loss is the targeted difference of logits
    ratio; with two or three classes, for which it does not exist, the difference of the two logits. Both
    are indifferent to the logit scale. Any misclassification counts as success.

    A round is one target and one restart, and costs one more query than a restart of `APGD`, for the clean
    logits. In training the call returns, of all rounds, the image with the largest margin.

    Example:

    >>> attack = APGDT(epsilon=8 / 255, n_targets=9)
    >>> result = attack.run(model, x, y)

    Args:
        epsilon: Radius of the ball, in pixels of [0, 1].
        norm: `"linf"`, `"l2"` or `"l1"`. Defaults to `"linf"`.
        n_targets: How many classes are tried, at most all wrong ones. Defaults to 9.
        **kwargs: `steps` (100), `restarts` (1) and `larger_epsilon`, as in `APGD`.
    """

    name = "apgd-t"

    def __init__(self, epsilon, norm="linf", *, n_targets: int = 9, **kwargs):
        super().__init__(epsilon, norm, loss=losses.dlr_targeted, targeted=False, **kwargs)
        check(n_targets >= 1, f"`n_targets` must be at least 1. Received: n_targets={n_targets}.")
        self.n_targets = int(n_targets)

    def rounds(self, victim):
        return self.restarts * self._targets(victim)

    def _targets(self, victim) -> int:
        return capped_targets(self.n_targets, victim)

    def round_inputs(self, victim, x, y, round_index):
        rank, _ = target_and_restart(round_index, self._targets(victim))
        return [ranked_target(victim.logits(x), y, rank)]

    def round_seed(self, victim, seed, round_index):
        # By target and restart, not by round: more targets keep the starts of those that were there.
        return rng.fold(seed, *target_and_restart(round_index, self._targets(victim)))

    def loss_of(self, victim, logits, y, inputs):
        classes = logits.shape[-1]
        loss = losses.dlr_targeted if classes is None or classes >= 4 else losses.gap
        return loss(logits, y, inputs[0])

    def comparison(self, victim, y):
        return lambda x: losses.margin(victim.logits(x), y)

    def settings(self):
        settings = super().settings() | {"n_targets": self.n_targets}
        del settings["logit_scale"]  # it does not matter here
        return settings
