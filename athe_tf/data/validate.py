"""Checks of images and labels; NumPy only."""

import numpy as np

from athe_tf.utils.errors import check
from athe_tf.utils.image_range import out_of_range

# Numbers of channels: gray, color, color and transparency.
COLORS = (1, 3, 4)


def check_images(images, name="images") -> None:
    """Raises `InputError` unless `images` are `[N, H, W, C]`, uint8 or float in [0, 1], and not empty."""
    check_image_type(images.shape, images.dtype, name)
    if images.dtype == np.uint8:
        check(
            images.max() != 1,
            f"The images of `{name}` are uint8 and contain nothing but 0 and 1, which is nearly black. "
            "Expected 0..255. If floats in [0, 1] were cast to uint8, save the floats; multiply masks by "
            "255.",
        )
        return
    low, high = images.min(), images.max()
    # A NaN is in neither interval: the comparison is False.
    if not (low >= 0 and high <= 1):
        raise out_of_range(low, high, f" in `{name}`")


def check_image_type(shape, dtype, name="images") -> None:
    """Raises `InputError` unless an array of this shape and dtype can be images."""
    check(len(shape) == 4, f"Invalid shape of `{name}`. Expected [N, H, W, C]. Received: shape={shape}.")
    check(0 not in shape, f"The set `{name}` is empty. Received: shape={shape}.")
    check(
        not (shape[1] in COLORS and shape[3] > max(COLORS)),
        f"The images of `{name}` have their channels first. Expected [N, H, W, C]. Received: shape={shape}. "
        "Move them to the end with `images.transpose(0, 2, 3, 1)`.",
    )
    check(
        dtype == np.uint8 or np.issubdtype(dtype, np.floating),
        f"Invalid dtype of `{name}`. Expected uint8, or floats in [0, 1]. Received: dtype={dtype}.",
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
    # The largest label may be far too large for a list of all labels up to it.
    absent = np.setdiff1d(np.arange(min(int(present[-1]), len(present) + 5)), present)
    check(
        len(absent) == 0,
        f"Training labels must be 0..L-1 without a gap. Received: 0..{present[-1]} without "
        f"{absent[:5].tolist()} in `{name}`. Number them with `numpy.unique(labels, return_inverse=True)`.",
    )
    check(len(present) >= 2, f"A classifier needs at least 2 classes. Received: 1 class in `{name}`.")
    return len(present)
