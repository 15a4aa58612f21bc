"""MixUp and CutMix: training batches of mixed images, with labels mixed likewise.

As published, a batch has one weight or one window. It, and which images are mixed, are pure functions of
(seed, step).
"""

from typing import NamedTuple

import tensorflow as tf

from athe_tf.data.options import AugmentationOptions
from athe_tf.utils import rng

# Separates the seed of mixing from those of order and augmentation; then the streams of random numbers.
_MIXING = 0x317C
_PARTNERS, _COIN, _BETA, _CENTER = range(4)


class Mixing(NamedTuple):
    """How the batches of a stream are mixed.

    Attributes:
        options: Which methods, with their alpha.
        seed: The seed of the stream.
        batch_size: Of the whole batch.
        num_classes: The length of a label.
        part: Which part of each batch is wanted, see `ImageSource.stream`.
    """

    options: AugmentationOptions
    seed: int
    batch_size: int
    num_classes: int
    part: tuple[int, int] = (0, 1)

    def rows(self, step) -> tf.Tensor:
        """The positions in the whole batch of the images to read for a part: its own, then their partners."""
        mine, others = (
            part_of(order, self.part) for order in (tf.range(self.batch_size), self.partners(step))
        )
        return mine if self.part[1] == 1 else tf.concat([mine, others], axis=0)

    def partners(self, step) -> tf.Tensor:
        """A permutation: the position of the image that each image of the batch is mixed with."""
        return tf.argsort(rng.bits(self._key(step), tf.range(self.batch_size), (), _PARTNERS), stable=True)

    def __call__(self, step, images, labels):
        """Mixed images and labels, floats `[N, L]`, of those that `rows` asks for."""
        if labels.shape.rank == 1:
            labels = tf.one_hot(labels, self.num_classes)
        if self.part[1] == 1:
            order = self.partners(step)
            pairs = [(values, tf.gather(values, order)) for values in (images, labels)]
        else:
            pairs = [tf.split(values, 2) for values in (images, labels)]
        return mixed(pairs[0], pairs[1], self._key(step), self.options)

    def _key(self, step):
        return rng.fold(self.seed, _MIXING, step)


def part_of(batch, part: tuple[int, int]):
    """The rows of part `part[0]` of `part[1]` equal parts."""
    index, count = part
    if count == 1:
        return batch
    size = batch.shape[0] // count
    return batch[index * size : (index + 1) * size]


def mixed(images, labels, seed, options: AugmentationOptions):
    """The mixture of two batches of images, given as a pair, and of their labels, probabilities `[N, L]`."""
    (one, other), (height, width) = images, images[0].shape[1:3]

    def mixup():
        weight = beta(seed, options.mixup)
        return other + weight * (one - other), weight

    def cutmix():
        (top, bottom), (left, right) = window(seed, options.cutmix, height, width)
        rows, columns = tf.range(height)[:, tf.newaxis], tf.range(width)
        pasted = (rows >= top) & (rows < bottom) & (columns >= left) & (columns < right)
        area = tf.cast((bottom - top) * (right - left), tf.float32)
        return tf.where(pasted[..., tf.newaxis], other, one), 1.0 - area / (height * width)

    if options.mixup and options.cutmix:
        heads = rng.integers(seed, [0], (), 2, stream=_COIN)[0] == 1
        result, weight = tf.cond(heads, mixup, cutmix)
    else:
        result, weight = mixup() if options.mixup else cutmix()
    return result, labels[1] + weight * (labels[0] - labels[1])


def beta(seed, alpha: float):
    """A random number with the distribution Beta(alpha, alpha)."""
    # TensorFlow's stateless generators take one seed for a tensor, which is one number here.
    state = tf.bitcast(tf.stack([rng.fold(seed, _BETA), rng.fold(seed, _BETA, 1)]), tf.int32)
    one, other = tf.unstack(tf.random.stateless_gamma([2], state, alpha, dtype=tf.float64))
    # For a tiny alpha, with which the number is nearly 0 or 1, both may underflow.
    return tf.cast(tf.math.divide_no_nan(one, one + other), tf.float32)


def window(seed, alpha: float, height: int, width: int) -> list:
    """`[(top, bottom), (left, right)]` of the window that CutMix pastes (Yun et al., 2019).

    Its center is uniform in the image, and its sides are those of the image times the root of
    `1 - Beta(alpha, alpha)`. What lies outside of the image is cut off.
    """
    side, found = tf.sqrt(1.0 - beta(seed, alpha)), []
    for axis, size in enumerate((height, width)):
        center = rng.integers(seed, [axis], (), size, stream=_CENTER)[0]
        half = tf.cast(side * size, tf.int32) // 2
        found.append((tf.maximum(center - half, 0), tf.minimum(center + half, size)))
    return found
