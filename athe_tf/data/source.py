"""What a set of images offers, wherever its images are kept."""

import tensorflow as tf

from athe_tf.data import AUGMENTATIONS
from athe_tf.utils.errors import InputError, check
from athe_tf.utils.rng import fold

#: For functions of datasets that have no Python control flow to convert; to look for it costs a second.
as_it_is = tf.autograph.experimental.do_not_convert


class ImageSource:
    """Base class of `ImageSet` and `StreamedSet`.

    The template of a stream lives here, once. A subclass says `_shuffled` (what is read in an epoch, in
    which order, as batches of cheap keys) and `_read` (the images and labels of such a batch), and has
    `batches`, `arrays` and a length.
    """

    image_shape: tuple[int, int, int]

    def __len__(self):
        raise NotImplementedError

    def _shuffled(self, key, batch_size, skipped):
        """Dataset of `(ids, payload)` batches of one epoch without its first `skipped` batches.

        Args:
            key: Scalar uint32 tensor, the seed of this epoch.
            batch_size: An integer. Batches are full.
            skipped: Scalar int64 tensor.
        """
        raise NotImplementedError

    def _read(self, payload):
        """The images (uint8, or float in [0, 1]) and int32 labels of a batch of `_shuffled`."""
        raise NotImplementedError

    def steps_per_epoch(self, batch_size: int) -> int:
        """How many full batches an epoch has."""
        check_batch_size(batch_size)
        if batch_size > len(self):
            raise InputError(
                f"Invalid value for argument `batch_size`. Expected at most {len(self)}, the number of "
                f"training images. Received: batch_size={batch_size}."
            )
        return len(self) // batch_size

    def stream(self, batch_size: int, *, seed, augmentation="none", start_step=0, epochs=None, part=(0, 1)):
        """Shuffled, augmented batches for training.

        The order of an epoch and each augmentation are pure functions of (seed, epoch, index), so that
        `start_step=k` gives the very batches that follow the first `k`, without making those.

        Example:

            train = athe_tf.data.load("digits").train
            batches = train.stream(128, seed=0, augmentation="pad_crop", start_step=1000)
            images, labels = next(iter(batches))     # [128, 8, 8, 1] in [0, 1], and [128]

        Args:
            batch_size: Every batch has this size; the remainder of an epoch is left out of it.
            seed: An integer.
            augmentation: `"none"`, `"flip"`, `"pad_crop"` or `"pad_crop_flip"`.
            start_step: The step of the first batch, counted from the beginning of the training.
            epochs: Where the training ends, counted from its beginning too. Defaults to never.
            part: `(i, n)` gives part number `i` of `n` equal ones of every batch, and reads no other images:
                the share of one of several workers.

        Returns:
            `tf.data.Dataset` of `(float32 images in [0, 1], int32 labels)`.
        """
        steps = self.steps_per_epoch(batch_size)
        augment = AUGMENTATIONS.get(augmentation)
        check(
            start_step >= 0,
            f"Invalid value for argument `start_step`. Expected 0 or more. "
            f"Received: start_step={start_step}.",
        )
        check(
            epochs is None or epochs >= 1,
            f"Invalid value for argument `epochs`. Expected 1 or more, or None. Received: epochs={epochs}.",
        )
        first, skipped = divmod(start_step, steps)

        @as_it_is
        def batches_of(epoch):
            key = fold(seed, epoch)
            skip = tf.where(epoch == first, tf.constant(skipped, tf.int64), 0)
            batches = self._shuffled(key, batch_size, skip)
            return batches.map(
                as_it_is(lambda ids, payload: (key, part_of(ids, part), part_of(payload, part)))
            )

        @as_it_is
        def finish(key, ids, payload):
            images, labels = self._read(payload)
            return to_float(augment(images, key, ids)), labels

        last = tf.int64.max if epochs is None else epochs
        dataset = tf.data.Dataset.range(first, max(first, last)).flat_map(batches_of)
        dataset = dataset.map(finish, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        total = tf.data.INFINITE_CARDINALITY if epochs is None else max(0, epochs * steps - start_step)
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(total))
        return with_options(dataset.prefetch(tf.data.AUTOTUNE))


def check_batch_size(batch_size) -> None:
    """Raises `InputError` unless `batch_size` is a positive integer."""
    check(
        isinstance(batch_size, int) and batch_size >= 1,
        f"Invalid value for argument `batch_size`. Expected an integer of at least 1. "
        f"Received: batch_size={batch_size!r}.",
    )


def part_of(batch, part: tuple[int, int]):
    """Rows of part number `part[0]` of `part[1]` equal ones."""
    index, count = part
    if count == 1:
        return batch
    size = batch.shape[0] // count
    return batch[index * size : (index + 1) * size]


def to_float(images):
    """uint8 images in [0, 1]; float images as they are."""
    return tf.cast(images, tf.float32) / 255.0 if images.dtype == tf.uint8 else images


def with_options(dataset):
    """The options of all our datasets: a fixed order, and on several workers a share of each batch."""
    options = tf.data.Options()
    options.deterministic = True
    # The thread that tunes a pipeline sleeps longer and longer, up to a minute, and whoever lets go of an
    # iterator waits for it now and then. These pipelines have nothing to tune.
    options.autotune.enabled = False
    # By files (the default where there are some), the number of workers would change the batches.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return dataset.with_options(options)
