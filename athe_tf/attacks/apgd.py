"""Auto-PGD: gradient ascent that sets its own step size (Croce and Hein, 2020 and 2021).

The loop is written once, in `APGD`. What depends on the norm is its step policy, in `apgd_steps.py`.
"""

import math
from typing import Any, NamedTuple

import tensorflow as tf

from athe_tf.attacks import losses
from athe_tf.attacks.apgd_steps import Iterate, StepPolicy, choose, step_policy
from athe_tf.attacks.engine import gradient_health
from athe_tf.attacks.engine.arguments import check_at_least
from athe_tf.attacks.engine.gradients import mean_gradient
from athe_tf.attacks.engine.loop import LoopResult, shrinking_loop
from athe_tf.attacks.engine.results import Costs
from athe_tf.attacks.gradient_attack import GradientAttack
from athe_tf.attacks.targets import TargetRounds
from athe_tf.models.victim import Victim
from athe_tf.threat import ThreatModel, threat_model
from athe_tf.utils.errors import InputError, NotApplicable
from athe_tf.utils.where import where_rows

# The l1 schedule of AutoAttack: multiples of epsilon, and the shares of the steps spent there. The rest of
# the steps is for epsilon itself.
LARGER_EPSILONS = ((3.0, 0.3), (2.0, 0.3))


class Climb(NamedTuple):
    """The state of a climb, and its outcome; one row per example."""

    x_adv: Any
    success: Any
    best: Iterate
    memory: Any  # of the step policy


class APGD(GradientAttack):
    """Auto-PGD: PGD without a step size to tune, on cross-entropy unless told otherwise.

    The first step is 2 epsilon long (epsilon in l1). At fixed checkpoints, where the loss has not risen
    often enough or the best point has not changed, the step size is halved and the climb continues from the
    best point. In l1 the steps are sparse and the projection onto ball and box is exact.

    Calling the attack gives the points of highest loss, as training needs them; `run` counts every iterate
    that is misclassified. `n` steps cost `n` gradients and `n + 1` queries per restart.

    Example:

    >>> attack = APGD(epsilon=8 / 255, steps=100)                 # athe_tf.attacks.get("apgd-ce-100", ...)
    >>> result = attack.run(model, x, y)

    Args:
        epsilon: Radius of the ball, in pixels of [0, 1].
        norm: `"linf"`, `"l2"` or `"l1"`. Defaults to `"linf"`.
        steps: Number of steps per restart, at least 1. Defaults to 100.
        restarts: Number of starts that are tried until one succeeds. Defaults to 1.
        loss: `"ce"` (default), `"dlr"`, `"margin"`, `"kl"`, or a function of
            `(logits, labels, reference)` that returns one value per example.
        logit_scale: The scale of the logits that the loss sees: `"model"` (default), or a number in place
            of a hypersphere head's. `"dlr"` and `"margin"` do not depend on it.
        larger_epsilon: For l1 only: climb in balls of 3 and 2 epsilon first, with 30% of the steps each,
            as AutoAttack does. Only points of the last ball count. Defaults to `False`.
        eot_samples: For randomized models: passes over which logits and gradients are averaged at every
            point (expectation over transformation). Defaults to 1.
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
        eot_samples: int = 1,
        targeted: bool = False,
    ):
        super().__init__(epsilon, norm, loss, logit_scale, restarts, targeted)
        check_at_least(1, eot_samples=eot_samples, steps=steps)
        if larger_epsilon and not self.threat.sparse:
            raise InputError(f"`larger_epsilon` is a schedule for norm='l1'. Received: norm={norm!r}.")
        self.steps, self.larger_epsilon, self.eot_samples = int(steps), larger_epsilon, int(eot_samples)

    def stages(self) -> list[tuple[ThreatModel, int]]:
        """The balls that are climbed one after another, and the steps in each."""
        early = [
            (threat_model(self.norm, factor * self.epsilon), math.ceil(share * self.steps))
            for factor, share in (LARGER_EPSILONS if self.larger_epsilon else ())
        ]
        return [*early, (self.threat, max(self.steps - sum(steps for _, steps in early), 1))]

    def costs(self, victim: Victim) -> Costs:
        stages, samples = self.stages(), self.eot_samples
        steps = sum(steps for _, steps in stages)
        return Costs(steps, samples, samples, before=self.passes_before(), after=len(stages))

    def climb(self, victim: Victim, x, y, ids, seed, round_index, clean_inputs, stop: bool):
        """One round in all stages; for training, the points of highest loss."""
        inputs = self.round_inputs(victim, clean_inputs, y, ids, seed, round_index)
        seed = self.round_seed(victim, seed, round_index)
        policies = [step_policy(threat, steps) for threat, steps in self.stages()]
        start, resumed = policies[0].start(x, ids, seed), len(policies) > 1
        counts = [0, 0, 0, 0]
        for policy in policies:
            leave = stop and policy is policies[-1]
            loop = self._climb_in(victim, policy, x, y, inputs, start, resumed, leave)
            start, counts = loop.state.best.x, [a + b for a, b in zip(counts, loop[1:], strict=True)]
        if stop:
            return LoopResult(loop.state, *counts)
        return loop.state.best.x, gradient_health.flags_of(counts[2], counts[0])

    def _climb_in(self, victim, policy: StepPolicy, x, y, inputs, start, resumed, stop: bool) -> LoopResult:
        def body(i, state: Climb, constants):
            images, labels, inputs = constants
            objective = self.objective(victim, labels, inputs)

            def measured(v):
                loss, logits = objective(v)
                return loss, (loss, logits)

            (loss, logits), gradient, bad = mean_gradient(measured, state.x_adv, self.eot_samples)
            wrong, judged = self.verdict(victim, state.x_adv, logits, labels)
            here = Iterate(state.x_adv, gradient, loss)
            best = choose(loss > state.best.loss, here, state.best)
            here, memory = policy.checkpoint(i, images, here, best, state.memory)
            stepped, memory = policy.step(i, images, here, memory)
            done = wrong if stop else tf.zeros_like(wrong)
            return Climb(where_rows(done, state.x_adv, stepped), wrong, best, memory), done, bad, judged

        def measure_last(state: Climb, constants):
            _, labels, inputs = constants
            loss, logits = self.objective(victim, labels, inputs)(state.x_adv)
            best = choose(loss > state.best.loss, Iterate(state.x_adv, state.best.gradient, loss), state.best)
            success, judged = self.verdict(victim, state.x_adv, logits, labels, last=True)
            return state._replace(success=success, best=best), judged

        start = policy.threat.project(x, start)
        nothing_yet = Iterate(start, tf.zeros_like(x), tf.fill(tf.shape(x)[:1], -math.inf))
        unsolved = tf.zeros(tf.shape(x)[:1], tf.bool)
        state = Climb(start, unsolved, nothing_yet, policy.memory(x, start, resumed))
        return shrinking_loop(body, state, (x, y, inputs), policy.steps, measure_last)


class APGDDLR(APGD):
    """APGD on the difference of logits ratio: independent of scale and shift of the logits.

    Needs three classes. It cannot be targeted, because the ratio compares the label's logit with the two
    largest: use `apgd-ce` with `loss="margin"` to reach a class.

    Example:

    >>> result = APGDDLR(epsilon=8 / 255, steps=20).run(model, x, y)

    Args:
        **kwargs: Those of `APGD`, without `targeted`. `loss` defaults to `"dlr"`.
    """

    name = "apgd-dlr"
    depends_on_scale = False

    def __init__(self, epsilon, norm="linf", *, loss="dlr", **kwargs):
        super().__init__(epsilon, norm, loss=loss, targeted=False, **kwargs)

    def check_victim(self, victim):
        check_dlr(victim.num_classes)

    def loss_logits(self, victim, x):
        seen, logits = super().loss_logits(victim, x)
        check_dlr(logits.shape[-1])  # the number of classes of a callable is known only here
        return seen, logits


def check_dlr(classes: int | None) -> None:
    """Raises `NotApplicable` if there is no third logit."""
    if classes is not None and classes < 3:
        raise NotApplicable(
            f"APGD-DLR needs at least 3 classes. Received: num_classes={classes}. Use 'apgd-ce' instead."
        )


class APGDT(TargetRounds, APGD):
    """APGD toward the likeliest wrong classes, one after another.

    Targets are ranked by the clean logits of the image. The loss is the targeted difference of logits
    ratio; with two or three classes, for which it does not exist, the difference of the two logits. Neither
    depends on the logit scale. Any misclassification counts as success.

    A round is one target and one restart, and costs one more query than a restart of `APGD`, for the clean
    logits. In training the call returns, of all rounds, the image with the largest margin.

    Example:

    >>> attack = APGDT(epsilon=8 / 255, n_targets=9)
    >>> result = attack.run(model, x, y)

    Args:
        n_targets: Number of classes that are tried, at most all wrong ones. Defaults to 9.
        **kwargs: `epsilon`, `norm`, `steps` (100), `restarts` (1) and `larger_epsilon`, as in `APGD`.
    """

    name = "apgd-t"
    depends_on_scale = False

    def __init__(self, epsilon, norm="linf", *, n_targets: int = 9, **kwargs):
        super().__init__(
            epsilon, norm, n_targets=n_targets, loss=losses.dlr_targeted, targeted=False, **kwargs
        )
