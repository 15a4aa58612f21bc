"""Training images of two sets in every batch, at a fixed ratio."""

import tensorflow as tf

from athe_tf.data.source import ImageSource, part_of, with_options
from athe_tf.utils.errors import check
from athe_tf.utils.rng import fold

# Makes the order and the augmentations of the extra images independent of those of the others.
_EXTRA = 0xE87A


class MixedSet(ImageSource):
    """A set whose training batches have a fixed share of extra images, unlabelled or generated ones.

    An epoch has as many steps as without the extra images, so that schedules keep their meaning; both sets go
    on from epoch to epoch at their own pace, and every image of a set comes once before any comes again.
    Within a batch the two are spread evenly, so that replicas get the same mixture. As in every stream, a
    batch is a function of (seed, step).

    Example:

        generated = ImageSet(images, labels)
        train = MixedSet(athe_tf.data.load("digits").train, generated, fraction=0.7)
        images, labels = next(iter(train.stream(128, seed=0)))     # 38 digits and 90 generated images

    Args:
        own: The training images.
        extra: More of them, with labels that a model or a generator gave.
        fraction: The share of extra images in a batch.
    """

    def __init__(self, own, extra, fraction: float):
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

    def __len__(self):
        return len(self.own)

    def __repr__(self):
        return f"MixedSet({self.own!r}, {self.extra!r}, fraction={self.fraction:g})"

    def batches(self, batch_size: int):
        """The set's own images, in their order, for measuring."""
        return self.own.batches(batch_size)

    def arrays(self, max_examples=None):
        """The set's own images and labels."""
        return self.own.arrays(max_examples)

    def stream(self, batch_size: int, *, seed, augmentation="none", start_step=0, epochs=None, part=(0, 1)):
        """As for any set, with `round(fraction * batch_size)` extra images in every batch."""
        total = None if epochs is None else max(0, epochs * self.steps_per_epoch(batch_size) - start_step)
        few = round(self.fraction * batch_size)
        check(
            0 < few < batch_size,
            f"A batch must hold images of both sets. Received: batch_size={batch_size}, "
            f"fraction={self.fraction}. Use larger batches.",
        )
        check(
            few <= len(self.extra),
            f"A batch takes {few} extra images, and there are {len(self.extra)}. Use a smaller fraction.",
        )
        streams = [
            part.stream(size, seed=key, augmentation=augmentation, start_step=start_step)
            for part, size, key in (
                (self.own, batch_size - few, seed),
                (self.extra, few, fold(seed, _EXTRA)),
            )
        ]
        order = spread(batch_size - few, few)

        def mix(own, extra):
            mixed = (tf.gather(tf.concat(pair, axis=0), order) for pair in zip(own, extra, strict=True))
            return tuple(part_of(values, part) for values in mixed)

        dataset = tf.data.Dataset.zip(*streams).map(mix, num_parallel_calls=tf.data.AUTOTUNE)
        return with_options(dataset if total is None else dataset.take(total))


def spread(many: int, few: int) -> list[int]:
    """Places of `many` and then `few` things in a row in which both are spread evenly."""
    places = [(index + 0.5) / many for index in range(many)]
    places += [(index + 0.5) / few for index in range(few)]
    return sorted(range(many + few), key=places.__getitem__)
