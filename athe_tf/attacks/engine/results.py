"""What an attack did: to one batch in one round, and to every image in all of them."""

import dataclasses
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf


class Attempt(NamedTuple):
    """The outcome of one round on one batch, as tensors; the fields of `AttackResult`."""

    x_adv: Any
    success: Any
    queries: Any
    gradients: Any
    norm: Any
    nonfinite: Any


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


@dataclasses.dataclass
class AttackResult:
    """What an attack did to each image.

    Attributes:
        x_adv: Adversarial images; where the attack failed, the clean image.
        success: Whether the attacker has what it wants, as it may have had from the start: a wrong
            prediction, or the target.
        queries: Forward passes that each image went through.
        gradients: Backward passes that each image went through.
        norm: Length of the perturbation; 0 where the clean image is misclassified, infinite where no
            adversarial image was found.
        nonfinite: Gradients of each image that had NaN or infinite entries, which were taken as zero.
        rounds: Rounds that each image went through: restarts, targets. An image that fell did so in the last.
        stages: The attacks that the rounds belong to.
        notes: What was noticed on the way, in words.
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

    @classmethod
    def before(cls, x, wrong) -> "AttackResult":
        """What is known after the clean pass: one query an image, success where the model is wrong."""
        count = len(x)
        return cls(
            x_adv=np.array(x, np.float32),
            success=np.array(wrong),
            queries=np.ones(count, np.int64),
            gradients=np.zeros(count, np.int64),
            norm=np.where(wrong, 0.0, np.inf).astype(np.float32),
            nonfinite=np.zeros(count, np.int64),
            rounds=np.zeros(count, np.int64),
        )

    def standing(self, round_index: int) -> np.ndarray:
        """The rows that are, or were, still robust when a round began."""
        return np.flatnonzero((self.rounds > round_index) | ~self.success)

    def robust_after(self, stage: Stage) -> np.ndarray:
        """Whether each image survived all stages up to this one."""
        return ~self.success | (self.rounds > stage.end)


def misclassified(logits, labels):
    """Whether the prediction differs from the label; logits that are not numbers are no prediction."""
    wrong = tf.argmax(logits, axis=-1, output_type=tf.int32) != tf.cast(labels, tf.int32)
    return tf.logical_or(wrong, tf.logical_not(tf.reduce_all(tf.math.is_finite(logits), axis=-1)))
