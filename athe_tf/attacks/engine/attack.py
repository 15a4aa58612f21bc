"""The contract of an attack."""

import contextlib
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from athe_tf.attacks.engine import driver, gradient_health
from athe_tf.attacks.engine.arguments import ReprFromArguments
from athe_tf.attacks.engine.driver import craft_in_parallel
from athe_tf.attacks.engine.gradients import repeated
from athe_tf.attacks.engine.loop import LoopResult, keeps_whole_batches, whole_batches
from athe_tf.attacks.engine.results import AttackResult, Costs, Precomputed, RoundResult, misclassified
from athe_tf.attacks.engine.schedule import Schedule
from athe_tf.attacks.registry import AttackOptions
from athe_tf.models.victim import Victim, attack_dtype, victim_of
from athe_tf.saving.opening import victim as as_victim
from athe_tf.threat import threat_model
from athe_tf.utils import rng
from athe_tf.utils.choices import NORMS
from athe_tf.utils.errors import InputError, check, check_integer
from athe_tf.utils.images_and_labels import checked_batch
from athe_tf.utils.label_checks import checked_probabilities, is_soft, most_probable
from athe_tf.utils.options import check_option
from athe_tf.utils.tensorflow_compat import repeatable
from athe_tf.utils.where import where_rows

victim = as_victim  # public as `athe_tf.attacks.victim`


class Attack(ReprFromArguments):
    """Finds, inside a threat model, an image that a model misclassifies.

    Calling an attack gives adversarial images, as training needs them. `run` gives evaluation what it needs:
    which images were misclassified, at what cost and distance. The `repr` of an attack is the call that makes
    it, and `settings()` has the value of every argument.

    Example:

    >>> attack = athe_tf.attacks.get("pgd-20", epsilon=8 / 255)
    >>> x_adv = attack(model, x, y)
    >>> result = attack.run(model, x, y)
    >>> robust_accuracy = 1 - result.success.mean()

    A subclass implements one *round* on one batch in `run_round`, and what it costs in `costs`; an attack
    that repeats a step along a gradient is a subclass of `IterativeAttack`, which has both. Rounds are what
    an attack repeats until it succeeds: restarts, targets. Between rounds `run` gathers the survivors of the
    whole set into full batches. If training needs another point than evaluation, a subclass overrides `craft`
    too. Every argument of the constructor is kept in an attribute of the same name.

    Random numbers are pure functions of (seed, example id), so that neither the batch size nor the number
    of replicas changes them. Attacks are immutable.

    Args:
        epsilon: Radius of the threat model, in pixels of [0, 1].
        norm: `"linf"`, `"l2"` or `"l1"`. Defaults to `"linf"`.
        targeted: Whether the labels are classes to reach instead of classes to leave. Only attacks that
            offer the argument can be targeted. Defaults to `False`.
    """

    name = "attack"
    #: Whether what it returns lies in the ball of its threat model.
    in_ball = True
    norms: tuple[str, ...] = NORMS
    #: Whether its loss depends on the scale of the logits; such attacks take `logit_scale`.
    depends_on_scale = False
    #: The argument that the number in a name such as "pgd-20" sets.
    number_argument = "steps"
    #: Number of starts; an argument of the attacks that can restart.
    restarts = 1
    #: Whether `craft` makes use of labels that are probabilities; other attacks get the most probable class.
    takes_soft_labels = False
    #: How its rounds follow each other; by default restarts, one after another.
    schedule_class: type[Schedule] = Schedule

    def __init__(self, epsilon, norm: str = "linf", targeted: bool = False):
        self.threat = threat_model(norm, epsilon)
        self.targeted = targeted
        known = " or ".join(map(repr, self.norms))
        check(
            norm in self.norms, f"Attack '{self.name}' supports only norm={known}. Received: norm={norm!r}."
        )
        self.schedule: Any = self.schedule_class(self)
        self._compiled: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()

    def __setattr__(self, name, value):
        """Sets an attribute, until the attack is used: what is compiled would not follow."""
        if "_used" in vars(self):
            raise InputError(
                f"An attack cannot change after its first use, nor can copies of it. Received: {name}="
                f"{value!r} for {self!r}. Make a new one."
            )
        super().__setattr__(name, value)

    def __getstate__(self) -> dict:
        """What a copy takes over: it has a schedule of its own, and nothing is compiled for it."""
        return {name: value for name, value in vars(self).items() if name not in ("schedule", "_compiled")}

    def __setstate__(self, state: dict) -> None:
        vars(self).update(state, schedule=self.schedule_class(self), _compiled=weakref.WeakKeyDictionary())

    @property
    def epsilon(self):
        """The radius of the threat model."""
        return self.threat.epsilon

    @property
    def norm(self) -> str:
        """The norm of the threat model."""
        return self.threat.norm

    def step_length(self, step_size, per_epsilon):
        """The length of a step, by default epsilon divided by `per_epsilon`; refuses zero and NaN."""
        if step_size is None:
            return self.epsilon / per_epsilon
        if not tf.is_tensor(self.epsilon) and self.epsilon > 0:
            check_option(AttackOptions, "step_size", step_size)
        return step_size

    def rounds(self, victim: Victim) -> int:
        """The largest number of rounds; by default the number of restarts."""
        return self.restarts

    def run_round(self, victim: Victim, x, y, ids, seed, round_index) -> RoundResult:
        """One round on one batch of images that are correctly classified; graph code.

        `round_index` is a scalar, or a vector if the schedule has rounds in parallel.
        """
        raise NotImplementedError

    def costs(self, victim: Victim) -> Costs:
        """The passes of a round; by default one there and one back for each of `steps`."""
        return Costs(getattr(self, "steps", None) or 1, forward=1, backward=1)

    def craft(self, victim: Victim, x, y, ids, seed):
        """Adversarial images for training; graph code.

        By default the nearest ones of all rounds, and the clean image where none was found.
        """

        def body(index, nearest, norm, flags, *memory):
            rounds = tf.fill(count, index) if self.schedule.rounds_in_parallel else index
            found = self.run_round(victim, x, y, ids, seed, rounds, *memory)
            nearer = found.success & (found.norm < norm)
            nearest = where_rows(nearer, found.x_adv, nearest)
            norm = tf.where(nearer, found.norm, norm)
            flags |= gradient_health.flags_of_round(found)
            return index + 1, nearest, norm, flags, *(tf.minimum(old, found.memory) for old in memory)

        count, columns = tf.shape(x)[:1], self.schedule.memory_columns(victim)
        memory = [tf.fill([tf.shape(x)[0], columns], float("inf"))] if columns else []
        start = (0, x, tf.fill(count, tf.constant(float("inf"), x.dtype)), tf.zeros(count, tf.int32), *memory)
        _, nearest, _, flags, *_ = repeated(body, start, self.schedule.craft_rounds(victim), victim)
        gradient_health.report(flags)
        return nearest

    def check_victim(self, victim: Victim) -> None:
        """Raises `NotApplicable` or `InputError` if this attack cannot be run on this victim."""

    def __init_subclass__(cls, **kwargs):
        """Accepts `attempt`, the former name of `run_round`, for one more version."""
        super().__init_subclass__(**kwargs)
        if "attempt" in vars(cls):
            renamed = "The method `attempt` of an attack is now called `run_round`. Rename it in"
            warnings.warn(f"{renamed} {cls.__name__}.", DeprecationWarning, stacklevel=2)
            setattr(cls, "run_round", vars(cls)["attempt"])  # noqa: B010

    @property
    def aim(self) -> float:
        """The former name of `loss_sign`."""
        warnings.warn("`aim` is now called `loss_sign`.", DeprecationWarning, stacklevel=2)
        return self.loss_sign

    @property
    def loss_sign(self) -> float:
        """The sign of a loss that is maximized: away from the label, or toward it."""
        return -1.0 if self.targeted else 1.0

    def succeeded(self, logits, y):
        """Whether the attack succeeds: another class than the label or, if targeted, the target."""
        wrong = misclassified(logits, most_probable(y))
        return tf.logical_not(wrong) if self.targeted else wrong

    def verdict(self, victim: Victim, x, logits, y, last: bool = False):
        """`(success, whether the judge was asked)` of images, given the logits of the gradient source.

        Usually the source is the judge. If it is not, the judge is asked where the source says success, and
        about the last point of every image.
        """
        success = self.succeeded(logits, y)
        if victim.source is victim:
            return success, tf.zeros_like(success, tf.int32)
        asked = tf.ones_like(success) if last else success
        return self.successes(victim, x, y, tested=asked), tf.cast(asked, tf.int32)

    def successes(self, victim: Victim, x, y, tested):
        """Which of the `tested` images succeed; the others cost no query."""
        if keeps_whole_batches():
            return tested & self.succeeded(victim.logits(x), y)
        rows = tf.where(tested)
        none = tf.zeros_like(tested)

        def test():
            success = self.succeeded(victim.logits(tf.gather_nd(x, rows)), tf.gather_nd(y, rows))
            return tf.tensor_scatter_nd_update(none, rows, success)

        return tf.cond(tf.reduce_any(tested), test, lambda: none)

    def round_result(
        self, victim: Victim, x, x_adv, success, loop: LoopResult, *, norm=None, extra=0, memory=None
    ) -> RoundResult:
        """What a round found, with the passes of its loop counted as `costs` says.

        Args:
            victim: The model.
            x: The clean images.
            x_adv: The images found.
            success: Whether they succeed.
            loop: What `shrinking_loop` returned.
            norm: Lengths of the perturbations; by default measured where the attack succeeds.
            extra: Forward passes that depend on the image.
            memory: As in `RoundResult`.
        """
        costs = self.costs(victim)
        queries = costs.before[0] + costs.forward * loop.steps + loop.tested + extra
        gradients = costs.before[1] + costs.backward * loop.steps
        judged = None if victim.source is victim else loop.judged
        if norm is None:
            norm = tf.where(success, self.threat.distance(x, x_adv), float("inf"))
        nonfinite, zero = tf.unstack(loop.faults, axis=1)
        return RoundResult(x_adv, success, queries, gradients, norm, nonfinite, memory, judged, zero)

    def round_passes(self, victim: Victim) -> float:
        """The most passes of the network that an image takes in one round."""
        return float(self.costs(victim).most * victim.source.passes)

    def __call__(self, model, x, y, ids=None, seed=0):
        """Adversarial images for a batch.

        Args:
            model: A `Victim`, or anything that `athe_tf.victim` takes.
            x: Images `[N, H, W, C]` in [0, 1].
            y: Integer labels `[N]`, or probabilities `[N, classes]`; the targets if the attack is targeted.
            ids: Integers that identify the examples; their positions by default.
            seed: Integer.
        """
        victim, soft = as_victim(model), is_soft(y)
        vars(self)["_used"] = True
        if not tf.inside_function():
            x, classes = checked_batch(x, most_probable(y) if soft else y, victim.num_classes)
            y = checked_probabilities(y) if soft else classes
        x = tf.convert_to_tensor(x, attack_dtype(x))
        y = tf.cast(y, x.dtype) if soft and self.takes_soft_labels else most_probable(y)
        ids = tf.range(tf.shape(x)[0]) if ids is None else ids
        if tf.inside_function():
            seed = rng.fold(seed)
            if not victim.independent:
                return self.craft(victim, x, y, ids, seed)
            return craft_in_parallel(lambda a, b, c: self.craft(victim, a, b, c, seed), x, y, ids)
        self.check_victim(victim)
        self.schedule.prepare(victim, x, y, batch_size=len(x))
        ids, seed = (tf.cast(tf.convert_to_tensor(value), tf.int64) for value in (ids, seed))
        if gradient_health.collecting():  # an eager training step, which sees nothing of what is compiled
            return self.craft(victim, x, y, ids, rng.fold(seed))
        return self.compiled(victim, x.shape, "craft", y)(x, y, ids, seed)

    def run(
        self,
        model,
        x,
        y,
        ids=None,
        seed=0,
        batch_size: int = 128,
        progress: Callable | None = None,
        state=None,
        precomputed: Precomputed | None = None,
        max_passes: int | None = None,
        jit_compile: bool = False,
    ) -> AttackResult:
        """Attacks a set of images and returns the outcome for each of them.

        Args:
            model: A `Victim`, or anything that `athe_tf.victim` takes.
            x: Images `[N, H, W, C]` in [0, 1].
            y: Integer labels `[N]`; the targets if the attack is targeted.
            ids: Integers that identify the examples; their positions by default.
            seed: Integer.
            batch_size: How many images go through the model at once.
            progress: Called after every batch with `(passes of the network done, passes in all if no
                further adversarial example is found, images still robust)`.
            state: Path of a file that keeps the state after every batch. The same call, repeated after an
                interruption, resumes from there and ends with the same result. A state file of another model,
                of other images or arguments, or of another version of athe_tf is refused. For a model that
                contains Python functions no state is kept, and a warning says so.
            precomputed: Known predictions; skips the input checks and the clean pass. Defaults to `None`.
            max_passes: Largest number of forward and backward passes per image. An image whose next round
                might exceed it is not attacked further, counts as robust, and `result.notes` says how many
                there are. Defaults to `None`: no limit.
            jit_compile: Compile the rounds by XLA, for batches of exactly one size, in which images that are
                done keep their place. The same result up to rounding; for accelerators.
        """
        check_integer("batch_size", batch_size, 1)
        vars(self)["_used"] = True
        victim = victim_of(model) if callable(model) else as_victim(model)
        if precomputed is None:
            x, y = checked_batch(x, y, victim.num_classes)
        ids = np.arange(len(x)) if ids is None else np.asarray(ids)
        task = driver.RunSpec(
            self, victim, x, y, ids, seed, batch_size, progress, max_passes, precomputed, jit_compile
        )
        return driver.run(task, state)

    def compiled(self, victim: Victim, shape, which: str, y=None, size: int | None = None):
        """`run_round` or `craft`, compiled once for a victim and a shape of images; with a `size`, by XLA."""
        functions = self._compiled.setdefault(victim, {})
        labels = tf.TensorSpec(
            [size, *([] if y is None else y.shape[1:])], tf.int32 if y is None else y.dtype
        )
        key = (which, tuple(shape[1:]), labels)
        if key not in functions:
            images = tf.TensorSpec([size, *shape[1:]], tf.float32)
            ids = tf.TensorSpec([size], tf.int64)
            further = []
            if which == "run_round":
                further.append(tf.TensorSpec([size] if self.schedule.rounds_in_parallel else [], tf.int32))
                columns = self.schedule.memory_columns(victim)
                further += [tf.TensorSpec([size, columns], tf.float32)] if columns else []
            # The function must not keep the victim alive: it is a key of a weak dictionary.
            method, reference = getattr(self, which), weakref.ref(victim)

            def called(x, y, ids, seed, *more):
                with whole_batches() if size else contextlib.nullcontext():
                    return method(reference(), x, y, ids, rng.fold(seed), *more)

            function = tf.function(called, autograph=False, jit_compile=True if size else None)
            seed = tf.TensorSpec([], tf.int64)
            # Concrete, because TensorFlow warns of retracing when many attacks are compiled from one place.
            functions[key] = repeatable(function.get_concrete_function(images, labels, ids, seed, *further))
        return functions[key]
