"""Images in memory."""

import functools

import numpy as np
import tensorflow as tf

from athe_tf.data.source import ImageSource, chosen_part, permuted, to_float, with_options, without_autograph
from athe_tf.utils.digests import array_digest
from athe_tf.utils.errors import check_integer
from athe_tf.utils.images_and_labels import check_images, check_labels

# The stream of random numbers that decides the order; `augment` uses others.
_ORDER = 0


def as_float(images: np.ndarray) -> np.ndarray:
    """Images as float32 in [0, 1]."""
    floats = images.astype(np.float32, copy=False)
    return floats / np.float32(255) if images.dtype == np.uint8 else floats


class ImageSet(ImageSource):
    """Images and their labels, in memory.

    Example:

    >>> images = np.random.randint(0, 256, [100, 32, 32, 3], dtype="uint8")
    >>> data = athe_tf.data.ImageSet(images, np.arange(100) % 10)
    >>> [len(x) for x, y in data.batches(32)]
    [32, 32, 32, 4]

    Args:
        images: `[N, H, W, C]`, uint8 or float in [0, 1].
        labels: `[N]`, non-negative integers.
    """

    def __init__(self, images: np.ndarray, labels: np.ndarray):
        images, labels = np.asarray(images), np.asarray(labels)
        check_images(images)
        check_labels(labels, len(images))
        self.images = images if images.dtype == np.uint8 else images.astype(np.float32, copy=False)
        self.labels = labels.astype(np.int64, copy=False)
        height, width, channels = images.shape[1:]
        self.image_shape = (height, width, channels)

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return f"ImageSet({len(self)} images of shape {self.image_shape}, {self.images.dtype})"

    def part(self, count: int) -> "ImageSet":
        """`count` images chosen at random, always the same ones, in their order."""
        chosen = chosen_part(len(self), count)
        return ImageSet(self.images[chosen], self.labels[chosen])

    def arrays(self, max_examples: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        return as_float(self.images[:max_examples]), self.labels[:max_examples]

    def batches(self, batch_size: int) -> tf.data.Dataset:
        check_integer("batch_size", batch_size, 1)
        images, labels = self._tensors

        @without_autograph
        def batch(start):
            part = slice(start, start + batch_size)
            return to_float(images[part]), labels[part]

        starts = tf.data.Dataset.range(0, len(self), batch_size)
        dataset = starts.map(batch, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        return with_options(dataset.prefetch(tf.data.AUTOTUNE))

    def fingerprint(self) -> str:
        """The number of images, and a digest of all images and labels."""
        return f"{len(self)} images, digest {array_digest(self.images, self.labels)}"

    @functools.cached_property
    def _tensors(self):
        # One eager tensor that all datasets capture: a NumPy array would be copied into each graph. The scope
        # is needed if the first use is inside a graph.
        with tf.init_scope(), tf.device("CPU"):
            images, labels = tf.convert_to_tensor(self.images), tf.constant(self.labels, tf.int32)
        # A view of the tensor, so that the images are in memory once.
        self.images = np.asarray(memoryview(images))
        return images, labels

    def _shuffled(self, key, batch_size, skipped):
        return permuted(key, len(self), batch_size, skipped, _ORDER)

    def _finished(self, dataset, augment):
        @without_autograph
        def finish(key, ids, payload):
            images, labels = self._read(payload)
            return to_float(augment(images, key, ids)), labels

        return dataset.map(finish, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)

    def _read(self, payload):
        images, labels = self._tensors
        return tf.gather(images, payload), tf.gather(labels, payload)
