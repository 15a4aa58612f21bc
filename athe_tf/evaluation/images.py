"""The images of an evaluation, which need not be in memory: read and converted when they are used."""

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from athe_tf.data.encoded import EncodedSource
from athe_tf.data.folder import FileSet
from athe_tf.data.images import ImageSource
from athe_tf.threat import LEVELS
from athe_tf.utils.digests import array_digest, text_digest, update
from athe_tf.utils.images_and_labels import as_float, checked_images
from athe_tf.utils.machine import available_memory

# Images that are converted at a time where all of them are looked at.
CHUNK = 1024


class LazyImages:
    """Images that are indexed as an array `[N, H, W, C]`, and are float32 in [0, 1] then.

    Example:

    >>> images = LazyImages(athe_tf.data.load("digits").test)
    >>> images.shape, images[:2].dtype
    ((400, 8, 8, 1), dtype('float32'))

    Args:
        source: The images as they are stored: uint8 in memory, or in files.
        ids: The positions of those that are meant. Defaults to all.
    """

    def __init__(self, source: ImageSource, ids: np.ndarray | None = None):
        self.source: Any = source
        self.ids = np.arange(len(source)) if ids is None else ids
        self.shape = (len(self.ids), *source.image_shape)
        self.ndim, self.dtype = 4, np.dtype(np.float32)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, rows) -> np.ndarray:
        ids = np.atleast_1d(self.ids[rows])
        images = (
            checked_images(as_float(self.source.rows(ids)[0])) if len(ids) else np.empty((0, *self.shape[1:]))
        )
        return np.asarray(images, np.float32) if np.ndim(self.ids[rows]) else images[0]

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return self[:]

    def at(self, rows) -> "LazyImages":
        """Some of these images."""
        return LazyImages(self.source, self.ids[rows])

    def hold(self, rows: np.ndarray) -> None:
        """Reads images that will be used again and again, as uint8; those in files only if they fit."""
        needed = len(rows) * int(np.prod(self.shape[1:]))
        if isinstance(self.source, FileSet) and needed > available_memory() // 2:
            return
        if isinstance(self.source, EncodedSource):
            self.source = _Held(self.source, self.ids[rows])

    def digest(self, labels: np.ndarray) -> str:
        """Identifies images and labels: by their values or, if in files, by those."""
        if isinstance(self.source, EncodedSource | _Held):
            source = self.source
            return text_digest(f"{source.fingerprint()} {self.shape} {source.resize_size}")
        digest = hashlib.sha256(f"{self.dtype} {self.shape}\n".encode())
        for images in chunks(self):
            digest.update(np.ascontiguousarray(images).data)
        update(digest, labels)
        return digest.hexdigest()[:16]


class _Held:
    """A source some of whose images are in memory."""

    def __init__(self, source: EncodedSource, ids: np.ndarray):
        self.source, self.places = source, np.full(len(source), -1)
        self.places[ids] = np.arange(len(ids))
        self.images, self.labels = source.rows(ids)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)

    def __len__(self) -> int:
        return len(self.source)

    def rows(self, ids):
        places = self.places[ids]
        return self.source.rows(ids) if (places < 0).any() else (self.images[places], self.labels[places])


def part_of(images, rows):
    """Some of the images: not read yet if they are lazy."""
    return images.at(rows) if isinstance(images, LazyImages) else images[rows]


def chunks(images) -> Iterator[np.ndarray]:
    """All images, some at a time."""
    for start in range(0, len(images), CHUNK):
        yield images[start : start + CHUNK]


def on_grid(images) -> bool:
    """Whether images are 8-bit images: all pixels are multiples of 1/255, but for rounding.

    Example:

    >>> on_grid(np.float32([0.2, 0.4])), on_grid(np.float32([0.2, 0.401]))
    (True, False)
    """
    if isinstance(images, LazyImages) and isinstance(images.source, EncodedSource | _Held):
        return True  # as decoders make them
    levels = (LEVELS * part for part in chunks(images))
    return all(np.abs(each - np.rint(each)).max() <= 1e-3 for each in levels)


def digest_of(images, labels: np.ndarray) -> str:
    """Identifies images and labels."""
    return images.digest(labels) if isinstance(images, LazyImages) else array_digest(images, labels)
