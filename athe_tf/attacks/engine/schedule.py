"""How the rounds of an attack follow each other; cascades and attacks with special rounds have their own."""

from typing import TYPE_CHECKING, Any

import numpy as np

from athe_tf.attacks.engine.results import AttackResult, Precomputed
from athe_tf.models.victim import Victim

if TYPE_CHECKING:
    from athe_tf.attacks.engine.attack import Attack


class Schedule:
    """What a run asks about the rounds of an attack: here they are restarts, one after another.

    A subclass overrides the answers that differ.
    """

    #: Whether several rounds of an image can be in one batch: `run_round` then takes a round for each image.
    rounds_in_parallel = False

    def __init__(self, attack: "Attack"):
        self.attack: Any = attack

    def members(self, victim: Victim) -> "list[Attack]":
        """The attacks that `run` goes through, each on the survivors of the last."""
        return [self.attack]

    def eligible_images(self, member: "Attack", result: AttackResult) -> np.ndarray | None:
        """Which images go on to a member, given what earlier stages found; `None` for all."""
        return None

    def prepare(self, victim: Victim, x, y, batch_size: int) -> int:
        """Computes what is needed once from the whole set, before the first round.

        Returns the number of forward passes that every image took for it.
        """
        return 0

    def memory_columns(self, victim: Victim) -> int:
        """How many numbers an image carries from round to round.

        With a memory, `run_round` gets it as one more argument, a float32 tensor `[n, columns]` that starts
        as infinity, and returns what it found in `RoundResult.memory`: the smaller numbers are kept. It is
        part of the state file.
        """
        return 0

    def independent_rounds(self, victim: Victim, round_index: int) -> int:
        """Number of consecutive rounds, starting with this one, that are independent of each other.

        Such rounds share batches where few images are left. If rounds can be in parallel, all that are left.
        """
        return self.attack.rounds(victim) - round_index if self.rounds_in_parallel else 1

    def eligible(self, victim: Victim, round_index: int, memory: np.ndarray) -> np.ndarray | None:
        """Which images need a round, given their memory; `None` for all.

        A round must not change the answer for itself, nor for rounds that are independent of it, so that a
        resumed run forms the same batches.
        """
        return None

    def craft_rounds(self, victim: Victim) -> int:
        """How many rounds `craft` has; by default all."""
        return self.attack.rounds(victim)

    def craft_passes(self, victim: Victim) -> float:
        """About how many passes `craft` takes for an image that withstands it, for estimates of time."""
        return self.attack.rounds(victim) * self.attack.round_passes(victim)

    #: Forward and backward passes of `check_model` per image of its batch.
    check_passes = (0, 0)

    def check_model(self, victim: Victim, x, y, precomputed: Precomputed | None = None) -> list[str]:
        """Warnings about a model, from a batch of images."""
        return []

    def remarks(self, victim: Victim, result: AttackResult, told: list[str]) -> list[str]:
        """What a reader must know about a result on all images: what is `told` anyway, and more."""
        return told
