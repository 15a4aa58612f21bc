"""The state of a long attack in a file: a run may be killed at any moment and resumes from there.

A journal as in journaling file systems: every finished batch is on record before the next one starts. The
file is an `.npz` that is replaced as a whole after every batch, so it is never half written. The
adversarial images are beside it in `<name>.images.npy`, a sparse file with room for every image.
"""

import hashlib
import json
import pathlib
from typing import Any, Literal

import numpy as np

from athe_tf.utils.errors import InputError
from athe_tf.utils.files import replacing

# Images whose clean logits identify a model.
PROBES = 64
# Batch sizes and processors change logits in the last digits; another model changes more than this.
TOLERANCE = 1e-3


def fingerprint(*arrays) -> str:
    """A short digest of arrays."""
    digest = hashlib.sha256()
    for array in arrays:
        array = np.ascontiguousarray(array)
        digest.update(f"{array.dtype} {array.shape}".encode())
        digest.update(array.data)
    return digest.hexdigest()[:16]


def same_logits(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two passes of the same images may be of one model, up to rounding."""
    spread = TOLERANCE * max(float(np.abs(a).max()), 1e-6)
    return np.allclose(a, b, rtol=0, atol=spread, equal_nan=True)


class Journal:
    """The state of one attack on one set of images and one model.

    Args:
        path: The file.
        identity: What the state belongs to: attack, settings, seed, images. Text and numbers only.
        logits: The clean logits of the first images, which identify the model; `None` for a randomized model.
    """

    def __init__(self, path, identity: dict, logits=None):
        self.path = pathlib.Path(path)
        self.images_path = self.path.with_name(self.path.name + ".images.npy")
        self.identity = json.loads(json.dumps(identity, default=str))
        self.logits = None if logits is None else np.asarray(logits[:PROBES], np.float32)

    def load(self) -> dict[str, np.ndarray] | None:
        """The arrays of the last `save`; `None` if there is no file yet."""
        if not self.path.exists():
            return None
        try:
            with np.load(self.path, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
            identity, logits = json.loads(str(arrays.pop("identity"))), arrays.pop("logits")
        except Exception as error:
            raise InputError(
                f"The state file '{self.path}' cannot be read: {error}. Remove it to start again."
            ) from error
        self._check(identity, logits)
        return arrays

    def save(self, arrays: dict[str, np.ndarray]) -> None:
        """Replaces the file, all or nothing."""
        whole: dict[str, Any] = dict(arrays)
        whole["identity"] = np.array(json.dumps(self.identity))
        whole["logits"] = np.zeros(0, np.float32) if self.logits is None else self.logits
        with replacing(self.path) as temporary, open(temporary, "wb") as file:
            np.savez(file, **whole)

    def load_images(self, into: np.ndarray, rows: np.ndarray) -> None:
        """Puts the adversarial images of the rows into an array of all images."""
        if len(rows):
            into[rows] = np.lib.format.open_memmap(self.images_path, mode="r")[rows]

    def save_images(self, images: np.ndarray, rows: np.ndarray) -> None:
        """Writes those rows of an array of all images; before `save`, which makes them count."""
        if not len(rows):
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        mode: Literal["r+", "w+"] = "r+" if self.images_path.exists() else "w+"
        kept = np.lib.format.open_memmap(self.images_path, mode, np.float32, images.shape)
        kept[rows] = images[rows]
        kept.flush()

    def _check(self, identity: dict, logits: np.ndarray) -> None:
        changed = [
            f"{name}={self.identity.get(name)!r} (in the file: {identity.get(name)!r})"
            for name in sorted(identity.keys() | self.identity.keys())
            if identity.get(name) != self.identity.get(name)
        ]
        if not changed and not self._same_model(logits):
            changed = ["a model with other logits"]
        if changed:
            raise InputError(
                f"The state file '{self.path}' belongs to another evaluation. "
                f"Received: {'; '.join(changed)}. Use another file, or remove it to start again."
            )

    def _same_model(self, logits: np.ndarray) -> bool:
        if self.logits is None or not logits.size:
            return self.logits is None and not logits.size
        return logits.shape == self.logits.shape and same_logits(logits, self.logits)
