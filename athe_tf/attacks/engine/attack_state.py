"""The result of an unfinished attack on disk, after every batch."""

import warnings
from collections.abc import Mapping

import numpy as np

from athe_tf.attacks.engine.journal import Expected, Journal, checksums_of
from athe_tf.attacks.engine.results import COUNTS, PER_IMAGE, AttackResult

# Prefix of the arrays with what attacks remember of each image from round to round.
MEMORY = "memory of "


class AttackState:
    """Keeps the result of an attack in a journal, and reads it back after an interruption.

    Args:
        journal: The journal.
        result: The result before the attack; updated by `restore`, and saved by `save`.
    """

    def __init__(self, journal: Journal, result: AttackResult):
        self.journal, self.result = journal, result
        self.checksums = np.zeros(len(result.success), np.uint32)

    def restore(self) -> None:
        """Continues where an earlier run was interrupted, if there was one.

        If the images that were found are missing or damaged, the attack starts again, with a warning.
        """
        arrays = self.journal.load(self._expected())
        if arrays is None:
            return
        rows = np.flatnonzero(arrays["success"] & (arrays["rounds"] > 0))
        if not self.journal.load_images(self.result.x_adv, rows, arrays["checksums"]):
            warnings.warn(
                f"The adversarial images in '{self.journal.images_path}' are missing or damaged: this attack "
                "starts again.",
                stacklevel=2,
            )
            return
        fill(self.result, arrays)
        self.checksums[:] = arrays["checksums"]

    def save(self, solved: np.ndarray) -> None:
        """Saves the result after a batch that succeeded at the rows `solved`."""
        self.journal.save_images(self.result.x_adv, solved)
        self.checksums[solved] = checksums_of(self.result.x_adv[solved])
        self.journal.save({**result_arrays(self.result), "checksums": self.checksums})

    def _expected(self) -> dict[str, Expected]:
        return {**expected_arrays(self.result), "checksums": Expected(self.result.success.shape, "u")}


def result_arrays(result: AttackResult) -> dict[str, np.ndarray]:
    """A result as the arrays of a state file, without its images."""
    return {
        **{name: getattr(result, name) for name in PER_IMAGE},
        **{MEMORY + name: memory for name, memory in result.memory.items()},
        "seconds": np.array([stage.seconds for stage in result.stages]),
    }


def expected_arrays(result: AttackResult) -> dict[str, Expected]:
    """What the arrays of a result with the same stages and as many images must be."""
    images, rounds = result.success.shape, sum(stage.rounds for stage in result.stages)
    return {
        "success": Expected(images, "b"),
        "norm": Expected(images, "f", low=0),
        "rounds": Expected(images, "i", low=0, high=rounds),
        **{name: Expected(images, "i", low=0) for name in COUNTS},
        **{MEMORY + name: Expected(memory.shape, "f") for name, memory in result.memory.items()},
        "seconds": Expected((len(result.stages),), "f", low=0),
    }


def fill(result: AttackResult, arrays: Mapping[str, np.ndarray]) -> None:
    """Puts the arrays of a state file into a result."""
    for name in PER_IMAGE:
        getattr(result, name)[:] = arrays[name]
    for name, memory in result.memory.items():
        memory[:] = arrays[MEMORY + name]
    for stage, seconds in zip(result.stages, arrays["seconds"], strict=True):
        stage.seconds = float(seconds)
