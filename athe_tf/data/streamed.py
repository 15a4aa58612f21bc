"""Images that stay on disk, for sets that do not fit in memory."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from athe_tf.data import validate
from athe_tf.data.resize import central_square
from athe_tf.data.source import ImageSource, check_batch_size, to_float, with_options
from athe_tf.utils import rng
from athe_tf.utils.errors import check

# Which sequence of the random numbers decides on the order of files and within a window.
_FILES, _WINDOW = 0, 3


class Files(NamedTuple):
    """Where the examples of a split are: `take` records of each file after the first `skip`."""

    paths: list[str]
    skip: list[int]
    take: list[int]


class StreamedSet(ImageSource):
    """The images of TFRecord files, read as they are needed.

    An epoch reads the files in a shuffled order, several at a time, and shuffles the records that pass
    within windows of `window` records, all as a function of (seed, epoch). `start_step` reads the skipped
    records of an epoch, but does not decode them. A label out of range stops `stream` and `batches` with
    TensorFlow's `InvalidArgumentError`, for no one has seen all labels before.

    Args:
        files: `Files`.
        parse: From a serialized record to `(encoded image, label)`.
        decode: From an encoded image to uint8 `[H, W, C]`.
        image_shape: `(height, width, channels)` of an image after `decode` and `image_size`.
        num_classes: Labels have to be below this.
        image_size: Crop the central square and resize it, or `None`.
        window: How many records are shuffled at a time.
        readers: How many files are read at a time.
    """

    def __init__(
        self, files, parse, decode, image_shape, num_classes, image_size=None, window=8192, readers=16
    ):
        self.image_shape = tuple(image_shape)
        self.num_classes = num_classes
        self.image_size = image_size
        self.window = window
        self.readers = readers
        self._files = files
        self._parse = parse
        self._decode = decode
        self._size = int(sum(files.take))

    def __len__(self):
        return self._size

    def __repr__(self):
        return f"StreamedSet({len(self)} images of shape {self.image_shape}, {len(self._files.paths)} files)"

    def arrays(self, max_examples=None):
        """`(images, labels)`: float32 in [0, 1] and int64, of the first `max_examples`."""
        check(
            max_examples is not None,
            f"{len(self)} images do not fit in memory. Expected a number of examples. "
            "Received: max_examples=None. Give `max_examples`, or use `batches`.",
        )
        images, labels = [], []
        for x, y in self._in_order(256, max_examples):
            images.append(x.numpy())
            labels.append(y.numpy())
        all_labels = np.concatenate(labels).astype(np.int64)
        validate.check_labels(all_labels, len(all_labels))
        validate.check_range(all_labels, self.num_classes)
        return np.concatenate(images), all_labels

    def batches(self, batch_size: int):
        """All images once, in their order, for measuring. The last batch may be smaller.

        Returns:
            `tf.data.Dataset` of `(float32 images in [0, 1], int32 labels)`.
        """
        check_batch_size(batch_size)
        dataset = self._in_order(batch_size, len(self)).map(_checked(self.num_classes))
        return with_options(dataset.prefetch(tf.data.AUTOTUNE))

    def _in_order(self, batch_size, count):
        order = tf.range(len(self._files.paths))
        batches = self._records(order, readers=1).take(count).batch(batch_size)

        def read(ids, records):
            images, labels = self._images_and_labels(records)
            return to_float(images), labels

        return batches.map(read, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)

    def _records(self, order, readers):
        """Dataset of `(index of the example, serialized record)`, the files in the given order."""
        take = tf.constant(self._files.take, tf.int64)
        columns = (
            tf.constant(self._files.paths),
            tf.constant(self._files.skip, tf.int64),
            take,
            tf.cumsum(take, exclusive=True),
        )
        files = tf.data.Dataset.from_tensor_slices(tuple(tf.gather(column, order) for column in columns))

        def read_file(path, skip, take, first):
            records = tf.data.TFRecordDataset(path).skip(skip).take(take)
            return tf.data.Dataset.zip((tf.data.Dataset.range(first, first + take), records))

        return files.interleave(
            read_file,
            cycle_length=min(readers, len(self._files.paths)),
            block_length=16,
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        )

    def _shuffled(self, key, batch_size, skipped):
        steps = self.steps_per_epoch(batch_size)
        places = rng.bits(key, tf.range(len(self._files.paths)), (), stream=_FILES)

        def shuffle_window(ids, records):
            # `Dataset.shuffle` would mix TensorFlow's global seed into ours.
            order = tf.argsort(rng.bits(key, ids, (), stream=_WINDOW), stable=True)
            return tf.data.Dataset.from_tensor_slices((tf.gather(ids, order), tf.gather(records, order)))

        records = self._records(tf.argsort(places, stable=True), self.readers)
        records = records.batch(self.window).prefetch(1).flat_map(shuffle_window)
        records = records.skip(skipped * batch_size).take((steps - skipped) * batch_size)
        return records.batch(batch_size, drop_remainder=True)

    def _read(self, payload):
        images, labels = self._images_and_labels(payload)
        return _checked(self.num_classes)(images, labels)

    def _images_and_labels(self, records):
        def one(record):
            encoded, label = self._parse(record)
            image = self._decode(encoded)
            if self.image_size is not None:
                image = central_square(image, self.image_size)
            return tf.ensure_shape(image, self.image_shape), tf.cast(label, tf.int32)

        return tf.map_fn(one, records, fn_output_signature=(tf.uint8, tf.int32))


def _checked(num_classes):
    """A map that fails on a label outside of `[0, num_classes)`."""

    def check_labels(images, labels):
        message = f"Labels must lie in 0..{num_classes - 1}, for there are {num_classes} classes."
        in_range = tf.reduce_all((labels >= 0) & (labels < num_classes))
        with tf.control_dependencies([tf.debugging.Assert(in_range, [message, labels])]):
            return images, tf.identity(labels)

    return check_labels
