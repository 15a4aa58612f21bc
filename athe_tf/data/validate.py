"""Checks of images and labels; NumPy only."""

import numpy as np

from athe_tf.utils.errors import check


def check_images(images, name="images") -> None:
    """Raises `InputError` unless `images` are `[N, H, W, C]`, uint8 or float in [0, 1], and not empty."""
    check(
        images.ndim == 4, f"Invalid shape of `{name}`. Expected [N, H, W, C]. Received: shape={images.shape}."
    )
    check(images.size > 0, f"The set `{name}` is empty. Received: shape={images.shape}.")
    if images.dtype == np.uint8:
        return
    check(
        np.issubdtype(images.dtype, np.floating),
        f"Invalid dtype of `{name}`. Expected uint8, or floats in [0, 1]. Received: dtype={images.dtype}.",
    )
    low, high = images.min(), images.max()
    # A NaN is in neither interval: the comparison is False.
    check(
        bool(low >= 0 and high <= 1),
        f"Images must lie in [0, 1]. Received: min={low:.3g}, max={high:.3g} in `{name}`. "
        "Put the normalisation inside the model: athe_tf.models does it for you.",
    )


def check_labels(labels, count, name="labels") -> None:
    """Raises `InputError` unless `labels` are `count` non-negative integers."""
    check(labels.ndim == 1, f"Invalid shape of `{name}`. Expected [N]. Received: shape={labels.shape}.")
    check(
        len(labels) == count,
        f"Images and labels differ in number. Expected {count} labels. Received: {len(labels)} in `{name}`.",
    )
    check(
        np.issubdtype(labels.dtype, np.integer),
        f"Labels must be integers. Received: dtype={labels.dtype} in `{name}`. "
        'Save them with `labels.astype("int64")`.',
    )
    check(
        labels.min() >= 0,
        f"Labels must not be negative. Received: {labels.min()} in `{name}`. Remove images without a label.",
    )


def check_range(labels, num_classes, name="labels") -> None:
    """Raises `InputError` unless every label is below `num_classes`."""
    most = labels.max()
    check(
        most < num_classes,
        f"Labels must lie in 0..{num_classes - 1} with {num_classes} classes. Received: {most} in `{name}`.",
    )


def count_classes(labels, name="labels") -> int:
    """The number of classes L of training labels, which have to be 0..L-1 without a gap."""
    present = np.unique(labels)
    absent = np.setdiff1d(np.arange(present[-1] + 1), present)
    check(
        len(absent) == 0,
        f"Training labels must be 0..L-1 without a gap. Received: 0..{present[-1]} without "
        f"{absent[:5].tolist()} in `{name}`. Number them with `numpy.unique(labels, return_inverse=True)`.",
    )
    check(len(present) >= 2, f"A classifier needs at least 2 classes. Received: 1 class in `{name}`.")
    return len(present)
