"""Arrays on disk that belong to a job: it may be killed at any moment and resumes from there.

A journal as in journaling file systems: every finished batch is on record before the next one starts. The
file is an `.npz` that is replaced as a whole after every batch, so it is never half written. What is too
large to be written again and again is beside it in parts, each of which is written once.

Beside what is on disk is its identity: a flat dictionary of JSON values, from the name of everything that a
result depends on to its value or digest. `differences` alone decides whether two are of the same job.
"""

import dataclasses
import itertools
import json
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from athe_tf.jobs.ownership import IMAGES, STATE_FORMAT
from athe_tf.utils.errors import InputError
from athe_tf.utils.files import replacing
from athe_tf.version import __version__

# The version of state files.
_FORMAT = 2
_KINDS = {
    "b": "flags",
    "i": "integers",
    "u": "unsigned integers",
    "f": "floating-point numbers",
    "U": "texts",
}


@dataclasses.dataclass(frozen=True)
class Expected:
    """What an array of a state file must be.

    Attributes:
        shape: Its shape.
        kinds: Letters of NumPy: `"b"` for flags, `"i"` and `"u"` for integers, `"f"` for other numbers, `"U"`
            for texts.
        low: Its values are at least this.
        high: Its values are at most this.
        added: The array is missing in files of older versions, and zero then.
    """

    shape: tuple[int, ...]
    kinds: str
    low: float | None = None
    high: float | None = None
    added: bool = False

    def __str__(self) -> str:
        ends = (("from", self.low), ("to", self.high))
        bounds = [f"{word} {end}" for word, end in ends if end is not None]
        return " ".join([f"{_KINDS[self.kinds]} of shape {self.shape}", *bounds])

    def fits(self, array: np.ndarray) -> bool:
        """Whether an array is as expected; NaN has no order, and is accepted."""
        if array.shape != self.shape or array.dtype.kind not in self.kinds:
            return False
        low, high = self.low, self.high
        return not ((low is not None and (array < low).any()) or (high is not None and (array > high).any()))


class Journal:
    """A file with arrays, and what they belong to.

    Args:
        path: The file.
        identity: What they belong to: model, attack, settings, seed, images. Text and numbers only. The
            version of athe_tf is added.
    """

    def __init__(self, path, identity: dict):
        self.path = pathlib.Path(path)
        self.identity = as_json({**identity, "athe_tf": __version__})

    def load(self, expected: Mapping[str, Expected] | None = None) -> dict[str, np.ndarray] | None:
        """The arrays of the last `save`; `None` if there is no file yet.

        Args:
            expected: Raise `InputError` unless these arrays are there, and are as described.
        """
        if not self.path.exists():
            return None
        try:
            arrays = read_arrays(self.path)
            identity = json.loads(str(arrays.pop("identity")))
            arrays.pop(STATE_FORMAT)
            if not isinstance(identity, dict):
                raise ValueError("it does not say what it belongs to")
        except Exception as error:
            raise self.damaged(str(error)) from error
        changed = differences(self.identity, identity, "{name}={ours} (in the file: {stored})")
        if changed:
            raise InputError(
                f"The state file '{self.path}' belongs to another evaluation. "
                f"Received: {'; '.join(changed)}. Use another file, or remove it to start again."
            )
        self.check(arrays, expected or {})
        return arrays

    def check(self, arrays: dict[str, np.ndarray], expected: Mapping[str, Expected]) -> None:
        """Raises `InputError` unless the arrays of the file are as described."""
        for name, wanted in expected.items():
            if wanted.added:
                arrays.setdefault(name, np.zeros(wanted.shape, wanted.kinds[0]))
            found = arrays.get(name)
            if found is None or not wanted.fits(found):
                received = "none" if found is None else f"{found.dtype} of shape {found.shape}"
                raise self.damaged(f"expected {wanted} in the array `{name}`, received {received}")

    def save(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Replaces the file, all or nothing."""
        marks = {"identity": np.array(json.dumps(self.identity)), STATE_FORMAT: np.array(_FORMAT)}
        try:
            write_arrays(self.path, {**arrays, **marks})
        except OSError as error:
            raise InputError(
                f"Cannot keep the state in '{self.path.parent}': {error.strerror or error}. Make room there, "
                "or use another folder. What was saved before is still there."
            ) from error

    def part(self, number: int) -> "Journal":
        """A file beside this one with something that is written once; numbered from 0."""
        return Journal(self.path.with_name(f"{self.path.name}.part{number}"), self.identity)

    def remove(self) -> None:
        """Removes the file and its parts."""
        self.path.unlink(missing_ok=True)
        self.path.with_name(self.path.name + IMAGES).unlink(missing_ok=True)
        for number in itertools.count():
            part = self.part(number).path
            if not part.exists():
                return
            part.unlink()

    def damaged(self, problem: str) -> InputError:
        """The error of a file that cannot be used."""
        return InputError(
            f"The state file '{self.path}' cannot be read: {problem.rstrip('.')}. Remove it to start again."
        )


def write_arrays(path, arrays: Mapping[str, Any]) -> None:
    """Writes an `.npz` file atomically."""
    with replacing(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, **arrays)


def read_arrays(path) -> dict[str, np.ndarray]:
    """All arrays of an `.npz` file; without pickles, which can execute code."""
    with np.load(path, allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


def as_json(identity: Mapping[str, Any]) -> dict[str, Any]:
    """An identity as it is read back from a file."""
    return json.loads(json.dumps(identity, default=str))


def same_job(ours: Mapping[str, Any] | None, stored: Any) -> bool:
    """Whether what is on disk belongs to this job; `None` is unknown, and the same as nothing."""
    return ours is not None and isinstance(stored, dict) and not differences(as_json(ours), stored)


def differences(
    ours: Mapping, stored: Mapping, entry: str = "{name}={ours} (there: {stored})", show: Callable = repr
) -> list[str]:
    """The entries in which two identities differ, as text; empty if they are of the same job.

    Example:

    >>> differences({"seed": 1, "norm": "l2"}, {"seed": 0, "norm": "l2"})
    ['seed=1 (there: 0)']

    Args:
        ours: The identity of this job.
        stored: That of what is on disk.
        entry: How a difference is written, with `name`, `ours` and `stored`.
        show: From a value, or `None` for one that is missing, to text.
    """
    names = [*stored, *(name for name in ours if name not in stored)]
    return [
        entry.format(name=name, ours=show(ours.get(name)), stored=show(stored.get(name)))
        for name in names
        if ours.get(name) != stored.get(name)
    ]
