"""The state of a long attack in a file: a run may be killed at any moment and resumes from there.

A journal as in journaling file systems: every finished batch is on record before the next one starts. The
file is an `.npz` that is replaced as a whole after every batch, so it is never half written. The
adversarial images are beside it in `<name>.images.npy`, which has room for every image.
"""

import contextlib
import dataclasses
import json
import pathlib
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from athe_tf.attacks.engine.image_file import ImageFile
from athe_tf.utils.errors import InputError
from athe_tf.utils.files import replacing
from athe_tf.utils.ownership import IMAGES, STATE_FORMAT
from athe_tf.version import __version__

# The version of state files.
FORMAT = 2


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
    """

    shape: tuple[int, ...]
    kinds: str
    low: float | None = None
    high: float | None = None

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
    """The state of one attack on one set of images and one model.

    Args:
        path: The file.
        identity: What the state belongs to: model, attack, settings, seed, images. Text and numbers only. The
            version of athe_tf is added.
    """

    def __init__(self, path, identity: dict):
        self.path = pathlib.Path(path)
        self.images_path = self.path.with_name(self.path.name + IMAGES)
        self.identity = json.loads(json.dumps({**identity, "athe_tf": __version__}, default=str))

    def load(self, expected: Mapping[str, Expected] | None = None) -> dict[str, np.ndarray] | None:
        """The arrays of the last `save`; `None` if there is no file yet.

        Args:
            expected: Raise `InputError` unless these arrays are there, and are as described.
        """
        if not self.path.exists():
            return None
        try:
            with np.load(self.path, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
            identity = json.loads(str(arrays.pop("identity")))
            arrays.pop(STATE_FORMAT)
            if not isinstance(identity, dict):
                raise ValueError("it does not say what it belongs to")
        except Exception as error:
            raise self.damaged(str(error)) from error
        self._check_identity(identity)
        self.check(arrays, expected or {})
        return arrays

    def check(self, arrays: dict[str, np.ndarray], expected: Mapping[str, Expected]) -> None:
        """Raises `InputError` unless the arrays of the file are as described."""
        for name, wanted in expected.items():
            found = arrays.get(name)
            if found is None or not wanted.fits(found):
                received = "none" if found is None else f"{found.dtype} of shape {found.shape}"
                raise self.damaged(f"expected {wanted} in the array `{name}`, received {received}")

    def save(self, arrays: dict[str, np.ndarray]) -> None:
        """Replaces the file, all or nothing."""
        whole: dict[str, Any] = dict(arrays)
        whole["identity"] = np.array(json.dumps(self.identity))
        whole[STATE_FORMAT] = np.array(FORMAT)
        with self._writing(), replacing(self.path) as temporary, open(temporary, "wb") as file:
            np.savez(file, **whole)

    def load_images(self, into: np.ndarray, rows: np.ndarray, checksums: np.ndarray) -> bool:
        """Puts the adversarial images of the rows into an array of all images.

        Returns:
            Whether they are all there, as they were saved; otherwise nothing is changed.
        """
        if not len(rows):
            return True
        file = ImageFile(self.images_path, into.shape)
        if not file.is_complete():
            return False
        images = file.read(rows)
        if not np.array_equal(checksums_of(images), checksums[rows]):
            return False
        into[rows] = images
        return True

    def save_images(self, images: np.ndarray, rows: np.ndarray) -> None:
        """Writes those rows of an array of all images; before `save`, which makes them count."""
        if len(rows):
            with self._writing():
                ImageFile(self.images_path, images.shape).write(images, rows)

    def damaged(self, problem: str) -> InputError:
        """The error of a file that cannot be used."""
        return InputError(
            f"The state file '{self.path}' cannot be read: {problem.rstrip('.')}. Remove it to start again."
        )

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise InputError(
                f"Cannot keep the state in '{self.path.parent}': {error.strerror or error}. Make room there, "
                "or use another folder. What was saved before is still there."
            ) from error

    def _check_identity(self, identity: dict) -> None:
        changed = [
            f"{name}={self.identity.get(name)!r} (in the file: {identity.get(name)!r})"
            for name in sorted(identity.keys() | self.identity.keys())
            if identity.get(name) != self.identity.get(name)
        ]
        if changed:
            raise InputError(
                f"The state file '{self.path}' belongs to another evaluation. "
                f"Received: {'; '.join(changed)}. Use another file, or remove it to start again."
            )


def checksums_of(images: np.ndarray) -> np.ndarray:
    """One checksum per image."""
    images = np.ascontiguousarray(images, np.float32)
    return np.array([zlib.crc32(image.data) for image in images], np.uint32)
