"""Training images of two sets in every batch, at a fixed ratio; the extra ones may be generated."""

import dataclasses
import pathlib
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from athe_tf.data import npz
from athe_tf.data.images import ImageSet, ImageSource, as_float, parallel_map, with_options
from athe_tf.data.mixing import Mixing, part_of
from athe_tf.data.npz import EXTRA_IMAGES, EXTRA_LABELS, Archive
from athe_tf.data.options import AugmentationOptions
from athe_tf.data.splits import Splits
from athe_tf.utils.errors import InputError, check
from athe_tf.utils.images_and_labels import SAME_CLASSES, check_classes, check_images, check_labels
from athe_tf.utils.options import make_options
from athe_tf.utils.rng import fold

# Makes the order and the augmentations of the extra images independent of the others.
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
        extra: More images, labeled by a model or a generator.
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
        self.image_shape, self.num_classes = own.image_shape, own.num_classes

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
        """The fingerprints of both sets, and the fraction."""
        return f"{self.own.fingerprint()}, and {self.fraction:g} extra of {self.extra.fingerprint()}"

    def stream(
        self, batch_size: int, *, seed, augmentation="none", start_step=0, epochs=None, part=(0, 1), **options
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
        rest = {"augmentation": augmentation, "start_step": start_step}
        own = self.own.stream(batch_size - few, seed=seed, **rest)
        extra = self.extra.stream(few, seed=fold(seed, _EXTRA), **rest)
        order = interleaved(batch_size - few, few)

        chosen = make_options(AugmentationOptions, options, "`stream`")
        mixing = Mixing(chosen, seed, batch_size, self.num_classes) if chosen.mixes else None

        def join(step, batches):
            joined = [tf.gather(tf.concat(pair, axis=0), order) for pair in zip(*batches, strict=True)]
            if mixing is not None:
                joined = mixing(step, *joined)
            return tuple(part_of(values, part) for values in joined)

        dataset = parallel_map(tf.data.Dataset.zip(own, extra).enumerate(start_step), join)
        return with_options(dataset if total is None else dataset.take(total))


def interleaved(many: int, few: int) -> list[int]:
    """An order of `many` items followed by `few` others in which both kinds are evenly distributed."""
    places = [(index + 0.5) / many for index in range(many)]
    places += [(index + 0.5) / few for index in range(few)]
    return sorted(range(many + few), key=places.__getitem__)


def with_extra(
    splits: Splits, path: str | pathlib.Path, fraction: float, labels_by: Callable | None = None
) -> Splits:
    """The same data set with the images of a file added to every training batch.

    Example:

    >>> np.savez("extra.npz", image=np.zeros([100, 8, 8, 1], "uint8"), label=np.zeros([100], int))
    >>> splits = athe_tf.data.with_extra(athe_tf.data.load("digits"), "extra.npz", fraction=0.5)
    >>> splits.train.extra
    ImageSet(100 images of shape (8, 8, 1), uint8)

    Args:
        splits: The data set.
        path: A NumPy archive with `image`, `[N, H, W, C]`, uint8 or float in [0, 1], and `label`, integers
            `[N]`, which may be left out if a model gives the labels. Published files of generated CIFAR
            images use these names.
        fraction: The fraction of extra images in a batch.
        labels_by: A function from images `[N, H, W, C]` in [0, 1] to logits. Its predictions replace the
            labels of the file. Defaults to `None`: use the labels of the file.
    """
    npz.check_extra_file(path, labels_by is not None)
    with Archive(path) as archive:
        images = archive.read(EXTRA_IMAGES)
        if labels_by is None:
            labels = archive.read(EXTRA_LABELS)
    check_images(images, EXTRA_IMAGES)
    if labels_by is not None:
        labels = predictions(labels_by, images)
    check_labels(labels, len(images), EXTRA_LABELS)
    check_classes(labels, splits.num_classes, EXTRA_LABELS, SAME_CLASSES)
    if splits.train is None:
        raise InputError(f"The data set '{splits.name}' has no training images to mix extra ones with.")
    return dataclasses.replace(splits, train=MixedSet(splits.train, ImageSet(images, labels), fraction))


def predictions(model: Callable, images: np.ndarray, batch_size: int = 256) -> np.ndarray:
    """The class that a model gives to each image."""
    parts = [images[start : start + batch_size] for start in range(0, len(images), batch_size)]
    return np.concatenate([np.argmax(model(as_float(part)), axis=-1) for part in parts])
