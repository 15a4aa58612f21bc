"""Training images of two sets in every batch, at a fixed ratio."""

import numpy as np
import tensorflow as tf

from athe_tf.data.source import ImageSource, part_of, with_options
from athe_tf.utils.errors import check
from athe_tf.utils.rng import fold

# Makes the order and the augmentations of the extra images independent of those of the others.
_EXTRA = 0xE87A


class MixedSet(ImageSource):
    """A set whose training batches have a fixed fraction of extra images.

    An epoch has as many steps as without the extra images, so that schedules keep their meaning. Each set
    continues from epoch to epoch independently: all of its images are used once before any is repeated.
    Within a batch the two are interleaved evenly, so that replicas get the same mixture. As in every stream,
    a batch is a function of (seed, step).

    Example:

    >>> digits = athe_tf.data.load("digits").train
    >>> generated = athe_tf.data.ImageSet(np.zeros([200, 8, 8, 1], "uint8"), np.zeros([200], int))
    >>> train = athe_tf.data.MixedSet(digits, generated, fraction=0.7)
    >>> images, labels = next(iter(train.stream(128, seed=0)))     # 38 digits and 90 generated images
    >>> int((labels.numpy() == 0).sum()) >= 90
    True

    Args:
        own: The training images.
        extra: More images, labelled by a model or a generator.
        fraction: The fraction of extra images in a batch, between 0 and 1.
    """

    def __init__(self, own: ImageSource, extra: ImageSource, fraction: float):
        check(0 < fraction < 1, f"`fraction` must lie between 0 and 1. Received: fraction={fraction}.")
        check(
            tuple(own.image_shape) == tuple(extra.image_shape),
            f"Extra images must have the shape of the others, {tuple(own.image_shape)}. "
            f"Received: {tuple(extra.image_shape)}.",
        )
        self.own = own
        self.extra = extra
        self.fraction = fraction
        self.image_shape = own.image_shape

    def __len__(self) -> int:
        return len(self.own)

    def __repr__(self) -> str:
        return f"MixedSet({self.own!r}, {self.extra!r}, fraction={self.fraction:g})"

    def batches(self, batch_size: int) -> tf.data.Dataset:
        """The set's own images, in order, for evaluation."""
        return self.own.batches(batch_size)

    def arrays(self, max_examples: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The set's own images and labels."""
        return self.own.arrays(max_examples)

    def fingerprint(self) -> str:
        """Those of both sets, and the fraction."""
        return f"{self.own.fingerprint()}, and {self.fraction:g} extra of {self.extra.fingerprint()}"

    def stream(
        self, batch_size: int, *, seed, augmentation="none", start_step=0, epochs=None, part=(0, 1)
    ) -> tf.data.Dataset:
        """As `ImageSource.stream`, with `round(fraction * batch_size)` extra images in every batch."""
        total = None if epochs is None else max(0, epochs * self.steps_per_epoch(batch_size) - start_step)
        few = round(self.fraction * batch_size)
        check(
            0 < few < batch_size,
            f"A batch must contain images of both sets. Received: batch_size={batch_size}, "
            f"fraction={self.fraction}. Use larger batches.",
        )
        check(
            few <= len(self.extra),
            f"A batch needs {few} extra images, but there are {len(self.extra)}. Use a smaller `fraction`.",
        )
        streams = [
            source.stream(size, seed=key, augmentation=augmentation, start_step=start_step)
            for source, size, key in (
                (self.own, batch_size - few, seed),
                (self.extra, few, fold(seed, _EXTRA)),
            )
        ]
        order = interleaved(batch_size - few, few)

        def mix(own, extra):
            mixed = (tf.gather(tf.concat(pair, axis=0), order) for pair in zip(own, extra, strict=True))
            return tuple(part_of(values, part) for values in mixed)

        dataset = tf.data.Dataset.zip(*streams).map(mix, num_parallel_calls=tf.data.AUTOTUNE)
        return with_options(dataset if total is None else dataset.take(total))


def interleaved(many: int, few: int) -> list[int]:
    """An order of `many` items followed by `few` others in which both kinds are evenly distributed."""
    places = [(index + 0.5) / many for index in range(many)]
    places += [(index + 0.5) / few for index in range(few)]
    return sorted(range(many + few), key=places.__getitem__)
