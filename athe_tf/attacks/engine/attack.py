"""The contract of an attack."""

import weakref
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from athe_tf.attacks.engine import driver
from athe_tf.attacks.engine.parallel import craft_in_lanes
from athe_tf.attacks.engine.results import AttackResult, Attempt, misclassified
from athe_tf.attacks.engine.victim import Victim, attack_dtype, victim
from athe_tf.threat import per_example, threat_model
from athe_tf.utils import rng
from athe_tf.utils.errors import InputError, check
from athe_tf.utils.keras_compat import repeatable


class Attack:
    """Finds, inside a threat model, an image that a model gets wrong.

    Calling an attack gives adversarial images, as training wants them:

    >>> attack = athe_tf.attacks.get("pgd-20", epsilon=8 / 255)
    >>> x_adv = attack(model, x, y)

    `run` gives evaluation what it wants: who fell, at what cost and distance:

    >>> result = attack.run(model, x, y)
    >>> robust_accuracy = 1 - result.success.mean()

    A subclass says what one *round* does to one batch in `attempt`. Rounds are whatever an attack repeats
    until it succeeds: restarts, targets. Between rounds `run` gathers the survivors of the whole set into
    full batches. Where training wants another point than evaluation, a subclass overrides `craft` too.

    Random numbers are pure functions of (seed, example id), so that neither the batch size nor the number
    of replicas changes them. Attacks are not changed after they were made.

    Args:
        epsilon: Radius of the threat model, in pixels of [0, 1].
        norm: `"linf"`, `"l2"` or `"l1"`. Defaults to `"linf"`.
        targeted: Whether the labels are classes to reach instead of classes to leave. Only attacks that
            offer the argument can be targeted. Defaults to `False`.
    """

    name = "attack"
    #: Whether what it returns lies in the ball of its threat model.
    in_ball = True
    norms: tuple[str, ...] = ("linf", "l2", "l1")

    def __init__(self, epsilon, norm: str = "linf", targeted: bool = False):
        self.threat = threat_model(norm, epsilon)
        self.targeted = targeted
        if norm not in self.norms:
            raise InputError(
                f"The attack '{self.name}' exists in {', '.join(self.norms)} only. Received: norm={norm!r}."
            )
        self._compiled: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()

    # -- for subclasses ---------------------------------------------------------------------------------

    def rounds(self, victim: Victim) -> int:
        """How many rounds there are at most."""
        return 1

    def attempt(self, victim: Victim, x, y, ids, seed, round_index) -> Attempt:
        """One round on one batch of images that are correctly classified; graph code."""
        raise NotImplementedError

    def craft(self, victim: Victim, x, y, ids, seed):
        """Adversarial images for training; graph code. By default, those of all rounds one after another."""
        best, fallen = x, tf.zeros(tf.shape(x)[:1], tf.bool)
        for round_index in range(self.rounds(victim)):
            attempt = self.attempt(victim, x, y, ids, seed, round_index)
            chosen = tf.logical_and(attempt.success, tf.logical_not(fallen))
            best = tf.where(per_example(chosen), attempt.x_adv, best)
            fallen = tf.logical_or(fallen, attempt.success)
        return best

    def check_victim(self, victim: Victim) -> None:
        """Raises `NotApplicable` or `InputError` when this attack cannot be run on this victim."""

    def prepare(self, victim: Victim, x, y, batch_size: int) -> int:
        """What is computed once from the whole set before the first round.

        Returns how many forward passes it took of every image; none by default.
        """
        return 0

    def settings(self) -> dict:
        """What a report says about how the attack was run."""
        settings = {"norm": self.threat.norm, "epsilon": self.threat.epsilon}
        return settings | {"targeted": True} if self.targeted else settings

    # -- what subclasses use ----------------------------------------------------------------------------

    @property
    def aim(self) -> float:
        """The sign of a loss that is maximised: away from the label, or towards it."""
        return -1.0 if self.targeted else 1.0

    def succeeded(self, logits, y):
        """Whether the attacker has what it wants: another class than the label, or the target."""
        wrong = misclassified(logits, y)
        return tf.logical_not(wrong) if self.targeted else wrong

    def cascade(self, victim: Victim) -> "list[Attack]":
        """The attacks that `run` goes through one after another, each on the survivors; most are one."""
        return [self]

    def round_passes(self, victim: Victim) -> float:
        """Passes of the network that an image takes in one round at most, for estimates of time."""
        return 2.0 * (getattr(self, "steps", None) or 1) + 1.0

    # -- for everybody ----------------------------------------------------------------------------------

    def __call__(self, model, x, y, ids=None, seed=0):
        """Adversarial images for a batch.

        Args:
            model: A `Victim`, or anything that `athe_tf.victim` takes.
            x: Images `[N, H, W, C]` in [0, 1].
            y: Integer labels `[N]`; the targets when the attack is targeted.
            ids: Integers that name the examples; their positions by default.
            seed: Integer.
        """
        target = victim(model)
        if not tf.inside_function():
            x, y = checked_batch(x, y, target.num_classes)
        x = tf.convert_to_tensor(x, attack_dtype(x))
        y = tf.cast(tf.convert_to_tensor(y), tf.int32)
        ids = tf.range(tf.shape(x)[0]) if ids is None else ids
        seed = rng.fold(seed)
        if tf.inside_function():
            if not target.independent:
                return self.craft(target, x, y, ids, seed)
            return craft_in_lanes(lambda a, b, c: self.craft(target, a, b, c, seed), x, y, ids)
        self.check_victim(target)
        self.prepare(target, x, y, batch_size=len(x))
        return self.compiled(target, x.shape, "craft")(x, y, _ids(ids), seed)

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
    ) -> AttackResult:
        """Attacks a set of images and tells what became of each.

        Args:
            model: A `Victim`, or anything that `athe_tf.victim` takes.
            x: Images `[N, H, W, C]` in [0, 1].
            y: Integer labels `[N]`; the targets when the attack is targeted.
            ids: Integers that name the examples; their positions by default.
            seed: Integer.
            batch_size: How many images go through the model at once.
            progress: Called after every batch with `(passes of the network done, passes in all if no
                further image falls, images still robust)`.
            state: Path of a file that keeps the state after every batch. The same call, made again after an
                interruption, goes on from there and ends with the same result.
        """
        target = victim(model)
        x, y = checked_batch(x, y, target.num_classes)
        ids = np.arange(len(x)) if ids is None else np.asarray(ids)
        return driver.run(driver.Task(self, target, x, y, ids, seed, batch_size, progress), state)

    def compiled(self, target: Victim, shape, which: str):
        """`attempt` or `craft`, compiled once for a victim and images of a shape, whatever their number."""
        functions = self._compiled.setdefault(target, {})
        key = (which, tuple(shape[1:]))
        if key not in functions:
            images = tf.TensorSpec([None, *shape[1:]], tf.float32)
            labels, ids = tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.int64)
            scalars = [tf.TensorSpec([], tf.uint32)]
            if which == "attempt":
                scalars.append(tf.TensorSpec([], tf.int32))
            # The function must not keep the victim alive: it is a key of a weak dictionary.
            method, reference = getattr(self, which), weakref.ref(target)
            function = tf.function(lambda *args: method(reference(), *args), autograph=False)
            # Concrete, because TensorFlow warns of retracing when many attacks are compiled from one place.
            functions[key] = repeatable(function.get_concrete_function(images, labels, ids, *scalars))
        return functions[key]


def _ids(ids):
    return tf.cast(tf.convert_to_tensor(ids), tf.int64)


def checked_batch(x, y, classes: int | None = None):
    """Images and labels as float32 and int32 arrays, or an `InputError` that says what is wrong."""
    x, y = np.asarray(x), np.asarray(y)
    check(x.ndim == 4, f"Images must have shape [N, height, width, channels]. Received: shape={x.shape}.")
    check(len(x) > 0, "There are no images: the batch is empty.")
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    check(
        y.shape == (len(x),) and np.issubdtype(y.dtype, np.integer),
        f"Labels must be integers of shape [{len(x)}], one an image. "
        f"Received: shape={y.shape}, dtype={y.dtype}.",
    )
    low, high = float(x.min()), float(x.max())
    check(
        low >= -1e-6 and high <= 1 + 1e-6,  # false for NaN too
        f"Images must lie in [0, 1] before an attack. Received: min={low:.3g}, max={high:.3g}. "
        "Put the normalisation inside the model: athe_tf.models does it for you.",
    )
    bound = "" if classes is None else str(classes)
    check(
        y.min() >= 0 and (classes is None or y.max() < classes),
        f"Labels must lie in [0, {bound}). Received: min={y.min()}, max={y.max()}.",
    )
    return np.clip(x, 0.0, 1.0).astype(np.float32), y.astype(np.int32)
