"""Images on disk, for sets that do not fit in memory."""

import os
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from athe_tf.data import validate
from athe_tf.data.resize import central_square
from athe_tf.data.source import ImageSource, to_float, with_options
from athe_tf.utils import rng
from athe_tf.utils.digests import text_digest
from athe_tf.utils.errors import check, check_integer
from athe_tf.utils.graph_checks import checked_labels, readable_errors

# The streams of random numbers that decide the order of files and of records in a window.
_FILES, _WINDOW = 0, 3


class Files(NamedTuple):
    """The files of a split: `take` records of each file after the first `skip`.

    Example:

    >>> files = Files(["a.tfrecord", "b.tfrecord"], skip=[100, 0], take=[900, 1000])
    >>> sum(files.take)
    1900
    """

    paths: list[str]
    skip: list[int]
    take: list[int]


class StreamedSet(ImageSource):
    """The images of TFRecord files, read as they are needed.

    An epoch reads the files in a shuffled order, several at a time, and shuffles the records in windows of
    `window` records, all as a function of (seed, epoch). With `start_step`, the skipped records of an epoch
    are read but not decoded. Labels and the number of records are checked as they are read: a label out of
    range stops `stream` and `batches` with TensorFlow's `InvalidArgumentError`, a file that is too short with
    its `FailedPreconditionError`. The frameworks of `athe_tf.training` raise both as `InputError`.

    Example:

    >>> import tensorflow as tf
    >>> with tf.io.TFRecordWriter("one.tfrecord") as file:
    ...     file.write(tf.io.encode_png(np.zeros([8, 8, 1], "uint8")).numpy())
    >>> files = Files(["one.tfrecord"], skip=[0], take=[1])
    >>> decode = lambda png: tf.io.decode_png(png, channels=1)
    >>> athe_tf.data.StreamedSet(files, lambda record: (record, 3), decode, (8, 8, 1), num_classes=10)
    StreamedSet(1 images of shape (8, 8, 1), 1 files)

    Args:
        files: `Files`.
        parse: From a serialized record to `(encoded image, label)`.
        decode: From an encoded image to uint8 `[H, W, C]`.
        image_shape: `(height, width, channels)` of an image after `decode` and `image_size`.
        num_classes: Labels have to be below this.
        image_size: Crop the central square and resize it. Defaults to `None`: images as they are.
        window: Number of records that are shuffled at a time. Defaults to 8192.
        readers: Number of files that are read at a time. Defaults to 16.
    """

    def __init__(
        self,
        files: Files,
        parse: Callable,
        decode: Callable,
        image_shape: tuple[int, int, int],
        num_classes: int,
        image_size: int | None = None,
        window: int = 8192,
        readers: int = 16,
    ):
        self.image_shape = image_shape
        self.num_classes = num_classes
        self.image_size = image_size
        self.window = window
        self.readers = readers
        self._files = files
        self._parse = parse
        self._decode = decode
        self._size = int(sum(files.take))

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"StreamedSet({len(self)} images of shape {self.image_shape}, {len(self._files.paths)} files)"

    def arrays(self, max_examples: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """`(images, labels)`: float32 in [0, 1] and int64, of the first `max_examples`."""
        check(
            max_examples is not None,
            f"{len(self)} images do not fit in memory. Expected a number of examples. "
            "Received: max_examples=None. Give `max_examples`, or use `batches`.",
        )
        batches = self._in_order(256, max_examples).as_numpy_iterator()
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

    def fingerprint(self) -> str:
        """The numbers of images and files, and a digest of the files' names, sizes and record counts."""
        lines = [
            f"{os.path.basename(path)} {tf.io.gfile.stat(path).length} {skip} {take}\n"
            for path, skip, take in zip(*self._files, strict=True)
        ]
        return f"{len(self)} images in {len(lines)} files, digest {text_digest(''.join(lines))}"

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
            # A file with fewer records is an error, and not a smaller epoch.
            records = records.apply(tf.data.experimental.assert_cardinality(take))
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
        return self._checked(*self._images_and_labels(payload))

    def _images_and_labels(self, records):
        def one(record):
            encoded, label = self._parse(record)
            image = self._decode(encoded)
            if self.image_size is not None:
                image = central_square(image, self.image_size)
            return tf.ensure_shape(image, self.image_shape), tf.cast(label, tf.int32)

        return tf.map_fn(one, records, fn_output_signature=(tf.uint8, tf.int32))

    def _checked(self, images, labels):
        """The same images and labels; fails on a label outside of `[0, num_classes)`."""
        return images, checked_labels(labels, self.num_classes)
