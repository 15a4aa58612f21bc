"""The base of sets whose images stay encoded until they are needed."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from athe_tf.data import validate
from athe_tf.data.decoding import ImageDecoder
from athe_tf.data.random_resized_crop import RandomResizedCrop
from athe_tf.data.resize import central_view, resize
from athe_tf.data.source import ImageSource, to_float, with_options, without_autograph
from athe_tf.utils.errors import check, check_integer
from athe_tf.utils.graph_checks import checked_labels, readable_errors


class EncodedSource(ImageSource):
    """Base class of `StreamedSet` and `FileSet`.

    A subclass implements `_shuffled`, `_ordered` (the first examples in order), `_encoded` (the bytes and the
    label of an example), `fingerprint` and a length. Images are decoded one at a time, on all cores.

    Args:
        decode: From an encoded image to uint8 `[H, W, C]`; an `ImageDecoder` can decode crops only.
        image_shape: `(height, width, channels)` of an image after `decode` and `image_size`.
        num_classes: Labels have to be below this.
        image_size: Crop the central square and resize it. Defaults to `None`: images as they are.
        resize_size: Resize the shorter side to this before the crop. Defaults to `None`: the largest square.
    """

    def __init__(
        self,
        decode: Callable,
        image_shape: tuple[int, int, int],
        num_classes: int,
        image_size: int | None = None,
        resize_size: int | None = None,
    ):
        self.image_shape = image_shape
        self.num_classes = num_classes
        self.image_size = image_size
        self.resize_size = resize_size
        self._decode = decode

    def _ordered(self, count: int) -> tf.data.Dataset:
        """Dataset of `(id, payload)` of the first `count` examples."""
        raise NotImplementedError

    def _encoded(self, payload):
        """`(bytes of the image, label)` of one payload of `_shuffled` or `_ordered`."""
        raise NotImplementedError

    def arrays(self, max_examples: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """`(images, labels)`: float32 in [0, 1] and int64, of the first `max_examples`."""
        check(
            max_examples is not None,
            f"{len(self)} images do not fit in memory. Expected a number of examples. "
            "Received: max_examples=None. Give `max_examples`, or use `batches`.",
        )
        batches = self._in_order(256, min(int(max_examples or 0), len(self))).as_numpy_iterator()
        with readable_errors():
            images, labels = (np.concatenate(parts) for parts in zip(*batches, strict=True))
        validate.check_labels(labels, len(labels))
        validate.check_range(labels, self.num_classes)
        return images, labels.astype(np.int64)

    def batches(self, batch_size: int) -> tf.data.Dataset:
        """All images once, in order, for evaluation. The last batch may be smaller.

        Returns:
            `tf.data.Dataset` of `(float32 images in [0, 1], int32 labels)`.
        """
        check_integer("batch_size", batch_size, 1)
        dataset = self._in_order(batch_size, len(self)).map(self._checked)
        return with_options(dataset.prefetch(tf.data.AUTOTUNE))

    def _in_order(self, batch_size, count):
        @without_autograph
        def read(index, payload):
            del index
            encoded, label = self._encoded(payload)
            return self._guarded(payload, lambda: self._view(encoded)), tf.cast(label, tf.int32)

        images = self._ordered(count).map(read, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        return images.batch(batch_size).map(lambda x, y: (to_float(x), y))

    def _finished(self, dataset, augment):
        crop = augment if isinstance(augment, RandomResizedCrop) else None

        @without_autograph
        def single(key, ids, payload):
            return tf.fill(tf.shape(ids), key), ids, payload

        @without_autograph
        def read(key, index, payload):
            encoded, label = self._encoded(payload)
            make = self._view if crop is None else lambda encoded: self._cropped(encoded, crop, key, index)
            image = self._guarded(payload, lambda: make(encoded))
            return image, tf.cast(label, tf.int32), key, index

        @without_autograph
        def finish(images, labels, keys, ids):
            augmented = (augment if crop is None else crop.finish)(images, keys[0], ids)
            return self._checked(to_float(augmented), labels)

        size = dataset.element_spec[1].shape[0]
        dataset = dataset.map(single).unbatch()
        dataset = dataset.map(read, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        return dataset.batch(size, drop_remainder=True).map(finish)

    def _guarded(self, payload, make: Callable):
        """The image that `make` computes; a subclass may say which one could not be decoded."""
        del payload
        return make()

    def _view(self, encoded):
        """An image as it is evaluated."""
        image = central_view(self._decode(encoded), self.image_size, self.resize_size)
        return tf.ensure_shape(image, self.image_shape)

    def _cropped(self, encoded, crop, key, index):
        """A random crop of the image in its full size, resized."""
        if isinstance(self._decode, ImageDecoder):
            box = self._decode.crop(encoded, crop, key, index)
        else:
            image = self._decode(encoded)
            shape = tf.shape(image)[:, tf.newaxis]
            top, left, height, width = tf.unstack(crop.boxes(key, index[tf.newaxis], shape[0], shape[1])[0])
            box = image[top : top + height, left : left + width]
        return tf.ensure_shape(resize(box, *self.image_shape[:2]), self.image_shape)

    def _checked(self, images, labels):
        """The same images and labels; fails on a label outside of `[0, num_classes)`."""
        return images, checked_labels(labels, self.num_classes)
