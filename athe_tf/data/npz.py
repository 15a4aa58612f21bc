"""`npz:PATH`: the user's own images, as a NumPy archive.

    np.savez("mine.npz", x_train=..., y_train=..., x_test=..., y_test=...)

Images are `[N, H, W, C]` or `[N, H, W]`, uint8 or float in [0, 1]; labels are integers `0..L-1`, `[N]` or
`[N, 1]`. `x_validation` and `y_validation` are optional. Extra training images (see `with_extra`) are an
archive with `image` and `label`. NumPy only: files can be checked before TensorFlow starts.
"""

import pathlib

import numpy as np

from athe_tf.utils.archives import Archive
from athe_tf.utils.errors import InputError, check
from athe_tf.utils.images_and_labels import (
    SAME_CLASSES,
    check_classes,
    check_image_type,
    check_labels,
    count_classes,
)

KEYS = ("x_train", "y_train", "x_test", "y_test")
_VALIDATION_KEYS = ("x_validation", "y_validation")
#: The keys of an archive of extra images.
EXTRA_IMAGES, EXTRA_LABELS = "image", "label"


def check_file(path: str | pathlib.Path) -> None:
    """Raises `InputError` unless `path` is an archive of a data set, by its keys, headers and labels."""
    with Archive(path) as archive:
        _check_keys(archive)
        sizes = {part: _check_declared_images(archive, f"x_{part}") for part in _parts_of(archive)}
        for part, size in sizes.items():
            labels = _labels(archive.read(f"y_{part}"), f"y_{part}")
            check_labels(labels, size, f"y_{part}")
            if part == "train":
                classes = count_classes(labels, f"y_{part}")
            check_classes(labels, classes, f"y_{part}", SAME_CLASSES)


def check_extra_file(path: str | pathlib.Path, labelled_by_model: bool) -> None:
    """Raises `InputError` unless `path` is an archive of extra images, with labels if no model gives them."""
    with Archive(path) as archive:
        keys = archive.names
    check(
        EXTRA_IMAGES in keys,
        f"The file {path} has no `{EXTRA_IMAGES}`. Expected `{EXTRA_IMAGES}` and `{EXTRA_LABELS}`. "
        f"Received: {keys}.",
    )
    check(
        labelled_by_model or EXTRA_LABELS in keys,
        f"The file {path} has no `{EXTRA_LABELS}`. Received: {keys}. Add labels, or give a model that "
        "labels the images.",
    )


def read(path: str | pathlib.Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The arrays of an archive: `{"train": (images, labels), ...}`, images `[N, H, W, C]`."""
    with Archive(path) as archive:
        _check_keys(archive)
        return {
            part: (
                _images(archive.read(f"x_{part}"), f"x_{part}"),
                _labels(archive.read(f"y_{part}"), f"y_{part}"),
            )
            for part in _parts_of(archive)
        }


def _check_keys(archive: Archive) -> None:
    validated = any(key in archive.names for key in _VALIDATION_KEYS)
    wanted = KEYS + _VALIDATION_KEYS if validated else KEYS
    missing = [key for key in wanted if key not in archive.names]
    if missing:
        raise InputError(
            f"The data file {archive.path} lacks {missing}. Expected the keys {list(KEYS)} and, optionally, "
            f"{list(_VALIDATION_KEYS)}. Received: {archive.names}."
        )


def _parts_of(archive: Archive) -> list[str]:
    return [part for part in ("train", "validation", "test") if f"x_{part}" in archive.names]


def _check_declared_images(archive: Archive, key: str) -> int:
    """The number of images; raises `InputError` unless the header of an array is that of images."""
    shape, dtype = archive.declared(key)
    _check_axes(shape, key)
    check_image_type(shape if len(shape) == 4 else (*shape, 1), dtype, key)
    return shape[0]


def _check_axes(shape, key) -> None:
    check(
        len(shape) == 3 or (len(shape) == 4 and shape[-1] > 0),
        f"Invalid shape of `{key}`. Expected [N, H, W] or [N, H, W, C]. Received: shape={shape}.",
    )


def _images(images, key):
    _check_axes(images.shape, key)
    return images[..., np.newaxis] if images.ndim == 3 else images


def _labels(labels, key):
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    remedy = " For one-hot labels, save `labels.argmax(1)`." if labels.ndim == 2 else ""
    check(
        labels.ndim == 1,
        f"Invalid shape of `{key}`. Expected [N] or [N, 1]. Received: shape={labels.shape}.{remedy}",
    )
    return labels
