"""Images on disk, for sets that do not fit in memory."""

import copy
import os
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from athe_tf.data.encoded import EncodedSource
from athe_tf.data.images import parallel_map, without_autograph
from athe_tf.utils import rng
from athe_tf.utils.digests import text_digest

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


class StreamedSet(EncodedSource):
    """The images of TFRecord files, read when they are needed.

    An epoch reads the files in a shuffled order, several at a time, and shuffles the records in windows of
    `window` records, all as a function of (seed, epoch). With `start_step`, the skipped records of an epoch
    are read but not decoded. A part of the batches, for one of several workers, comes from a part of the
    files, unless images are mixed. Labels and the number of records are checked as they are read: a label
    out of range stops `stream` and `batches` with TensorFlow's `InvalidArgumentError`, a file that is too
    short with its `FailedPreconditionError`. The frameworks of `athe_tf.training` raise both as `InputError`.

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
        image_size: Crop the central square and resize it. Defaults to `None`: images unchanged.
        resize_size: Resize the shorter side to this before the crop. Defaults to `None`: the largest square.
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
        resize_size: int | None = None,
        window: int = 8192,
        readers: int = 16,
    ):
        super().__init__(decode, image_shape, num_classes, image_size, resize_size)
        self.window = window
        self.readers = readers
        self._files = files
        self._parse = parse
        self._size = int(sum(files.take))

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"StreamedSet({len(self)} images of shape {self.image_shape}, {len(self._files.paths)} files)"

    def part(self, count: int) -> "StreamedSet":
        """The first `count` images; TensorFlow Datasets shuffles the examples when it writes the files."""
        paths, skip, take = self._files
        fewer = np.clip(count - np.cumsum([0, *take[:-1]]), 0, take).tolist()
        kept = [row for row in zip(paths, skip, fewer, strict=True) if row[-1]]
        part = copy.copy(self)
        part._files, part._size = Files(*map(list, zip(*kept, strict=True))), count
        return part

    def fingerprint(self) -> str:
        """The numbers of images and files, and a digest of the files' names, sizes and record counts."""
        lines = [
            f"{os.path.basename(path)} {tf.io.gfile.stat(path).length} {skip} {take}\n"
            for path, skip, take in zip(*self._files, strict=True)
        ]
        return f"{len(self)} images in {len(lines)} files, digest {text_digest(''.join(lines))}"

    def all_labels(self) -> np.ndarray:
        """Reads all records, without decoding images."""
        records = self._ordered(np.arange(len(self)))
        labels = parallel_map(records, lambda index, record: tf.cast(self._parse(record)[1], tf.int64))
        return np.concatenate([*labels.batch(8192).as_numpy_iterator()])

    def _ordered(self, ids):
        files = np.unique(np.searchsorted(np.cumsum(self._files.take), ids, side="right"))
        records = self._records(tf.constant(files), readers=1)
        wanted = np.zeros(len(self), bool)
        wanted[ids] = True
        if not wanted.all():
            flags = tf.constant(wanted)
            records = records.filter(without_autograph(lambda index, record: flags[index]))
        return records.take(len(ids))

    def _encoded(self, payload):
        return self._parse(payload)

    def _records(self, order, readers, within=None):
        """Dataset of `(index of the example, serialized record)`, the files in the given order.

        With `within`, a first and a last place, only records there, and the files that have some.
        """
        skip, take = (tf.constant(numbers, tf.int64) for numbers in (self._files.skip, self._files.take))
        columns = (tf.constant(self._files.paths), skip, take, tf.cumsum(take, exclusive=True))
        paths, skip, take, first = (tf.gather(column, order) for column in columns)
        if within is not None:
            before = tf.cumsum(take, exclusive=True)
            start, stop = (tf.clip_by_value(place - before, 0, take) for place in within)
            skip, take, first = skip + start, stop - start, first + start
        files = tf.data.Dataset.from_tensor_slices((paths, skip, take, first))
        files = files.filter(without_autograph(lambda path, skip, take, first: take > 0))

        def read_file(path, skip, take, first):
            records = tf.data.TFRecordDataset(path).skip(skip).take(take)
            # A file with fewer records is an error, and not a smaller epoch.
            records = records.apply(tf.data.experimental.assert_cardinality(take))
            return tf.data.Dataset.zip((tf.data.Dataset.range(first, first + take), records))

        cycle = min(readers, len(self._files.paths))
        return files.interleave(read_file, cycle, 16, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)

    def _shuffled(self, key, batch_size, skipped):
        return self._shuffled_part(key, batch_size, skipped, (0, 1))

    def _shuffled_part(self, key, batch_size, skipped, part):
        if not isinstance(part, tuple):
            return super()._shuffled_part(key, batch_size, skipped, part)
        # Each worker reads files of its own, but for those at the ends of its share: so its batches have
        # other images than the same part of a whole batch, and an epoch has the same ones.
        (index, workers), share = part, len(self) // part[1]
        within = None if workers == 1 else (index * share, (index + 1) * share)
        steps, batch_size = self.steps_per_epoch(batch_size), batch_size // workers
        places = rng.bits(key, tf.range(len(self._files.paths)), (), stream=_FILES)

        def shuffle_window(ids, records):
            # `Dataset.shuffle` would mix TensorFlow's global seed into ours.
            order = tf.argsort(rng.bits(key, ids, (), stream=_WINDOW), stable=True)
            return tf.data.Dataset.from_tensor_slices((tf.gather(ids, order), tf.gather(records, order)))

        records = self._records(tf.argsort(places, stable=True), self.readers, within)
        records = records.batch(max(1, self.window // workers)).prefetch(1).flat_map(shuffle_window)
        records = records.skip(skipped * batch_size).take((steps - skipped) * batch_size)
        return records.batch(batch_size, drop_remainder=True)
