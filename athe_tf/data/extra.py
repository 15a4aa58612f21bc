"""Extra training images from a file: generated ones, or unlabelled ones and a model that labels them.

    np.savez("extra.npz", image=..., label=...)

`image` is `[N, H, W, C]`, uint8 or float in [0, 1]; `label` is integers `[N]`, and may be left out when a
model gives the labels. These are the names in published files of generated CIFAR images. NumPy only until the
images are used: the file can be checked before TensorFlow starts.
"""

import dataclasses

import numpy as np

from athe_tf.data import npz, validate
from athe_tf.data.splits import Splits
from athe_tf.utils.errors import InputError, check

IMAGES, LABELS = "image", "label"


def check_file(path, labelled_by_model: bool) -> None:
    """Raises `InputError` unless `path` is an archive with images, and with labels where they are needed."""
    with npz.open_archive(path) as archive:
        check(
            IMAGES in archive.files,
            f"The file {path} has no `{IMAGES}`. Expected `{IMAGES}` and `{LABELS}`. "
            f"Received: {sorted(archive.files)}.",
        )
        check(
            labelled_by_model or LABELS in archive.files,
            f"The file {path} has no `{LABELS}`. Received: {sorted(archive.files)}. Name a model that labels "
            "its images: --extra_labels_by=FILE.keras.",
        )


def with_extra(splits: Splits, path, fraction: float, labels_by=None) -> Splits:
    """The same data set, with the images of a file in every training batch.

    Args:
        splits: The data set.
        path: The file.
        fraction: The share of its images in a batch.
        labels_by: A function from images `[N, H, W, C]` in [0, 1] to logits, whose predictions are used as
            labels; the file's own, where there are any, are not. Defaults to `None`: the file's.
    """
    # Imported here: a command line with a typo is answered before TensorFlow starts.
    from athe_tf.data.images import ImageSet
    from athe_tf.data.mixed import MixedSet

    check_file(path, labels_by is not None)
    with npz.open_archive(path) as archive:
        images = npz.read_member(archive, IMAGES, path)
        labels = npz.read_member(archive, LABELS, path) if labels_by is None else None
    validate.check_images(images, IMAGES)
    if labels is None:
        labels = predictions(labels_by, images)
    validate.check_labels(labels, len(images), LABELS)
    validate.check_range(labels, splits.num_classes, LABELS)
    if splits.train is None:
        raise InputError(f"The data set '{splits.name}' has no training images to mix others with.")
    return dataclasses.replace(splits, train=MixedSet(splits.train, ImageSet(images, labels), fraction))


def predictions(model, images, batch_size: int = 256) -> np.ndarray:
    """The class that a model gives to each image."""
    scale = np.float32(255 if images.dtype == np.uint8 else 1)
    parts = [images[start : start + batch_size] for start in range(0, len(images), batch_size)]
    return np.concatenate([np.argmax(model(part.astype(np.float32) / scale), axis=-1) for part in parts])
