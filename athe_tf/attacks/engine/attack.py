"""The contract of an attack."""

import weakref
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from athe_tf.attacks.engine import driver
from athe_tf.attacks.engine.arguments import Described
from athe_tf.attacks.engine.clean_facts import CleanFacts
from athe_tf.attacks.engine.parallel import craft_in_parallel
from athe_tf.attacks.engine.results import AttackResult, Attempt, misclassified
from athe_tf.attacks.engine.victim import Victim, attack_dtype
from athe_tf.attacks.engine.victim import victim as as_victim
from athe_tf.threat import threat_model
from athe_tf.utils import rng
from athe_tf.utils.choices import NORMS
from athe_tf.utils.errors import check
from athe_tf.utils.images_and_labels import checked_batch
from athe_tf.utils.tensorflow_compat import repeatable
from athe_tf.utils.where import where_rows


class Attack(Described):
    """Finds, inside a threat model, an image that a model misclassifies.

    Calling an attack gives adversarial images, as training needs them. `run` gives evaluation what it needs:
    which images were misclassified, at what cost and distance. The `repr` of an attack is the call that makes
    it, and `settings()` has the value of every argument.

    Example:

    >>> attack = athe_tf.attacks.get("pgd-20", epsilon=8 / 255)
    >>> x_adv = attack(model, x, y)
    >>> result = attack.run(model, x, y)
    >>> robust_accuracy = 1 - result.success.mean()

    A subclass implements one *round* on one batch in `attempt`. Rounds are what an attack repeats until it
    succeeds: restarts, targets. Between rounds `run` gathers the survivors of the whole set into full
    batches. If training needs another point than evaluation, a subclass overrides `craft` too. Every argument
    of the constructor is kept in an attribute of the same name.

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
    #: Whether several rounds of an image can be in one batch: `attempt` takes a round for each of its images.
    rounds_in_parallel = False

    def __init__(self, epsilon, norm: str = "linf", targeted: bool = False):
        self.threat = threat_model(norm, epsilon)
        self.targeted = targeted
        names = ", ".join(self.norms)
        check(norm in self.norms, f"Attack '{self.name}' exists in {names} only. Received: norm={norm!r}.")
        self._compiled: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()

    @property
    def epsilon(self):
        """The radius of the threat model."""
        return self.threat.epsilon

    @property
    def norm(self) -> str:
        """The norm of the threat model."""
        return self.threat.norm

    # -- for subclasses ---------------------------------------------------------------------------------

    def rounds(self, victim: Victim) -> int:
        """The largest number of rounds; by default that of restarts."""
        return self.restarts

    def attempt(self, victim: Victim, x, y, ids, seed, round_index) -> Attempt:
        """One round on one batch of images that are correctly classified; graph code.

        `round_index` is a scalar, or a vector if the attack says `rounds_in_parallel`.
        """
        raise NotImplementedError

    def craft(self, victim: Victim, x, y, ids, seed):
        """Adversarial images for training; graph code. By default, those of all rounds one after another."""
        best, solved = x, tf.zeros(tf.shape(x)[:1], tf.bool)
        for round_index in range(self.rounds(victim)):
            attempt = self.attempt(victim, x, y, ids, seed, round_index)
            chosen = tf.logical_and(attempt.success, tf.logical_not(solved))
            best = where_rows(chosen, attempt.x_adv, best)
            solved = tf.logical_or(solved, attempt.success)
        return best

    def check_victim(self, victim: Victim) -> None:
        """Raises `NotApplicable` or `InputError` if this attack cannot be run on this victim."""

    def memory_columns(self, victim: Victim) -> int:
        """How many numbers an image carries from round to round; 0 by default.

        With a memory, `attempt` gets it as one more argument, a float32 tensor `[n, columns]` that starts as
        infinity, and returns what it found in `Attempt.memory`: the smaller numbers are kept. It is part of
        the state file.
        """
        return 0

    def independent_rounds(self, victim: Victim, round_index: int) -> int:
        """How many rounds, from this one on, need nothing of one another but the images that are left.

        Such rounds share batches where few images are left. By default, all that are left if the attack says
        `rounds_in_parallel`, or else one.
        """
        return self.rounds(victim) - round_index if self.rounds_in_parallel else 1

    def takes_part(self, victim: Victim, round_index: int, memory: np.ndarray) -> np.ndarray:
        """Which images need a round, given their memory: one flag per row; by default all.

        A round must not change the answer for itself, nor for rounds that are independent of it, so that a
        resumed run forms the same batches.
        """
        return np.ones(len(memory), bool)

    def admits(self, member: "Attack", result: AttackResult) -> np.ndarray:
        """For cascades: which images go on to a member, given what earlier stages found; by default all."""
        return np.ones(len(result.success), bool)

    def prepare(self, victim: Victim, x, y, batch_size: int) -> int:
        """Computes what is needed once from the whole set, before the first round.

        Returns the number of forward passes that every image took for it; 0 by default.
        """
        return 0

    def check_model(self, victim: Victim, x, y, known: CleanFacts | None = None) -> list[str]:
        """Warnings about a model, from a batch of images; by default none."""
        return []

    def remarks(
        self, victim: Victim, result: AttackResult, max_passes: int | None, about_model: Sequence[str] = ()
    ) -> list[str]:
        """What a reader must know about a result on all images, as sentences.

        Args:
            victim: The model.
            result: The result.
            max_passes: The budget of passes, if there was one.
            about_model: What `check_model` found.
        """
        return [*about_model, *driver.budget_notes(result, max_passes)]

    # -- what subclasses use ----------------------------------------------------------------------------

    @property
    def aim(self) -> float:
        """The sign of a loss that is maximized: away from the label, or towards it."""
        return -1.0 if self.targeted else 1.0

    def succeeded(self, logits, y):
        """Whether the attack succeeds: another class than the label or, if targeted, the target."""
        wrong = misclassified(logits, y)
        return tf.logical_not(wrong) if self.targeted else wrong

    def cascade(self, victim: Victim) -> "list[Attack]":
        """The attacks that `run` goes through, each on the survivors of the last; usually only itself."""
        return [self]

    def round_passes(self, victim: Victim) -> float:
        """The most passes of the network that an image takes in one round, for estimates of time."""
        return 2.0 * (getattr(self, "steps", None) or 1) + 1.0

    def craft_passes(self, victim: Victim) -> float:
        """About how many passes `craft` takes for an image that withstands it, for estimates of time."""
        return self.rounds(victim) * self.round_passes(victim)

    # -- for users --------------------------------------------------------------------------------------

    def __call__(self, model, x, y, ids=None, seed=0):
        """Adversarial images for a batch.

        Args:
            model: A `Victim`, or anything that `athe_tf.victim` takes.
            x: Images `[N, H, W, C]` in [0, 1].
            y: Integer labels `[N]`; the targets if the attack is targeted.
            ids: Integers that identify the examples; their positions by default.
            seed: Integer.
        """
        victim = as_victim(model)
        if not tf.inside_function():
            x, y = checked_batch(x, y, victim.num_classes)
        x = tf.convert_to_tensor(x, attack_dtype(x))
        y = tf.cast(tf.convert_to_tensor(y), tf.int32)
        ids = tf.range(tf.shape(x)[0]) if ids is None else ids
        seed = rng.fold(seed)
        if tf.inside_function():
            if not victim.independent:
                return self.craft(victim, x, y, ids, seed)
            return craft_in_parallel(lambda a, b, c: self.craft(victim, a, b, c, seed), x, y, ids)
        self.check_victim(victim)
        self.prepare(victim, x, y, batch_size=len(x))
        ids = tf.cast(tf.convert_to_tensor(ids), tf.int64)
        return self.compiled(victim, x.shape, "craft")(x, y, ids, seed)

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
        known: CleanFacts | None = None,
        max_passes: int | None = None,
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
            known: What is known about the model and these images, which were checked then. Defaults to
                `None`: `run` checks the images and makes a clean pass.
            max_passes: Largest number of forward and backward passes per image. An image whose next round
                might exceed it is not attacked further, counts as robust, and `result.notes` says how many
                there are. Defaults to `None`: no limit.
        """
        victim = as_victim(model)
        if known is None:
            x, y = checked_batch(x, y, victim.num_classes)
        ids = np.arange(len(x)) if ids is None else np.asarray(ids)
        task = driver.AttackTask(self, victim, x, y, ids, seed, batch_size, progress, max_passes)
        result = driver.run(task, state, known)
        result.notes = self.remarks(victim, result, max_passes)
        return result

    def compiled(self, victim: Victim, shape, which: str):
        """`attempt` or `craft`, compiled once for a victim and a shape of images, for any batch size."""
        functions = self._compiled.setdefault(victim, {})
        key = (which, tuple(shape[1:]))
        if key not in functions:
            images = tf.TensorSpec([None, *shape[1:]], tf.float32)
            labels, ids = tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.int64)
            further = [tf.TensorSpec([], tf.uint32)]
            if which == "attempt":
                further.append(tf.TensorSpec([None] if self.rounds_in_parallel else [], tf.int32))
            columns = self.memory_columns(victim)
            if which == "attempt" and columns:
                further.append(tf.TensorSpec([None, columns], tf.float32))
            # The function must not keep the victim alive: it is a key of a weak dictionary.
            method, reference = getattr(self, which), weakref.ref(victim)
            function = tf.function(lambda *args: method(reference(), *args), autograph=False)
            # Concrete, because TensorFlow warns of retracing when many attacks are compiled from one place.
            functions[key] = repeatable(function.get_concrete_function(images, labels, ids, *further))
        return functions[key]
