"""The parts of a data set, and what a model has to know about it."""

import dataclasses
from typing import Any

import numpy as np

from athe_tf.data import validate
from athe_tf.utils.errors import InputError, check


@dataclasses.dataclass(frozen=True)
class Splits:
    """A data set, ready to train and to measure on.

    `train`, `validation` and `test` are `ImageSet`s or, where the images do not fit in memory,
    `StreamedSet`s: both have `stream`, `batches`, `arrays`, `steps_per_epoch` and a length.

    Attributes:
        name: As it was given to `load`.
        train: `None` for sets that only have test images, such as `cifar10_corrupted`.
        validation: Never overlaps with `train`. `None` with `validation_size=0`, or without `train`.
        test: The test images; for sets without labelled ones, those that the set calls validation.
        num_classes: The number of classes.
        image_shape: `(height, width, channels)`.
        class_names: One string for each class, or `None` where nobody named them.
        mean: The mean of each channel of the training images in [0, 1], for the model's first layer.
        std: The standard deviation of each channel.
    """

    name: str
    train: Any
    validation: Any
    test: Any
    num_classes: int
    image_shape: tuple[int, int, int]
    class_names: tuple[str, ...] | None
    mean: tuple[float, ...]
    std: tuple[float, ...]


def from_arrays(
    name, parts, *, num_classes=None, class_names=None, statistics=None, validation_size=None, image_size=None
) -> Splits:
    """Makes `Splits` of arrays.

    Args:
        name: The name of the data set.
        parts: `{"train": (images, labels), "test": ..., "validation": ...}`; without "validation", it is
            held out of "train"; without "train", there is neither.
        num_classes: Defaults to the number of classes in the training labels.
        class_names: One string for each class.
        statistics: `(mean, std)`. Defaults to those of the training images.
        validation_size: As in `load`.
        image_size: As in `load`.
    """
    # Imported here: a command line with a typo is answered before TensorFlow starts.
    from athe_tf.data.images import ImageSet
    from athe_tf.data.resize import resize_images

    for part, (images, labels) in parts.items():
        validate.check_images(images, f"x_{part}")
        validate.check_labels(labels, len(images), f"y_{part}")
    if num_classes is None:
        num_classes = validate.count_classes(parts["train"][1], "y_train")
    for part, (_, labels) in parts.items():
        validate.check_range(labels, num_classes, f"y_{part}")
    _check_same_shape(parts)
    parts = _hold_out(name, dict(parts), validation_size)
    if image_size is not None:
        parts = {
            part: (resize_images(images, image_size), labels) for part, (images, labels) in parts.items()
        }
    sets = {part: ImageSet(images, labels) for part, (images, labels) in parts.items()}
    mean, std = statistics or channel_statistics(parts.get("train", parts["test"])[0])
    return Splits(
        name=name,
        train=sets.get("train"),
        validation=sets.get("validation"),
        test=sets["test"],
        num_classes=num_classes,
        image_shape=sets["test"].image_shape,
        class_names=class_names,
        mean=mean,
        std=std,
    )


def held_out_size(name, train_size, validation_size, own=None) -> int:
    """How many training images are held out for validation.

    Args:
        name: The name of the data set, for messages.
        train_size: The number of training images.
        validation_size: As in `load`.
        own: The number of validation images that the set brings itself, or `None`.
    """
    if own is not None:
        check(
            validation_size in (None, own),
            f"The data set '{name}' brings its own {own} validation images. "
            f"Received: validation_size={validation_size}. Leave `validation_size` out.",
        )
        return 0
    if validation_size is None:
        return min(1000, max(1, train_size // 10), train_size - 1)
    if validation_size >= train_size:
        raise InputError(
            f"Invalid value for argument `validation_size`. Expected less than the {train_size} training "
            f"images of '{name}'. Received: validation_size={validation_size}."
        )
    return validation_size


def channel_statistics(images) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel of `images`, in units of [0, 1]."""
    if images.dtype == np.uint8:
        # From the 256 counts of each channel: exact, and without a float copy of the images.
        counts = np.stack(
            [np.bincount(channel.ravel(), minlength=256) for channel in np.moveaxis(images, -1, 0)]
        )
        values = np.arange(256) / 255
        weights = counts / counts.sum(axis=1, keepdims=True)
        mean = weights @ values
        variance = (weights * (values - mean[:, np.newaxis]) ** 2).sum(axis=1)
    else:
        mean = images.mean(axis=(0, 1, 2), dtype=np.float64)
        variance = images.var(axis=(0, 1, 2), dtype=np.float64)
    # A channel that never changes must not make the model divide by zero.
    std = np.maximum(np.sqrt(variance), 1 / 255)
    return tuple(mean.tolist()), tuple(std.tolist())


def _check_same_shape(parts) -> None:
    expected = parts["test"][0].shape[1:]
    for part, (images, _) in parts.items():
        check(
            images.shape[1:] == expected,
            f"Images of all parts must have one shape. Expected {expected}, as in `x_test`. "
            f"Received: {images.shape[1:]} in `x_{part}`.",
        )


def _hold_out(name, parts, validation_size):
    if "train" not in parts:
        return parts
    images, labels = parts["train"]
    own = len(parts["validation"][1]) if "validation" in parts else None
    size = held_out_size(name, len(images), validation_size, own)
    if size:
        # RandomState is frozen by NumPy's policy (NEP 19): these images are held out for ever.
        order = np.random.RandomState(0).permutation(len(images))
        held, kept = np.sort(order[:size]), np.sort(order[size:])
        parts["train"] = images[kept], labels[kept]
        parts["validation"] = images[held], labels[held]
    return parts
