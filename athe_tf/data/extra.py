"""Extra training images from a file: generated ones, or unlabelled ones with a model that labels them.

    np.savez("extra.npz", image=..., label=...)

`image` is `[N, H, W, C]`, uint8 or float in [0, 1]; `label` is integers `[N]`, and may be left out if a model
gives the labels. Published files of generated CIFAR images use these names.
"""

import dataclasses
import pathlib
from collections.abc import Callable

import numpy as np

from athe_tf.data import npz
from athe_tf.data.images import ImageSet, as_float
from athe_tf.data.mixed import MixedSet
from athe_tf.data.npz import EXTRA_IMAGES, EXTRA_LABELS
from athe_tf.data.splits import Splits
from athe_tf.utils.archives import Archive
from athe_tf.utils.errors import InputError
from athe_tf.utils.images_and_labels import SAME_CLASSES, check_classes, check_images, check_labels


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
        path: A NumPy archive with `image` and `label`.
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
