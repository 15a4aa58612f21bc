"""What the attacks share that climb a loss of the logits, and those among them that repeat one step."""

import functools
from typing import Any, NamedTuple, Self

import tensorflow as tf

from athe_tf.attacks import losses
from athe_tf.attacks.engine import gradient_health
from athe_tf.attacks.engine.attack import Attack
from athe_tf.attacks.engine.gradients import best_round, gradient_of, repeated
from athe_tf.attacks.engine.loop import shrinking_loop
from athe_tf.attacks.engine.results import Costs, RoundResult
from athe_tf.attacks.registry import AttackOptions
from athe_tf.models.victim import Victim
from athe_tf.utils import rng
from athe_tf.utils.choices import check_logit_scale
from athe_tf.utils.errors import InputError, check_choice
from athe_tf.utils.options import check_option
from athe_tf.utils.where import where_rows


class GradientAttack(Attack):
    """An attack that climbs a loss of the logits by its gradient; `PGD` explains its arguments.

    A subclass implements one round in `climb`. A variant overrides, with the same signatures in all attacks:
    `clean_inputs` and `round_inputs`, what the loss compares the logits with; `round_seed`; `loss_logits`,
    what the loss sees of an image; or the whole `objective`.
    """

    depends_on_scale = True
    takes_soft_labels = True
    #: The m of the loss `"he"`.
    margin = 0.0
    #: Compare rounds by their margins in training, for attacks whose losses differ from round to round.
    compares_margins = False

    def __init__(self, epsilon, norm, loss, logit_scale, restarts: int, targeted: bool):
        super().__init__(epsilon, norm, targeted)
        check_option(AttackOptions, "restarts", restarts)
        check_logit_scale(logit_scale)
        self.loss = loss
        self.loss_function = losses.get(loss) if isinstance(loss, str) else loss
        self.logit_scale, self.restarts = logit_scale, int(restarts)

    def replace(self, **changes) -> Self:
        """A copy of this attack with other arguments.

        Example:

        >>> athe_tf.attacks.PGD(epsilon=0.1, steps=5).replace(restarts=2)
        PGD(epsilon=0.1, steps=5, restarts=2)
        """
        try:
            other = type(self)(**self._given | changes)
        except TypeError as error:
            raise InputError(f"The attack '{self.name}' cannot be changed like this: {error}.") from error
        other.name = self.name
        return other

    def with_loss(self, loss, **changes) -> Self:
        """A copy of this attack that climbs another loss."""
        return self.replace(loss=loss, **changes)

    def check_victim(self, victim: Victim) -> None:
        if isinstance(self.loss, str):
            losses.check_classes(self.loss, victim.num_classes)

    #: Passes of `clean_inputs`, forward and backward; `None`: one forward pass for losses with a reference.
    clean_passes: tuple[int, int] | None = None

    def passes_before(self) -> tuple[int, int]:
        """The passes of `clean_inputs`."""
        return (int(self.loss in losses.REFERENCED), 0) if self.clean_passes is None else self.clean_passes

    def clean_inputs(self, victim: Victim, x, y) -> list:
        """What the loss compares with, computed once per batch: the clean logits for KL."""
        return [self.loss_logits(victim, x)[0]] if self.loss in losses.REFERENCED else []

    def round_inputs(self, victim: Victim, inputs: list, y, ids, seed, round_index) -> list:
        """What the loss compares with in one round, made from `clean_inputs` without a query."""
        return inputs

    def round_seed(self, victim: Victim, seed, round_index):
        """The seed of the start of a round."""
        return rng.fold(seed, round_index)

    def loss_logits(self, victim: Victim, x):
        """`(what the loss sees, logits)`."""
        logits = victim.source.logits(x)
        return losses.scale_factor(self.logit_scale, victim) * logits, logits

    def objective(self, victim: Victim, y, inputs: list):
        """A function from images to `(what is maximized, one value per example; logits)`."""
        function = self.loss_function
        if self.loss == "he":
            scale = losses.scale_factor(self.logit_scale, victim) * victim.scale
            function = functools.partial(function, shift=scale * self.margin)

        def evaluate(x):
            seen, logits = self.loss_logits(victim, x)
            return self.loss_sign * function(seen, y, inputs[0] if inputs else None), logits

        return evaluate

    def climb(self, victim: Victim, x, y, ids, seed, round_index, clean_inputs: list, stop: bool):
        """One round; with `stop`, images leave the batch as soon as an iterate succeeds.

        Returns the loop's result, whose state has `x_adv` and `success`; without `stop`, for training,
        images and their flags of `gradient_health`.
        """
        raise NotImplementedError

    def run_round(self, victim: Victim, x, y, ids, seed, round_index) -> RoundResult:
        """One round."""
        inputs = self.clean_inputs(victim, x, y)
        loop = self.climb(victim, x, y, ids, seed, round_index, inputs, stop=True)
        return self.round_result(victim, x, loop.state.x_adv, loop.state.success, loop)

    def craft(self, victim: Victim, x, y, ids, seed):
        """The images of a round for training; among several rounds those with the highest loss.

        Costs the passes of the rounds, and one more forward pass for KL's reference or to compare rounds.
        """
        inputs = self.clean_inputs(victim, x, y)

        def climb(round_index):
            return self.climb(victim, x, y, ids, seed, round_index, inputs, stop=False)

        def score(x_adv):
            if self.compares_margins:
                return losses.margin(victim.source.logits(x_adv), y)
            return self.objective(victim, y, inputs)(x_adv)[0]

        x_adv, flags = best_round(climb, self.rounds(victim), score, x, victim)
        gradient_health.report(flags)
        return x_adv


class Climb(NamedTuple):
    """The state of a climb; one row per example."""

    x_adv: Any
    memory: Any  # what `step` carries from step to step
    success: Any


class IterativeAttack(GradientAttack):
    """An attack that repeats one step along a gradient: a subclass says where it starts, and what a step is.

    Stopping at success, leaving the batch, counting passes, restarts, budgets, batches and resuming are done
    here and in `run`.

    Example:

    >>> class Jumpy(athe_tf.attacks.IterativeAttack):
    ...     name = "jumpy"
    ...
    ...     def __init__(self, epsilon, norm="linf", *, tries: int = 5, length: float = 0.5):
    ...         super().__init__(epsilon, norm, steps=tries)
    ...         self.tries, self.length = tries, length
    ...
    ...     def step(self, x_adv, gradient, memory, project):
    ...         length = self.length * self.epsilon
    ...         return project(x_adv + length * self.threat.ascent(gradient)), memory
    >>> result = Jumpy(epsilon=0.1, tries=3).run(model, x, y)

    Args:
        epsilon: Radius of the ball, in pixels of [0, 1].
        norm: `"linf"` (default), `"l2"` or `"l1"`.
        steps: Number of steps; 0 returns the start.
        loss, logit_scale, restarts, select, targeted: As in `PGD`, with the same defaults.
    """

    def __init__(
        self,
        epsilon,
        norm="linf",
        *,
        steps: int,
        loss="ce",
        logit_scale="model",
        restarts: int = 1,
        select: str = "any",
        targeted: bool = False,
    ):
        super().__init__(epsilon, norm, loss, logit_scale, restarts, targeted)
        check_option(AttackOptions, "steps", steps)
        check_choice("select", select, ("any", "last"))
        self.steps, self.select = int(steps), select

    def initial_point(self, x, ids, seed):
        """Where a round starts: a point of the ball."""
        return self.threat.random_start(x, ids, seed)

    def initial_memory(self, x) -> list:
        """Tensors that `step` carries from step to step."""
        return []

    def step(self, x_adv, gradient, memory: list, project):
        """`(the next point, memory)`, from the gradient of the loss at `x_adv`; graph code.

        `project` brings points back into the ball and the box.
        """
        raise NotImplementedError

    def costs(self, victim: Victim) -> Costs:
        return Costs(self.steps, forward=1, backward=1, before=self.passes_before())

    def climb(self, victim: Victim, x, y, ids, seed, round_index, clean_inputs: list, stop: bool):
        """One round; for training, exactly `steps` forward and backward passes, and the last iterate."""
        whole_batch = self.threat.projector(x)  # computed once, where the batch does not shrink

        def body(i, here: Climb, constants):
            images, labels, inputs = constants
            objective = self.objective(victim, labels, inputs)
            logits, gradient, bad = gradient_of(objective, here.x_adv)
            project = self.threat.projector(images) if stop else whole_batch
            x_adv, memory = self.step(here.x_adv, gradient, here.memory, project)
            if not stop:
                return Climb(x_adv, memory, here.success), gradient_health.flags_of(bad)
            success, judged = here.success, 0
            if self.select == "any":
                success, judged = self.verdict(victim, here.x_adv, logits, labels)
            there = Climb(where_rows(success, here.x_adv, x_adv), memory, success)
            return there, success, bad, judged

        def test_last(here: Climb, constants):
            logits = victim.source.logits(here.x_adv)
            success, judged = self.verdict(victim, here.x_adv, logits, constants[1], last=True)
            return here._replace(success=success), judged

        constants = x, y, self.round_inputs(victim, clean_inputs, y, ids, seed, round_index)
        start = self.initial_point(x, ids, self.round_seed(victim, seed, round_index))
        state = Climb(start, self.initial_memory(x), tf.zeros(tf.shape(x)[:1], tf.bool))
        if stop:
            return shrinking_loop(body, state, constants, self.steps, test_last)

        def train(here: Climb, flags):
            there, more = body(0, here, constants)
            return [there, flags | more]

        last, flags = repeated(train, [state, tf.zeros(tf.shape(x)[:1], tf.int32)], self.steps, victim)
        return last.x_adv, flags
