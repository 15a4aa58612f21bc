"""Images in files that need not fit in memory: rows of uncompressed NumPy arrays."""

import itertools
import mmap
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from athe_tf.data.images import ImageSource, chosen_part, parallel_map, to_float, with_options
from athe_tf.utils import rng
from athe_tf.utils.digests import array_digest
from athe_tf.utils.errors import check
from athe_tf.utils.images_and_labels import (
    SAME_CLASSES,
    check_classes,
    check_image_type,
    check_labels,
)

# Rounds of the Feistel network that shuffles.
ROUNDS = 6
# Images and labels of which a fingerprint is made.
PROBES = 256
# Labels that are checked at a time.
CHUNK = 2**24


class MappedSet(ImageSource):
    """Images and labels in several arrays, which may be memory maps of files of any size.

    Only the images of a batch are read, and no order of all images is kept: the place of an image in an epoch
    is computed. So memory does not depend on the number of images.

    Example:

    >>> np.save("images.npy", np.zeros([100, 32, 32, 3], "uint8"))
    >>> images = np.load("images.npy", mmap_mode="r")
    >>> athe_tf.data.MappedSet([images, images], [np.arange(100) % 10] * 2, 10)
    MappedSet(200 images of shape (32, 32, 3) in 2 arrays, uint8)

    Args:
        images: Arrays `[N, H, W, C]` of one shape and type, uint8 or float in [0, 1]. Values are not checked.
        labels: As many arrays `[N]` of integers below `num_classes`.
        num_classes: The number of classes.
    """

    def __init__(self, images: Sequence, labels: Sequence, num_classes: int):
        for x, y in zip(images, labels, strict=True):
            check_image_type(x.shape, x.dtype)
            check(len(x) == len(y), f"Expected {len(x)} labels, one per image. Received: {len(y)}.")
            check(
                (x.shape[1:], x.dtype) == (images[0].shape[1:], images[0].dtype),
                "Extra images of several files must have one shape and type. Expected "
                f"{images[0].shape[1:]}, {images[0].dtype}. Received: {x.shape[1:]}, {x.dtype}. Convert it.",
            )
            for start in range(0, len(y), CHUNK):  # a whole map would be in memory
                check_labels(y[start : start + CHUNK], len(y[start : start + CHUNK]))
                check_classes(y[start : start + CHUNK], num_classes, "label", SAME_CLASSES)
                _advise(y, mmap.MADV_DONTNEED)
            # Otherwise the system reads 100 kB around each image.
            _advise(x, mmap.MADV_RANDOM)
        self.images, self.labels = list(images), list(labels)
        self.image_shape = images[0].shape[1:]
        self.num_classes = num_classes
        self._ends = list(itertools.accumulate(map(len, images)))

    def __len__(self) -> int:
        return self._ends[-1]

    def __repr__(self) -> str:
        kind = f"{len(self.images)} arrays, {self.images[0].dtype}"
        return f"MappedSet({len(self)} images of shape {self.image_shape} in {kind})"

    def rows(self, ids) -> tuple[np.ndarray, np.ndarray]:
        """The images and labels at some positions."""
        files = np.searchsorted(self._ends, ids, side="right")
        images = np.empty([len(ids), *self.image_shape], self.images[0].dtype)
        labels = np.empty([len(ids)], np.int32)
        for file in np.unique(files):
            here = files == file
            places = ids[here] - (self._ends[file] - len(self.images[file]))
            images[here], labels[here] = self.images[file][places], self.labels[file][places]
            # Pages of a memory map that were read count as memory of this process.
            _advise(self.images[file], mmap.MADV_DONTNEED)
        return images, labels

    def part(self, count: int) -> "MappedSet":
        """`count` images chosen at random, always the same ones, in memory."""
        images, labels = self.rows(chosen_part(len(self), count))
        return MappedSet([images], [labels], self.num_classes)

    def all_labels(self) -> np.ndarray:
        return np.concatenate(self.labels)

    def batches(self, batch_size: int) -> tf.data.Dataset:
        starts = tf.data.Dataset.range(0, len(self), batch_size)
        ids = starts.map(lambda start: tf.range(start, tf.minimum(start + batch_size, len(self))))
        return with_options(parallel_map(parallel_map(ids, self._read), lambda x, y: (to_float(x), y)))

    def fingerprint(self) -> str:
        """The numbers of images and arrays, and a digest of their shapes and of some images and labels."""
        some = self.rows(np.unique(np.linspace(0, len(self) - 1, PROBES).astype(int)))
        return f"{len(self)} images in {len(self.images)} arrays, digest {array_digest(self._ends, *some)}"

    def _shuffled(self, key, batch_size, skipped):
        steps = tf.data.Dataset.range(skipped, len(self) // batch_size)

        def batch(step):
            ids = shuffled(key, step * batch_size + tf.range(batch_size, dtype=tf.int64), len(self))
            return ids, ids

        return parallel_map(steps, batch)

    def _finished(self, dataset, augment):
        def finish(key, ids, payload):
            images, labels = self._read(payload)
            return to_float(augment(images, key, ids)), labels

        return parallel_map(dataset, finish)

    def _read(self, ids):
        dtype = tf.as_dtype(np.float32 if self.images[0].dtype.kind == "f" else np.uint8)

        def read(ids):
            images, labels = self.rows(ids)
            return images.astype(dtype.as_numpy_dtype, copy=False), labels

        images, labels = tf.numpy_function(read, [ids], [dtype, tf.int32])
        return tf.ensure_shape(images, [*ids.shape, *self.image_shape]), tf.ensure_shape(labels, ids.shape)


def _advise(array, advice: int) -> None:
    """Tells the system how a memory map is used; other arrays are left alone."""
    base = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap.mmap):
        base.madvise(advice)


def shuffled(key, places, size: int) -> tf.Tensor:
    """The values of a random permutation of `range(size)` at some places, without computing the others.

    A Feistel network permutes the next power of 4; where it leaves `range(size)`, it is applied again.
    """
    half = max(1, ((size - 1).bit_length() + 1) // 2)
    mask = tf.constant(2**half - 1, tf.int64)

    def once(values):
        left, right = values // 2**half, values & mask
        for number in range(ROUNDS):
            noise = tf.cast(rng.bits(key, right, (), stream=number), tf.int64)
            left, right = right, tf.bitwise.bitwise_xor(left, noise & mask)
        return left * 2**half + right

    def again(values):
        return [tf.where(values < size, values, once(values))]

    return tf.while_loop(lambda values: tf.reduce_any(values >= size), again, [once(places)])[0]
