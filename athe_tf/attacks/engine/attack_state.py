"""The result of an unfinished attack on disk, after every batch."""

import time
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
# How many parts of the journal are older than it, and the mark of its parts; and, in the oldest states, a
# checksum per image of their one file.
PARTS, MARK, CHECKSUMS = "parts", "mark", "checksums"
# The array with a number per stage, while all others have a row per image.
SECONDS = "seconds"


class AttackState:
    """Keeps the result of an attack in a journal, and reads it back after an interruption.

    After every batch, what has changed is written as a part of the journal, with the adversarial images of
    that batch. The journal itself, with all images' numbers, is written again when its parts have become as
    long: so what is written grows with what is attacked. `result` is the result before the attack; `restore`
    updates it.
    """

    def __init__(self, journal: Journal, result: AttackResult):
        self.journal, self.result = journal, result
        self.parts = self.changed = 0
        # What is on disk, and a mark of its parts: those of an earlier start do not count.
        self.known: dict[str, np.ndarray] = {}
        self.mark = np.array(time.time_ns())

    def restore(self) -> None:
        """Continues where an earlier run was interrupted, if there was one.

        If the images that were found are missing or damaged, the attack starts again, with a warning.
        """
        arrays = self.journal.load(expected_arrays(self.result))
        if arrays is None:
            return
        older = {CHECKSUMS: Expected(self.result.success.shape, "u")}
        most = len(self.result.success) * sum(stage.rounds for stage in self.result.stages)
        current = {PARTS: Expected((), "i", low=0, high=most)}
        self.journal.check(arrays, older if CHECKSUMS in arrays else current)
        try:
            if CHECKSUMS in arrays:
                rows = np.flatnonzero(arrays["success"] & (arrays["rounds"] > 0))
                images = self._images_of_older(rows, arrays[CHECKSUMS])
            else:
                rows, images = self._replay(arrays)
        except (InputError, OSError, EOFError, KeyError, TypeError, ValueError, IndexError):
            warnings.warn(
                f"The adversarial images beside '{self.journal.path}' are missing or damaged: this attack "
                "starts again.",
                stacklevel=2,
            )
            return
        fill(self.result, arrays)
        self.result.x_adv[rows] = images
        if CHECKSUMS in arrays:
            self.save(rows)

    def save(self, solved: np.ndarray) -> None:
        """Saves what a batch has changed that succeeded at the rows `solved`."""
        now, count = result_arrays(self.result), len(self.result.success)
        rows = np.arange(count)
        if self.known:
            differ = [now[name] != self.known[name] for name in now if name != SECONDS]
            rows = np.flatnonzero(np.any([each.reshape(count, -1).any(axis=1) for each in differ], axis=0))
        changes = {name: array if name == SECONDS else array[rows] for name, array in now.items()}
        images = {"rows": solved, "images": self.result.x_adv[solved], "changed": rows, MARK: self.mark}
        self.journal.part(self.parts).save({**images, **changes})
        self.parts += 1
        self.changed += len(rows)
        if self.changed >= count:
            self.journal.save({**now, PARTS: np.array(self.parts), MARK: self.mark})
            self.changed = 0
        self.known = {name: array.copy() for name, array in now.items()}

    def _replay(self, arrays: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Adds what later parts have changed to `arrays`; the rows and images of all parts.

        Raises an error unless these are the rows that the attack has solved.
        """
        whole, mark = int(arrays[PARTS]), arrays.get(MARK)
        found: list[dict] = []
        while (part := self.journal.part(len(found)).load()) is not None:
            if len(found) >= whole:
                if mark is None or part.get(MARK) != mark:
                    break
                for name in arrays.keys() - {PARTS, MARK}:
                    arrays[name][... if name == SECONDS else part["changed"]] = part[name]
            found.append(part)
        check(len(found) >= whole, "a part is missing")
        empty = np.zeros((0, *self.result.x_adv.shape[1:]), np.float32)
        rows = np.concatenate([np.zeros(0, int), *(part["rows"] for part in found)], dtype=int)
        images = np.concatenate([empty, *(part["images"] for part in found)], dtype=np.float32)
        expected = np.flatnonzero(arrays["success"] & (arrays["rounds"] > 0))
        check(np.array_equal(np.sort(rows), expected) and len(images) == len(rows), "other images")
        self.parts = len(found)
        if mark is not None:
            self.mark = mark
            self.known = {name: array.copy() for name, array in arrays.items() if name not in (PARTS, MARK)}
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
        SECONDS: np.array([stage.seconds for stage in result.stages]),
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
        SECONDS: Expected((len(result.stages),), "f", low=0),
    }


def fill(result: AttackResult, arrays: Mapping[str, np.ndarray]) -> None:
    """Puts the arrays of a state file into a result."""
    for name in PER_IMAGE:
        getattr(result, name)[:] = arrays[name]
    for name, memory in result.memory.items():
        memory[:] = arrays[MEMORY + name]
    for stage, seconds in zip(result.stages, arrays[SECONDS], strict=True):
        stage.seconds = float(seconds)
