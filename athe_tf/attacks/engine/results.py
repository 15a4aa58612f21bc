"""Outcomes of attacks, of one round on one batch and of all rounds, and what is known before."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

# Arrays of a result with one number per image.
COUNTS = ("queries", "gradients", "nonfinite", "zero_gradients")
PER_IMAGE = ("success", "norm", "rounds", *COUNTS)


class RoundResult(NamedTuple):
    """What one round found on one batch, as tensors with one row per image.

    `Attack.round_result` makes one from what a loop leaves, its costs counted.

    Example:

    >>> RoundResult._fields[:2]
    ('x_adv', 'success')

    Attributes:
        x_adv: Images, adversarial where `success` is true.
        success: Whether the attack succeeded.
        queries: Forward passes of this round.
        gradients: Backward passes of this round.
        norm: Length of the perturbation, infinite where no adversarial image was found.
        nonfinite: Gradients with entries that are not finite.
        memory: What the image carries to later rounds, for attacks whose schedule has a memory.
        judged: Forward passes of the judge, if the model has another gradient source.
        zero_gradients: Gradients that were zero in all entries.
    """

    x_adv: Any
    success: Any
    queries: Any
    gradients: Any
    norm: Any
    nonfinite: Any
    memory: Any = None
    judged: Any = None
    zero_gradients: Any = None


class Costs(NamedTuple):
    """The passes of one round: what is counted, and the most that an image can take, in one place.

    Example:

    >>> Costs(steps=20, backward=1).most
    41

    Attributes:
        steps: The largest number of steps.
        forward: Forward passes of a step. Defaults to 1.
        backward: Backward passes of a step. Defaults to 0.
        before: Forward and backward passes before the first step. Defaults to none.
        after: The most forward passes after the last step. Defaults to 1: the last point is tested.
    """

    steps: int
    forward: int = 1
    backward: int = 0
    before: tuple[int, int] = (0, 0)
    after: int = 1

    @property
    def most(self) -> int:
        """The most passes that an image takes in a round."""
        return self.steps * (self.forward + self.backward) + sum(self.before) + self.after


@dataclasses.dataclass
class Stage:
    """An attack within a run: most attacks are one stage, AutoAttack is several.

    Attributes:
        name: The attack's name.
        first: Its first round, counted over all stages.
        rounds: How many rounds it has.
        seconds: How long they took.
    """

    name: str
    first: int
    rounds: int
    seconds: float = 0.0

    @property
    def end(self) -> int:
        """The first round of the next stage."""
        return self.first + self.rounds


class Overlaid:
    """Images that are not in memory, and the adversarial ones of some of them, which are."""

    def __init__(self, clean):
        self.clean, self.shape = clean, clean.shape
        self._found: dict[int, np.ndarray] = {}

    def __len__(self) -> int:
        return len(self.clean)

    def __getitem__(self, rows) -> np.ndarray:
        images = np.array(self.clean[rows], np.float32)
        for place, row in enumerate(np.arange(len(self))[rows]):
            images[place] = self._found.get(row, images[place])
        return images

    def __setitem__(self, rows, images) -> None:
        self._found.update(zip(np.arange(len(self))[rows].tolist(), np.array(images), strict=True))


@dataclasses.dataclass(repr=False)
class AttackResult:
    """The outcome of an attack for each image.

    Example:

    >>> AttackResult.before(np.zeros([4, 8, 8, 1]), wrong=[True, False, False, False])
    AttackResult(4 images, 1 misclassified, robust accuracy 75.0%, 4 queries, 0 gradients)

    Attributes:
        x_adv: Adversarial images; where the attack failed, the clean image.
        success: Whether the attack succeeded: a wrong prediction, also of the clean image, or the target.
        queries: Forward passes that each image went through.
        gradients: Backward passes that each image went through.
        norm: Length of the perturbation; 0 where the clean image is misclassified, infinite where no
            adversarial image was found.
        nonfinite: Gradients of each image that had NaN or infinite entries, which were taken as zero.
        rounds: Rounds that each image went through: restarts, targets. A success was found in the last.
        stages: The attacks that the rounds belong to.
        notes: Remarks on the model and the result, as sentences.
        memory: By stage, what each image carries from round to round; see `Schedule.memory_columns`. As
            `"judge"`, forward passes of the judge, if gradients came from another model.
        zero_gradients: Gradients of each image that were zero, and gave the attack no direction.
    """

    x_adv: np.ndarray
    success: np.ndarray
    queries: np.ndarray
    gradients: np.ndarray
    norm: np.ndarray
    nonfinite: np.ndarray
    rounds: np.ndarray
    stages: list[Stage] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    memory: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    zero_gradients: np.ndarray = None  # type: ignore[assignment]

    def __post_init__(self):
        if self.zero_gradients is None:
            self.zero_gradients = np.zeros_like(self.nonfinite)

    @classmethod
    def before(cls, x, wrong) -> "AttackResult":
        """The result after the clean pass: one query per image, success where the model is wrong."""
        count = len(wrong)
        norm = np.where(wrong, 0.0, np.inf).astype(np.float32)
        queries, gradients, nonfinite, rounds = np.ones(count, np.int64), *np.zeros((3, count), np.int64)
        x_adv: Any = np.array(x, np.float32) if isinstance(x, np.ndarray) else Overlaid(x)
        return cls(x_adv, np.array(wrong), queries, gradients, norm, nonfinite, rounds)

    def __repr__(self) -> str:
        return (
            f"AttackResult({len(self.success)} images, {int(self.success.sum())} misclassified, "
            f"robust accuracy {100 * (1 - self.success.mean()):.1f}%, {self.queries.sum()} queries, "
            f"{self.gradients.sum()} gradients)"
        )

    def part(self, rows: np.ndarray) -> "AttackResult":
        """A copy of the result for some of the images, without adversarial images."""
        return AttackResult(
            x_adv=self.x_adv[:0],
            **{name: getattr(self, name)[rows] for name in PER_IMAGE},
            stages=[dataclasses.replace(stage) for stage in self.stages],
            notes=list(self.notes),
            memory={name: memory[rows] for name, memory in self.memory.items()},
        )

    @property
    def found(self) -> np.ndarray:
        """The rows with an adversarial example; a clean image that is misclassified is none."""
        return np.flatnonzero(self.success & (self.norm > 0) & np.isfinite(self.norm))

    @property
    def gradient_faults(self) -> dict[str, int]:
        """How many images were attacked, and had a gradient that was zero, or not finite."""
        counts = {"attacked": self.rounds, "zero": self.zero_gradients, "nonfinite": self.nonfinite}
        return {name: int((count > 0).sum()) for name, count in counts.items()}

    @property
    def passes(self) -> np.ndarray:
        """Forward and backward passes that each image went through."""
        return self.queries + self.gradients

    def survivors(self, round_index: int) -> np.ndarray:
        """The rows that were still robust when a round began."""
        return np.flatnonzero((self.rounds > round_index) | ~self.success)

    def robust_after(self, stage: Stage) -> np.ndarray:
        """Whether each image survived all stages up to this one."""
        return ~self.success | (self.rounds > stage.end)


def misclassified(logits, labels):
    """Whether the prediction differs from the label; logits that are not finite count as wrong."""
    wrong = tf.argmax(logits, axis=-1, output_type=tf.int32) != tf.cast(labels, tf.int32)
    return tf.logical_or(wrong, tf.logical_not(tf.reduce_all(tf.math.is_finite(logits), axis=-1)))


@dataclasses.dataclass(frozen=True)
class Precomputed:
    """What is known about a model and its clean images before an attack.

    An evaluation finds these facts out once and hands them to the `run` of every attack, which then repeats
    neither the clean pass nor the checks of images and model. Queries are counted as if it did.

    Attributes:
        correct: Whether each image is classified correctly.
        deterministic: Whether the same images give the same logits in every pass.
        warnings: What the clean logits say against attacks on cross-entropy.
        model: The digest that identifies the model in a state file. Defaults to
            `None`: an attack with a state finds it out.
        zero_gradients: Returns the share of images at which the margin has a zero gradient.
        whole: Images and labels of the whole set that the attacked images are a part of, for attacks that
            draw from the set. Defaults to `None`: the attacked images are the whole set.
        checked: Which of the attacked images the checks of the model used. Defaults to `None`: the first
            batch.
        images: A digest of the whole set, if the attacked images are identified by that and their ids.
    """

    correct: np.ndarray
    deterministic: bool = True
    warnings: Sequence[str] = ()
    model: str | None = None
    zero_gradients: Callable[[], float] = float
    whole: tuple[np.ndarray, np.ndarray] | None = None
    checked: np.ndarray | None = None
    images: str | None = None
