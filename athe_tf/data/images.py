"""The interface of a set of images, in memory or on disk, and `ImageSet`: those in memory."""

import functools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from athe_tf.data.mixing import Mixing, part_of
from athe_tf.data.names import AUGMENTATIONS
from athe_tf.data.options import AugmentationOptions
from athe_tf.data.photometric import extended
from athe_tf.utils.digests import array_digest
from athe_tf.utils.errors import check, check_integer
from athe_tf.utils.images_and_labels import as_float, check_images, check_labels
from athe_tf.utils.machine import cores
from athe_tf.utils.options import make_options
from athe_tf.utils.rng import bits, fold

#: For functions of datasets without Python control flow: looking for some to convert takes a second.
without_autograph = tf.autograph.experimental.do_not_convert
# The stream of random numbers that decides the order; `augment` uses others.
_ORDER = 0


class ImageSource:
    """Base class of `ImageSet`, `FileSet`, `StreamedSet` and `MixedSet`.

    `stream` is implemented here, and `_shuffled` (which examples an epoch reads, in which order, as batches
    of small keys) for images that can be read in any order. A subclass implements `_finished` (from those
    to augmented images and labels), `batches`, `rows`, `all_labels`, `fingerprint` and a length.

    Example:

    >>> train: athe_tf.data.ImageSource = athe_tf.data.load("digits").train
    >>> train.steps_per_epoch(128)
    9
    """

    image_shape: tuple[int, int, int]
    num_classes: int

    def __len__(self) -> int:
        raise NotImplementedError

    def batches(self, batch_size: int) -> tf.data.Dataset:
        """All images once, in order, for evaluation. The last batch may be smaller.

        Returns:
            `tf.data.Dataset` of `(float32 images in [0, 1], int32 labels)`.
        """
        raise NotImplementedError

    def arrays(self, max_examples: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """`(images, labels)`: float32 in [0, 1] and int64, of the first `max_examples`, or of all."""
        images, labels = self.rows(np.arange(len(self))[:max_examples])
        return as_float(images), labels.astype(np.int64)

    def rows(self, ids) -> tuple[np.ndarray, np.ndarray]:
        """The images at some positions as they are stored, uint8 or float in [0, 1], and their labels."""
        raise NotImplementedError

    def all_labels(self) -> np.ndarray:
        """The labels of all images, in order."""
        raise NotImplementedError

    def part(self, count: int) -> "ImageSource":
        """A set of `count` of these images, always the same ones.

        Example:

        >>> athe_tf.data.load("digits").train.part(100)
        ImageSet(100 images of shape (8, 8, 1), uint8)
        """
        raise NotImplementedError

    def fingerprint(self) -> str:
        """A short text that is another one for other images or labels.

        Example:

        >>> athe_tf.data.load("digits").validation.fingerprint()[:10]
        '200 images'
        """
        raise NotImplementedError

    def exposure(self, batch_size: int, epochs: int) -> dict[str, dict[str, float]]:
        """For each kind of images, how many a training sees, how many of them are different ones, how often.

        Example:

        >>> athe_tf.data.load("digits").train.exposure(128, epochs=20)
        {'own': {'seen': 23040, 'unique': 1197, 'times': 19.25}}
        """
        return {"own": seen_of(epochs * self.steps_per_epoch(batch_size) * batch_size, len(self))}

    def _shuffled(self, key, batch_size, skipped):
        """Dataset of `(ids, payload)` batches of one epoch without its first `skipped` batches.

        Args:
            key: Scalar uint32 tensor, the seed of this epoch.
            batch_size: An integer. Batches are full.
            skipped: Scalar int64 tensor.
        """
        steps = len(self) // batch_size
        order = tf.argsort(bits(key, tf.range(len(self)), (), stream=_ORDER), stable=True)
        order = tf.reshape(order[: steps * batch_size], [steps, batch_size])
        ids = tf.data.Dataset.from_tensor_slices(order).skip(skipped)
        return ids.map(without_autograph(lambda ids: (ids, ids)))

    def _shuffled_part(self, key, batch_size, skipped, part):
        """The batches of `_shuffled`, but only a part of each; `part` is as in `stream`, or rows."""
        pick = part_of if isinstance(part, tuple) else tf.gather
        batches = self._shuffled(key, batch_size, skipped)
        return batches.map(without_autograph(lambda *values: tuple(pick(each, part) for each in values)))

    def _finished(self, dataset, augment):
        """Dataset of `(float32 images in [0, 1], int32 labels)`, augmented.

        Args:
            dataset: Of `(key, ids, payload)`: the batches of `_shuffled` with the seed of their epoch.
            augment: A function as in `augment.py`.
        """
        raise NotImplementedError

    def steps_per_epoch(self, batch_size: int) -> int:
        """Number of full batches in an epoch."""
        check_integer("batch_size", batch_size, 1)
        check(
            batch_size <= len(self),
            f"Invalid value for argument `batch_size`. Expected at most {len(self)}, the number of "
            f"training images. Received: batch_size={batch_size}.",
        )
        return len(self) // batch_size

    def stream(
        self, batch_size: int, *, seed, augmentation="none", start_step=0, epochs=None, part=(0, 1), **options
    ) -> tf.data.Dataset:
        """Shuffled, augmented batches for training.

        The order of an epoch and each augmentation are pure functions of (seed, epoch, index), so that
        `start_step=k` gives exactly the batches that follow the first `k`, without computing those.

        Example:

        >>> train = athe_tf.data.load("digits").train
        >>> batches = train.stream(128, seed=0, augmentation="pad_crop", start_step=1000)
        >>> images, labels = next(iter(batches))
        >>> images.shape, labels.shape
        (TensorShape([128, 8, 8, 1]), TensorShape([128]))

        Args:
            batch_size: Size of every batch; the remainder of an epoch is dropped.
            seed: An integer.
            augmentation: `"none"` (default), `"flip"`, `"pad_crop"`, `"pad_crop_flip"`,
                `"random_resized_crop_flip"`, or `"module:name"`: a function of your own, with the arguments
                of those in `augment.py`, or a `RandomResizedCrop`.
            start_step: The step of the first batch, counted from the start of training. Defaults to 0.
            epochs: The epoch after which the stream ends, counted from the start of training. Defaults to
                `None`: endless.
            part: `(i, n)` gives part `i` of `n` equal parts of every batch and reads no other images, for one
                of several workers, and what they are mixed with. A list of integers gives these rows of every
                batch. Defaults to `(0, 1)`: whole batches.
            **options: Those of `AugmentationOptions`, such as `cutmix=1.0`.

        Returns:
            `tf.data.Dataset` of `(float32 images in [0, 1], int32 labels)`; if images are mixed, labels are
            probabilities `[N, classes]`.
        """
        steps = self.steps_per_epoch(batch_size)
        chosen = make_options(AugmentationOptions, options, "`stream`")
        chosen.check_size(self.image_shape)
        augment = extended(AUGMENTATIONS.get(augmentation), chosen)
        check_integer("start_step", start_step, 0)
        if epochs is not None:
            check_integer("epochs", epochs, 1)
        first, skipped = divmod(start_step, steps)
        mixing = Mixing(chosen, seed, batch_size, self.num_classes, part) if chosen.mixes else None

        @without_autograph
        def batches_of(epoch):
            key = fold(seed, epoch)
            skip = tf.where(epoch == first, tf.constant(skipped, tf.int64), 0)
            if mixing is None:
                batches = self._shuffled_part(key, batch_size, skip, part)
                return batches.map(without_autograph(lambda ids, payload: (key, ids, payload)))
            batches = self._shuffled(key, batch_size, skip)
            return batches.enumerate(epoch * steps + skip).map(lambda step, batch: wanted(key, step, batch))

        @without_autograph
        def wanted(key, step, batch):
            assert mixing is not None
            rows = mixing.rows(step)
            return key, *(tf.gather(values, rows) for values in batch)

        last = tf.int64.max if epochs is None else epochs
        dataset = tf.data.Dataset.range(first, max(first, last)).flat_map(batches_of)
        dataset = self._finished(dataset, augment)
        if mixing is not None:
            dataset = parallel_map(dataset.enumerate(start_step), lambda step, batch: mixing(step, *batch))
        total = tf.data.INFINITE_CARDINALITY if epochs is None else max(0, epochs * steps - start_step)
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(total))
        return with_options(dataset.prefetch(tf.data.AUTOTUNE))


def seen_of(seen: int, size: int) -> dict[str, float]:
    """What `exposure` says of one kind of images; all of them are seen before any is repeated."""
    return {"seen": seen, "unique": min(seen, size), "times": round(seen / size, 2)}


def chosen_part(size: int, count: int | None) -> np.ndarray:
    """`count` indices below `size`, chosen at random and always the same ones, in rising order."""
    # Not the first ones: folders are read class by class.
    return np.sort(np.random.RandomState(0).permutation(size)[:count])


def parallel_map(dataset: tf.data.Dataset, function: Callable) -> tf.data.Dataset:
    """Applies a function without Python control flow to all elements, on all cores and in order."""
    # Not AUTOTUNE, which is at most 16 without the thread that tunes (see `with_options`).
    return dataset.map(without_autograph(function), num_parallel_calls=cores(), deterministic=True)


def to_float(images):
    """uint8 images in [0, 1]; float images unchanged."""
    return tf.cast(images, tf.float32) / 255.0 if images.dtype == tf.uint8 else images


def with_options(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Sets the options of all datasets here: a fixed order, and part of each batch on several workers."""
    options = tf.data.Options()
    options.deterministic = True
    # The thread that tunes a pipeline sleeps for up to a minute, and deleting an iterator may wait for it.
    # These pipelines have nothing to tune.
    options.autotune.enabled = False
    # With sharding by files, the default, the number of workers would change the batches.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return dataset.with_options(options)


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
        num_classes: The length of mixed labels. Defaults to the largest label plus 1.
    """

    def __init__(self, images: np.ndarray, labels: np.ndarray, num_classes: int | None = None):
        images, labels = np.asarray(images), np.asarray(labels)
        check_images(images)
        check_labels(labels, len(images))
        self.images = images if images.dtype == np.uint8 else images.astype(np.float32, copy=False)
        self.labels = labels.astype(np.int64, copy=False)
        self.num_classes = int(labels.max()) + 1 if num_classes is None else num_classes
        height, width, channels = images.shape[1:]
        self.image_shape = (height, width, channels)

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return f"ImageSet({len(self)} images of shape {self.image_shape}, {self.images.dtype})"

    def part(self, count: int) -> "ImageSet":
        """`count` images chosen at random, always the same ones, in their order."""
        chosen = chosen_part(len(self), count)
        return ImageSet(self.images[chosen], self.labels[chosen], self.num_classes)

    def rows(self, ids) -> tuple[np.ndarray, np.ndarray]:
        return self.images[ids], self.labels[ids]

    def all_labels(self) -> np.ndarray:
        return self.labels

    def batches(self, batch_size: int) -> tf.data.Dataset:
        check_integer("batch_size", batch_size, 1)
        images, labels = self._tensors

        def batch(start):
            part = slice(start, start + batch_size)
            return to_float(images[part]), labels[part]

        dataset = parallel_map(tf.data.Dataset.range(0, len(self), batch_size), batch)
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

    def _finished(self, dataset, augment):
        def finish(key, ids, payload):
            images, labels = self._read(payload)
            return to_float(augment(images, key, ids)), labels

        return parallel_map(dataset, finish)

    def _read(self, payload):
        return tuple(tf.gather(values, payload) for values in self._tensors)
