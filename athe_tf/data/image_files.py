"""Image files on disk, read as they are needed."""

import functools
import os
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from athe_tf.data.encoded import EncodedSource, ImageDecoder
from athe_tf.data.source import chosen_part, permuted, without_autograph
from athe_tf.utils.digests import text_digest
from athe_tf.utils.errors import check
from athe_tf.utils.graph_checks import checked

# The stream of random numbers that decides the order; `augment` uses others.
_ORDER = 0


class FileSet(EncodedSource):
    """Images in files of their own, such as the JPEG files of ImageNet.

    Every epoch is a new permutation of all images, and `start_step` skips them without reading. A file that
    cannot be decoded stops `stream` and `batches` with an error that names it.

    Example:

    >>> import tensorflow as tf
    >>> _ = tf.io.write_file("one.jpg", tf.io.encode_jpeg(tf.zeros([90, 80, 3], tf.uint8)))
    >>> images = athe_tf.data.FileSet(["one.jpg"], [3], (64, 64, 3), num_classes=10, image_size=64)
    >>> images
    FileSet(1 images of shape (64, 64, 3))

    Args:
        paths: The files: JPEG, PNG, GIF or BMP.
        labels: `[N]`, non-negative integers.
        image_shape: `(height, width, channels)` of an image after `image_size`.
        num_classes: Labels have to be below this.
        image_size: Crop the central square and resize it. Defaults to `None`: images as they are.
        resize_size: Resize the shorter side to this before the crop. Defaults to `None`: the largest square.
    """

    def __init__(
        self,
        paths: Sequence[str],
        labels,
        image_shape: tuple[int, int, int],
        num_classes: int,
        image_size: int | None = None,
        resize_size: int | None = None,
    ):
        super().__init__(ImageDecoder(image_shape[-1]), image_shape, num_classes, image_size, resize_size)
        check(len(paths) > 0, "There are no files. Expected at least one. Received: paths=[].")
        check(
            len(paths) == len(labels),
            f"Files and labels differ in number. Expected {len(paths)} labels. Received: {len(labels)}.",
        )
        self.paths = [str(path) for path in paths]
        self.labels = np.asarray(labels, np.int64)

    def __len__(self) -> int:
        return len(self.paths)

    def __repr__(self) -> str:
        return f"FileSet({len(self)} images of shape {self.image_shape})"

    def part(self, count: int) -> "FileSet":
        """`count` images chosen at random, always the same ones, in their order."""
        chosen = chosen_part(len(self), count)
        paths = [self.paths[index] for index in chosen]
        sizes = (self.image_size, self.resize_size)
        return FileSet(paths, self.labels[chosen], self.image_shape, self.num_classes, *sizes)

    def fingerprint(self) -> str:
        """The number of images, and a digest of the files' names and sizes, their classes included."""
        lines = [
            f"{os.path.basename(path)} {os.stat(path).st_size} {label}\n"
            for path, label in zip(self.paths, self.labels, strict=True)
        ]
        return f"{len(self)} images in files, digest {text_digest(''.join(lines))}"

    def _shuffled(self, key, batch_size, skipped):
        ids = permuted(key, len(self), batch_size, skipped, _ORDER)
        return ids.map(without_autograph(lambda ids, _: (ids, self._payload(ids))))

    def _ordered(self, count):
        ids = tf.data.Dataset.range(count)
        return ids.map(without_autograph(lambda index: (index, self._payload(index))))

    def _payload(self, ids):
        return tf.cast(ids, tf.int32)

    def _encoded(self, payload):
        paths, labels = self._tensors
        return tf.io.read_file(tf.gather(paths, payload)), tf.gather(labels, payload)

    @functools.cached_property
    def _tensors(self):
        # Eager tensors that all datasets capture; the scope is needed if the first use is inside a graph.
        with tf.init_scope(), tf.device("CPU"):
            return tf.constant(self.paths), tf.constant(self.labels, tf.int32)

    def _map(self, dataset, read):
        # A graph cannot catch an error, but a dataset can pass over elements that fail: the first id that is
        # not the expected one shows which. The last element of all pairs with `end`.
        made = dataset.map(read, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        end = tuple(
            tf.fill(spec.shape, tf.cast(-1 if place == len(made.element_spec) - 1 else 0, spec.dtype))
            for place, spec in enumerate(made.element_spec)
        )
        made = made.ignore_errors().concatenate(tf.data.Dataset.from_tensors(end))

        @without_autograph
        def compare(expected, found):
            path = tf.gather(self._tensors[0], expected)
            index = checked(
                found[-1],
                tf.cast(found[-1], tf.int64) == tf.cast(expected, tf.int64),
                "The file ",
                path,
                " cannot be read, is not a PNG or JPEG image, or is truncated. Remove it, save it again, or "
                "use skip_corrupt=True.",
            )
            return *found[:-1], index

        ids = dataset.map(without_autograph(lambda *row: row[-1]))
        return tf.data.Dataset.zip((ids, made)).map(compare)


def unreadable(paths: Sequence[str]) -> list[str]:
    """The files of `paths` that cannot be read or decoded; reads all of them."""
    decode = ImageDecoder(channels=3)

    @without_autograph
    def width(path):
        attempt = tf.data.Dataset.from_tensors(path).map(
            without_autograph(lambda path: tf.shape(decode(tf.io.read_file(path)))[1])
        )
        failed = tf.data.Dataset.from_tensors(tf.constant(-1))
        return attempt.ignore_errors().concatenate(failed).take(1).get_single_element()

    widths = tf.data.Dataset.from_tensor_slices([str(path) for path in paths])
    widths = widths.map(width, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True).batch(1024)
    found = np.concatenate(list(widths.as_numpy_iterator()))
    return [path for path, value in zip(paths, found, strict=True) if value < 0]
