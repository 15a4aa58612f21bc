"""Images that are kept in memory."""

import functools

import numpy as np
import tensorflow as tf

from athe_tf.data import validate
from athe_tf.data.source import ImageSource, as_it_is, check_batch_size, to_float, with_options
from athe_tf.utils import rng

# Which sequence of the random numbers of an example decides on its place; `augment` has others.
_ORDER = 0


class ImageSet(ImageSource):
    """Images and their labels, in memory.

    Example:

        images = np.random.randint(0, 256, [100, 32, 32, 3], dtype="uint8")
        data = ImageSet(images, np.arange(100) % 10)
        for x, y in data.batches(32):
            print(x.shape)                       # 32, 32, 32 and 4 images

    Args:
        images: `[N, H, W, C]`, uint8 or float in [0, 1].
        labels: `[N]`, integers that are not negative.
    """

    def __init__(self, images, labels):
        images, labels = np.asarray(images), np.asarray(labels)
        validate.check_images(images)
        validate.check_labels(labels, len(images))
        self.images = images if images.dtype == np.uint8 else images.astype(np.float32, copy=False)
        self.labels = labels.astype(np.int64, copy=False)
        self.image_shape = images.shape[1:]

    def __len__(self):
        return len(self.labels)

    def __repr__(self):
        return f"ImageSet({len(self)} images of shape {self.image_shape}, {self.images.dtype})"

    def arrays(self, max_examples=None):
        """`(images, labels)`: float32 in [0, 1] and int64, of the first `max_examples`, or of all."""
        images, labels = self.images[:max_examples], self.labels[:max_examples]
        if images.dtype == np.uint8:
            images = images.astype(np.float32) / np.float32(255)
        return images, labels

    def batches(self, batch_size: int):
        """All images once, in their order, for measuring. The last batch may be smaller.

        Returns:
            `tf.data.Dataset` of `(float32 images in [0, 1], int32 labels)`.
        """
        check_batch_size(batch_size)
        images, labels = self._tensors

        @as_it_is
        def batch(start):
            part = slice(start, start + batch_size)
            return to_float(images[part]), labels[part]

        starts = tf.data.Dataset.range(0, len(self), batch_size)
        dataset = starts.map(batch, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        return with_options(dataset.prefetch(tf.data.AUTOTUNE))

    @functools.cached_property
    def _tensors(self):
        # One eager tensor that all datasets capture: a Python array would be copied into each graph. The
        # scope is for the first use, which may be inside a graph.
        with tf.init_scope(), tf.device("CPU"):
            images, labels = tf.convert_to_tensor(self.images), tf.constant(self.labels, tf.int32)
        # A view of the tensor, so that the images are in memory once.
        self.images = np.asarray(memoryview(images))
        return images, labels

    def _shuffled(self, key, batch_size, skipped):
        steps = self.steps_per_epoch(batch_size)
        places = rng.bits(key, tf.range(len(self)), (), stream=_ORDER)
        order = tf.argsort(places, stable=True)[: steps * batch_size]
        ids = tf.data.Dataset.from_tensor_slices(tf.reshape(order, [steps, batch_size])).skip(skipped)
        return ids.map(as_it_is(lambda ids: (ids, ids)))

    def _read(self, payload):
        images, labels = self._tensors
        return tf.gather(images, payload), tf.gather(labels, payload)
