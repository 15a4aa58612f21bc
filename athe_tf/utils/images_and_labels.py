"""What images and labels must be: the rules, and the one wording of each message. NumPy only.

`label_checks` applies the rules to tensors, whose values may be known only when a compiled function runs.
"""

import numpy as np

from athe_tf.utils.errors import InputError, check

# Numbers of channels: gray, color, color and transparency.
COLORS = (1, 3, 4)

#: Resizing and other arithmetic may leave [0, 1] by a rounding error.
TOLERANCE = 1e-6

IMAGE_RULE = "Images must lie in [0, 1]. Received: "
DIVIDE = (
    "Divide them by 255, for example with dataset.map(lambda x, y: (x / 255.0, y)); in front of a model that "
    "expects 0..255, put keras.layers.Rescaling(255.0)."
)
NORMALIZE_INSIDE = "Put the normalization inside the model: athe_tf.models does it for you."
NUMBER_CLASSES = "Number the classes from 0, and give the model one logit per class."
SAME_CLASSES = "Number the classes as in the training images."


def out_of_range(low: float, high: float, where: str = "") -> InputError:
    """The error for images with other values: their range and place, and what was probably meant."""
    # Decoders of image files return pixels of 0..255.
    remedy = DIVIDE if low >= 0 and 1 < high <= 255 else NORMALIZE_INSIDE
    return InputError(f"{IMAGE_RULE}min={low:.3g}, max={high:.3g}{where}. {remedy}")


def to_levels(images: np.ndarray) -> np.ndarray:
    """Images in [0, 1] as image files store them: uint8, from 0 to 255.

    Halves are rounded to even, NumPy's rule, by which the published corruptions were made. `nearest_level` of
    `athe_tf.threat` rounds them up.
    """
    return np.rint(np.clip(images, 0, 1) * 255).astype(np.uint8)


def as_float(images: np.ndarray) -> np.ndarray:
    """Images as float32 in [0, 1]."""
    floats = images.astype(np.float32, copy=False)
    return floats / np.float32(255) if images.dtype == np.uint8 else floats


def label_rule(classes: int) -> str:
    """The beginning of every message about labels that are no classes."""
    return f"Labels must be integers in 0..{classes - 1} with {classes} classes. Received: "


def check_classes(labels, classes: int | None, name: str | None = None, remedy=NUMBER_CLASSES) -> None:
    """Raises `InputError` unless every label is the number of a class.

    Args:
        labels: An array of integers.
        classes: The number of classes; `None` if it is not known: then labels must not be negative.
        name: The name of the array, if the user knows it by one.
        remedy: The last sentence of the message about labels outside of `0..classes-1`.
    """
    low, high = labels.min(), labels.max()
    if low >= 0 and (classes is None or high < classes):
        return
    where = "" if name is None else f" in `{name}`"
    if classes is None:
        remedy = "Remove images without a label."
        raise InputError(f"Labels must not be negative. Received: {low}{where}. {remedy}")
    raise InputError(f"{label_rule(classes)}min={low}, max={high}{where}. {remedy}")


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
        labels.dtype.kind in "iu",  # not `np.integer`, of which NumPy's time spans are a kind
        f"Labels must be integers. Received: dtype={labels.dtype} in `{name}`. "
        'Save them with `labels.astype("int64")`.',
    )
    check_classes(labels, None, name)


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


def checked_images(x: np.ndarray) -> np.ndarray:
    """Images as float32 in [0, 1], without what rounding added; raises `InputError` for other values."""
    low, high = float(x.min()), float(x.max())
    if not (low >= -TOLERANCE and high <= 1 + TOLERANCE):  # true for NaN too
        raise out_of_range(low, high)
    return np.clip(x, 0.0, 1.0).astype(np.float32, copy=False)


def checked_batch(x, y, classes: int | None = None):
    """Images and labels as float32 and int32 arrays; raises `InputError` if they are unusable."""
    x, y = np.asarray(x), np.asarray(y)
    check(x.ndim == 4, f"Images must have shape [N, height, width, channels]. Received: shape={x.shape}.")
    check(len(x) > 0, "There are no images: the batch is empty.")
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.shape != (len(x),) or y.dtype.kind not in "iu":
        found = f"shape={y.shape}, dtype={y.dtype}"
        raise InputError(f"Labels must be integers of shape [{len(x)}], one per image. Received: {found}.")
    images = checked_images(x)
    check_classes(y, classes)
    return images, y.astype(np.int32)
