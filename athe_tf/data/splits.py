"""The splits of a data set, and what a model has to know about it."""

import dataclasses
from typing import Any

import numpy as np

from athe_tf.data.images import ImageSet, ImageSource
from athe_tf.data.mapped import MappedSet
from athe_tf.data.resize import resize_images
from athe_tf.utils import images_and_labels as rules
from athe_tf.utils.errors import check


@dataclasses.dataclass(frozen=True)
class Splits:
    """A data set, ready for training and evaluation.

    `train`, `validation` and `test` are `ImageSet`s or, if the images do not fit in memory, `StreamedSet`s
    (TensorFlow Datasets) and `FileSet`s (folders).

    Example:

    >>> splits = athe_tf.data.load("digits")
    >>> splits.test, splits.image_shape
    (ImageSet(400 images of shape (8, 8, 1), uint8), (8, 8, 1))

    Attributes:
        name: As given to `load`.
        train: `None` for sets that only have test images, such as `cifar10_corrupted`.
        validation: Never overlaps with `train`. `None` with `validation_size=0`, or without `train`.
        test: The test images; for sets without labeled ones, those that the set calls validation. With `only`
            of `load`, the splits that it does not need are `None`.
        num_classes: The number of classes.
        image_shape: `(height, width, channels)`.
        class_names: One string for each class, or `None` if the classes have no names.
        mean: The mean of each channel of the training images in [0, 1], for the model's first layer.
        std: The standard deviation of each channel.
    """

    name: str
    # May be None; `| Any` spares callers the check, as in typeshed.
    train: ImageSource | Any
    validation: ImageSource | Any
    test: ImageSource | Any
    num_classes: int
    image_shape: tuple[int, int, int]
    class_names: tuple[str, ...] | None
    mean: tuple[float, ...]
    std: tuple[float, ...]


def from_arrays(
    name,
    parts,
    *,
    num_classes=None,
    class_names=None,
    statistics=None,
    validation_size=None,
    image_size=None,
    resize_size=None,
) -> Splits:
    """Creates `Splits` from arrays; the arguments not listed are as in `load` and `Splits`.

    Args:
        parts: `{"train": (images, labels), "test": ..., "validation": ...}`; without "validation", it is
            held out of "train"; without "train", both are `None`.
        num_classes: Defaults to the number of classes in the training labels.
        statistics: `(mean, std)`. Defaults to the statistics of the training images.
    """
    for part, (images, labels) in parts.items():
        rules.check_images(_some(images), f"x_{part}")
        rules.check_labels(labels, len(images), f"y_{part}")
    if num_classes is None:
        num_classes = rules.count_classes(parts["train"][1], "y_train")
    expected = next(reversed(parts.values()))[0].shape[1:]
    for part, (images, labels) in parts.items():
        rules.check_classes(labels, num_classes, f"y_{part}", rules.SAME_CLASSES)
        check(
            images.shape[1:] == expected,
            f"The images of all splits must have the same shape. Expected {expected}, as in `x_test`. "
            f"Received: {images.shape[1:]} in `x_{part}`.",
        )
    parts = hold_out(name, parts, validation_size)
    if image_size is not None:
        parts = {
            part: (resize_images(x, image_size, resize_size), labels) for part, (x, labels) in parts.items()
        }
    sets: dict[str, ImageSource] = {
        part: MappedSet([images], [labels], num_classes)
        if isinstance(images, np.memmap)
        else ImageSet(images, labels, num_classes)
        for part, (images, labels) in parts.items()
    }
    if statistics is None:
        statistics = channel_statistics(_some(parts["train" if "train" in parts else [*parts][-1]][0]))
    return from_sets(name, sets, num_classes, class_names, statistics)


def from_sets(name, sets, num_classes, class_names, statistics) -> Splits:
    """Creates `Splits` from `{"train": ImageSource, "test": ..., "validation": ...}`; see `from_arrays`."""
    train, validation, test = sets.get("train"), sets.get("validation"), sets.get("test")
    shape = next(iter(sets.values())).image_shape
    return Splits(name, train, validation, test, num_classes, shape, class_names, *statistics)


def _some(images):
    """Images that are looked at at once; the others of a memory map are, when they are used."""
    return images[:1000] if isinstance(images, np.memmap) else images


def held_out_size(name, train_size, validation_size, own=None) -> int:
    """Number of training images to hold out, if the set has none or `own` validation images of its own."""
    if own is not None:
        check(
            validation_size in (None, own),
            f"The data set '{name}' has its own {own} validation images. "
            f"Received: validation_size={validation_size}. Leave `validation_size` out.",
        )
        return 0
    if validation_size is None:
        return min(1000, max(1, train_size // 10), train_size - 1)
    check(
        validation_size < train_size,
        f"Invalid value for argument `validation_size`. Expected less than the {train_size} training "
        f"images of '{name}'. Received: validation_size={validation_size}.",
    )
    return validation_size


def channel_statistics(images) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel of `images`, in units of [0, 1]."""
    if images.dtype == np.uint8:
        # From the 256 counts of each channel: exact, and without a float copy of the images.
        channels = np.moveaxis(images, -1, 0)
        counts = np.stack([np.bincount(channel.ravel(), minlength=256) for channel in channels])
        values = np.arange(256) / 255
        weights = counts / counts.sum(axis=1, keepdims=True)
        mean = weights @ values
        variance = (weights * (values - mean[:, np.newaxis]) ** 2).sum(axis=1)
    else:
        mean = images.mean(axis=(0, 1, 2), dtype=np.float64)
        variance = images.var(axis=(0, 1, 2), dtype=np.float64)
    # A constant channel must not make the model divide by zero.
    std = np.maximum(np.sqrt(variance), 1 / 255)
    return tuple(mean.tolist()), tuple(std.tolist())


def hold_out(name, parts, validation_size) -> dict:
    """The same parts, given as pairs of arrays, with some training examples moved to "validation"."""
    parts = dict(parts)
    if "train" not in parts:
        return parts
    images, labels = parts["train"]
    own = len(parts["validation"][1]) if "validation" in parts else None
    size = held_out_size(name, len(images), validation_size, own)
    if size:
        # NumPy guarantees that RandomState never changes (NEP 19), so the same images are always held out.
        order = np.random.RandomState(0).permutation(len(images))
        held, kept = np.sort(order[:size]), np.sort(order[size:])
        parts["train"] = np.asarray(images[kept]), labels[kept]
        parts["validation"] = np.asarray(images[held]), labels[held]
    return parts
