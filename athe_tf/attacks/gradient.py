"""Iterated gradient ascent inside a ball: FGSM, BIM, PGD, MIM and the losses they climb.

They are one algorithm. Start somewhere in the ball; repeat: take the gradient of a loss, step along the
direction of steepest ascent of the norm, project back. The variants differ in the start, the number and
size of steps, the loss, and whether the gradient is averaged over time.
"""

import copy
import functools
import weakref

import tensorflow as tf

from athe_tf.attacks import losses
from athe_tf.attacks.engine.active_set import shrinking_loop
from athe_tf.attacks.engine.attack import Attack
from athe_tf.attacks.engine.results import Attempt
from athe_tf.attacks.engine.victim import Victim
from athe_tf.threat import STARTS, per_example, threat_model
from athe_tf.utils import replicas, rng
from athe_tf.utils.errors import NotApplicable, check, check_choice

SELECTIONS = ("any", "last")


def gradient_of(objective, x):
    """`(outputs, gradient, nonfinite)` of a function from images to `(loss an example, outputs)`.

    Only the input is watched, so no weight gradient is computed. Entries that are not finite are taken as
    zero, because one NaN would poison every later iterate; `nonfinite` marks the images that had one.
    """
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(x)
        loss, outputs = objective(x)
    return outputs, *finite_gradient(tape.gradient(loss, x))


def mean_gradient(objective, x, passes: int):
    """As `gradient_of`, averaged over passes of a model whose answers contain chance.

    The outputs must be floating-point tensors: they are averaged too. A loop in the graph, so that neither
    the graph nor the memory grows with the number of passes.
    """
    if passes == 1:
        return gradient_of(objective, x)

    def body(i, outputs, gradient, nonfinite):
        more, slope, bad = gradient_of(objective, x)
        outputs = [a + b / passes for a, b in zip(outputs, more, strict=True)]
        return i + 1, outputs, gradient + slope / passes, nonfinite + bad

    first, slope, bad = gradient_of(objective, x)
    loop = (1, [output / passes for output in first], slope / passes, bad)
    _, outputs, gradient, nonfinite = tf.while_loop(
        lambda i, *_: i < passes, body, loop, parallel_iterations=1
    )
    return outputs, gradient, nonfinite


def finite_gradient(gradient):
    """`(gradient, nonfinite)`: what a tape gave, with zeros where it is not finite."""
    if gradient is None:
        raise NotApplicable(
            "The model's output does not depend on its input in a way that can be differentiated, so no "
            "gradient attack can be run on it. Use a black-box attack."
        )
    finite = tf.math.is_finite(gradient)
    nonfinite = tf.cast(tf.reduce_any(tf.logical_not(finite), axis=[1, 2, 3]), tf.int32)
    return tf.where(finite, gradient, tf.zeros_like(gradient)), nonfinite


def repeated(body, state: tuple, times: int, victim: Victim) -> tuple:
    """What is left of `state` after `body` took it in and gave it back so many times.

    A loop in the graph, so that `body` is traced once. But replicas cannot meet in one, and where batch
    normalisation is in training mode they have to: there every turn is written out.
    """
    if replicas.count() > 1 and not victim.independent:
        for _ in range(times):
            state = body(*state)
        return state
    return tf.while_loop(lambda *_: True, body, state, maximum_iterations=times, parallel_iterations=1)


def best_round(climb, rounds: int, comparison, x, victim: Victim):
    """The images of the round that an example fares worst in, for training.

    Args:
        climb: From the index of a round to images.
        rounds: How many rounds there are. One needs no comparison.
        comparison: From images to one number an example; the highest wins.
        x: The clean images, for examples whose numbers are all NaN.
        victim: The attacked model.
    """
    if rounds == 1:
        return climb(0)

    def body(round_index, best, best_score):
        x_adv = climb(round_index)
        score = comparison(x_adv)
        best = tf.where(per_example(score > best_score), x_adv, best)
        return round_index + 1, best, tf.maximum(score, best_score)

    lowest = tf.fill(tf.shape(x)[:1], tf.constant(-float("inf"), x.dtype))
    return repeated(body, (0, x, lowest), rounds, victim)[1]


class PGD(Attack):
    """Projected gradient descent, on the loss of your choice (Madry et al., 2018).

    Example:

    >>> attack = PGD(epsilon=8 / 255, step_size=2 / 255, steps=10)
    >>> x_adv = attack(model, x, y)

    Args:
        epsilon: Radius of the ball, in pixels of [0, 1].
        norm: `"linf"`, `"l2"` or `"l1"`. Defaults to `"linf"`.
        steps: Number of steps; 0 returns the start. Defaults to 20.
        step_size: Length of a step in the norm. Defaults to `epsilon / 4`.
        start: `"uniform"` in the ball (default), `"gaussian"` (0.001 N(0, I), as TRADES starts) or `"zero"`.
        loss: `"ce"` (default), `"margin"`, `"dlr"`, `"kl"`, `"he"`, or a function of
            `(logits, labels, reference)` that returns one number an example.
        logit_scale: The scale of the logits that the loss sees: `"model"` (default) takes them as the model
            gives them; a number replaces the scale of a hypersphere head. 1 is the paper's text: a weak
            attack.
        margin: The m of the `"he"` loss. Defaults to 0.
        restarts: How many starts are tried, in evaluation until one succeeds; in training the one with the
            highest loss is taken. Defaults to 1.
        select: In evaluation, whether `"any"` iterate may succeed (default, stronger) or only the
            `"last"`, as the papers count.
        targeted: Take `y` as the classes to reach. Defaults to `False`.
    """

    name = "pgd"
    default_steps = 20

    def __init__(
        self,
        epsilon,
        norm="linf",
        *,
        steps: int | None = None,
        step_size=None,
        start: str = "uniform",
        loss="ce",
        logit_scale="model",
        margin: float = 0.0,
        restarts: int = 1,
        select: str = "any",
        targeted: bool = False,
    ):
        super().__init__(epsilon, norm, targeted)
        steps = self.default_steps if steps is None else steps
        check(steps >= 0, f"`steps` must not be negative. Received: steps={steps}.")
        check(restarts >= 1, f"`restarts` must be at least 1. Received: restarts={restarts}.")
        check_choice("start", start, STARTS)
        check_choice("select", select, SELECTIONS)
        losses.check_logit_scale(logit_scale)
        self.steps = int(steps)
        self.step_size = self.threat.epsilon / 4 if step_size is None else step_size
        self.start = start
        self.loss = loss
        self.loss_function = losses.get(loss) if isinstance(loss, str) else loss
        self.logit_scale = logit_scale
        self.margin = margin
        self.restarts = int(restarts)
        self.select = select

    def with_loss(self, loss, **changes) -> "PGD":
        """A copy of this attack that climbs another loss."""
        return self._copy(loss=loss, loss_function=losses.get(loss), **changes)

    def with_epsilon(self, epsilon) -> "PGD":
        """A copy of this attack in another ball, with steps in proportion.

        Args:
            epsilon: A number, or a scalar tensor that a schedule computes: in a compiled training step the
                radius then changes without a new trace.
        """
        return self._copy(
            threat=threat_model(self.threat.norm, epsilon),
            step_size=self.step_size / self.threat.epsilon * epsilon,
        )

    def _copy(self, **changes) -> "PGD":
        other = copy.copy(self)
        other._compiled = weakref.WeakKeyDictionary()
        for name, value in changes.items():
            setattr(other, name, value)
        return other

    # -- what variants override -------------------------------------------------------------------------

    def initial_memory(self, x) -> list:
        """Tensors that the direction carries from step to step."""
        return []

    def direction(self, gradient, memory: list):
        """`(direction of length one, memory)`."""
        return self.threat.ascent(gradient), memory

    # -- the objective ----------------------------------------------------------------------------------

    def loss_inputs(self, victim: Victim, x) -> list:
        """What the loss compares with, computed once: the clean logits for KL. Each costs one query."""
        return [self.seen_logits(victim, x)[0]] if self.loss == "kl" else []

    def round_inputs(self, victim: Victim, inputs: list, y, ids, seed, round_index) -> list:
        """What the loss compares with in one round, made of `loss_inputs` without a query."""
        return inputs

    def comparison(self, victim: Victim, y, inputs: list):
        """From images to the number by which training prefers one round to another."""
        objective = self.objective(victim, y, inputs)
        return lambda x: objective(x)[0]

    def seen_logits(self, victim: Victim, x):
        """`(the logits that the loss sees, the logits)`."""
        logits = victim.logits(x)
        return losses.scale_factor(self.logit_scale, victim) * logits, logits

    def objective(self, victim: Victim, y, reference):
        """From images to `(what is maximised, one number an example; logits)`."""
        function = self.loss_function
        if self.loss == "he":
            scale = losses.scale_factor(self.logit_scale, victim) * victim.scale
            function = functools.partial(function, shift=scale * self.margin)

        def evaluate(x):
            seen, logits = self.seen_logits(victim, x)
            return self.aim * function(seen, y, reference[0] if reference else None), logits

        return evaluate

    def step(self, project, x_adv, gradient, memory):
        """One step up and, with `project`, back into the ball."""
        direction, memory = self.direction(gradient, memory)
        return project(x_adv + self.step_size * direction), memory

    def start_point(self, victim: Victim, x, ids, seed, round_index):
        """The start of a restart."""
        return self.threat.random_start(x, ids, rng.fold(seed, round_index), self.start)

    # -- training ---------------------------------------------------------------------------------------

    def craft(self, victim: Victim, x, y, ids, seed):
        """The last iterate; among several rounds the one with the highest loss.

        Costs exactly `steps` forward and backward passes a round, and one forward pass more for KL's
        reference or to compare rounds.
        """
        inputs = self.loss_inputs(victim, x)
        project = self.threat.projector(x)

        def climb(round_index):
            reference = self.round_inputs(victim, inputs, y, ids, seed, round_index)
            objective = self.objective(victim, y, reference)

            def body(x_adv, *memory):
                _, gradient, _ = gradient_of(objective, x_adv)
                x_adv, memory = self.step(project, x_adv, gradient, list(memory))
                return x_adv, *memory

            loop = (self.start_point(victim, x, ids, seed, round_index), *self.initial_memory(x))
            return repeated(body, loop, self.steps, victim)[0]

        return best_round(climb, self.rounds(victim), self.comparison(victim, y, inputs), x, victim)

    # -- evaluation -------------------------------------------------------------------------------------

    def rounds(self, victim: Victim) -> int:
        return self.restarts

    def check_victim(self, victim: Victim) -> None:
        if isinstance(self.loss, str):
            losses.check_classes(self.loss, victim.num_classes)

    def attempt(self, victim: Victim, x, y, ids, seed, round_index) -> Attempt:
        """One restart: images leave the batch as soon as an iterate succeeds."""
        any_iterate = self.select == "any"

        def body(i, state, constants):
            x_adv, success, queries, gradients, nonfinite, *memory = state
            images, labels, *reference = constants
            logits, gradient, bad = gradient_of(self.objective(victim, labels, reference), x_adv)
            success = self.succeeded(logits, labels) if any_iterate else success
            stepped, memory = self.step(self.threat.projector(images), x_adv, gradient, memory)
            x_adv = tf.where(per_example(success), x_adv, stepped)
            return [x_adv, success, queries + 1, gradients + 1, nonfinite + bad, *memory], success

        def test_last(state, constants):
            x_adv, _, queries, *rest = state
            success = self.succeeded(victim.logits(x_adv), constants[1])
            return [x_adv, success, queries + 1, *rest]

        zeros = tf.zeros(tf.shape(x)[:1], tf.int32)
        start = self.start_point(victim, x, ids, seed, round_index)
        inputs = self.loss_inputs(victim, x)
        reference = self.round_inputs(victim, inputs, y, ids, seed, round_index)
        state = [start, zeros > 0, zeros + len(inputs), zeros, zeros, *self.initial_memory(x)]
        x_adv, success, queries, gradients, nonfinite, *_ = shrinking_loop(
            body, state, [x, y, *reference], self.steps, test_last
        )
        norm = tf.where(success, self.threat.distance(x, x_adv), float("inf"))
        return Attempt(x_adv, success, queries, gradients, norm, nonfinite)

    def settings(self) -> dict:
        return super().settings() | {
            "steps": self.steps,
            "step_size": self.step_size,
            "start": self.start,
            "loss": self.loss if isinstance(self.loss, str) else getattr(self.loss, "__name__", "custom"),
            "logit_scale": self.logit_scale,
            "restarts": self.restarts,
            "select": self.select,
        }


class BIM(PGD):
    """The basic iterative method: PGD from the image itself (Kurakin et al., 2017)."""

    name = "bim"
    default_steps = 10

    def __init__(self, epsilon, norm="linf", *, start="zero", **kwargs):
        super().__init__(epsilon, norm, start=start, **kwargs)


class FGSM(BIM):
    """The fast gradient (sign) method: one step of length epsilon (Goodfellow et al., 2015)."""

    name = "fgsm"

    def __init__(self, epsilon, norm="linf", *, steps=1, step_size=None, **kwargs):
        check(steps == 1, f"FGSM takes one step. Received: steps={steps}. Use 'bim-{steps}' instead.")
        step_size = epsilon if step_size is None else step_size
        super().__init__(epsilon, norm, steps=1, step_size=step_size, **kwargs)


class MIM(BIM):
    """The momentum iterative method (Dong et al., 2018): gradients, each of l1 norm one, add up.

    Args:
        decay: The mu of the paper, the share of the past that is kept. Defaults to 1.
    """

    name = "mim"

    def __init__(self, epsilon, norm="linf", *, decay: float = 1.0, **kwargs):
        super().__init__(epsilon, norm, **kwargs)
        self.decay = decay

    def initial_memory(self, x):
        return [tf.zeros_like(x)]

    def direction(self, gradient, memory):
        length = tf.reduce_sum(tf.abs(gradient), axis=[1, 2, 3], keepdims=True)
        velocity = self.decay * memory[0] + gradient / tf.maximum(length, 1e-12)
        return self.threat.ascent(velocity), [velocity]

    def settings(self):
        return super().settings() | {"decay": self.decay}


class CWLinf(PGD):
    """PGD on the margin, the linf form of Carlini and Wagner's loss: indifferent to the logit scale."""

    name = "cw-linf"

    def __init__(self, epsilon, norm="linf", *, loss="margin", **kwargs):
        super().__init__(epsilon, norm, loss=loss, **kwargs)


class AdaptivePGD(PGD):
    """PGD on the hypersphere-embedding training loss itself, with its scale and margin (section 4.1).

    The margin of training is not part of a model; give the one it was trained with. Defaults to 0.2.
    """

    name = "adaptive-pgd"

    def __init__(self, epsilon, norm="linf", *, loss="he", margin=0.2, **kwargs):
        super().__init__(epsilon, norm, loss=loss, margin=margin, **kwargs)

    def settings(self):
        return super().settings() | {"margin": self.margin}
