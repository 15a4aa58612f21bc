"""The result of an unfinished attack on disk, after every batch."""

import warnings
import zlib
from collections.abc import Mapping

import numpy as np

from athe_tf.attacks.engine.results import COUNTS, PER_IMAGE, AttackResult
from athe_tf.jobs.journal import Expected, Journal
from athe_tf.jobs.ownership import IMAGES
from athe_tf.utils.errors import InputError, check

# Prefix of the arrays with what attacks remember of each image from round to round.
MEMORY = "memory of "
# How many parts of the journal count; and, in older states, a checksum per image of their one file.
PARTS, CHECKSUMS = "parts", "checksums"


class AttackState:
    """Keeps the result of an attack in a journal, and reads it back after an interruption.

    The adversarial images of each batch are a part of the journal. `result` is the result before the attack;
    `restore` updates it.
    """

    def __init__(self, journal: Journal, result: AttackResult):
        self.journal, self.result = journal, result
        self.parts = 0

    def restore(self) -> None:
        """Continues where an earlier run was interrupted, if there was one.

        If the images that were found are missing or damaged, the attack starts again, with a warning.
        """
        arrays = self.journal.load(expected_arrays(self.result))
        if arrays is None:
            return
        older = {CHECKSUMS: Expected(self.result.success.shape, "u")}
        current = {PARTS: Expected((), "i", low=0, high=len(self.result.success))}
        self.journal.check(arrays, older if CHECKSUMS in arrays else current)
        rows = np.flatnonzero(arrays["success"] & (arrays["rounds"] > 0))
        try:
            if CHECKSUMS in arrays:
                images = self._images_of_older(rows, arrays[CHECKSUMS])
            else:
                rows, images = self._images(rows, int(arrays[PARTS]))
        except (InputError, OSError, EOFError, KeyError, TypeError, ValueError):
            warnings.warn(
                f"The adversarial images beside '{self.journal.path}' are missing or damaged: this attack "
                "starts again.",
                stacklevel=2,
            )
            return
        fill(self.result, arrays)
        self.result.x_adv[rows] = images
        if CHECKSUMS in arrays:
            self._save_images(rows)
        else:
            self.parts = int(arrays[PARTS])

    def save(self, solved: np.ndarray) -> None:
        """Saves the result after a batch that succeeded at the rows `solved`."""
        self._save_images(solved)
        self.journal.save({**result_arrays(self.result), PARTS: np.array(self.parts)})

    def _save_images(self, rows: np.ndarray) -> None:
        """Writes a part with the images of these rows; it counts after the next `save` of the journal."""
        if len(rows):
            self.journal.part(self.parts).save({"rows": rows, "images": self.result.x_adv[rows]})
            self.parts += 1

    def _images(self, expected: np.ndarray, parts: int) -> tuple[np.ndarray, np.ndarray]:
        """The rows and images of all parts; raises an error unless they are the expected rows."""
        found = [self.journal.part(number).load() or {} for number in range(parts)]
        empty = np.zeros((0, *self.result.x_adv.shape[1:]), np.float32)
        rows = np.concatenate([np.zeros(0, int), *(part["rows"] for part in found)], dtype=int)
        images = np.concatenate([empty, *(part["images"] for part in found)], dtype=np.float32)
        check(np.array_equal(np.sort(rows), expected) and len(images) == len(rows), "other images")
        return rows, images

    def _images_of_older(self, rows: np.ndarray, checksums: np.ndarray) -> np.ndarray:
        """The images of a state that has them in one file with room for all images."""
        path = self.journal.path.with_name(self.journal.path.name + IMAGES)
        stored = np.load(path, mmap_mode="r", allow_pickle=False) if len(rows) else self.result.x_adv
        images = np.ascontiguousarray(stored[rows]) if stored.shape == self.result.x_adv.shape else ()
        check([zlib.crc32(image.data) for image in images] == checksums[rows].tolist(), "other images")
        return np.asarray(images)


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
        **{name: Expected(images, "i", low=0, added=name == "zero_gradients") for name in COUNTS},
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
