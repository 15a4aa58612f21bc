"""`npz:PATH`: the user's own images, as a NumPy archive.

    np.savez("mine.npz", x_train=..., y_train=..., x_test=..., y_test=...)

Images are `[N, H, W, C]` or `[N, H, W]`, uint8 or float in [0, 1]; labels are integers `0..L-1`, `[N]` or
`[N, 1]`. `x_validation` and `y_validation` are optional. Extra training images (see `extra.py`) are an
archive with `image` and `label`. NumPy only: files can be checked before TensorFlow starts.
"""

import pathlib
import zipfile
import zlib
from typing import Any

import numpy as np

from athe_tf.utils.errors import InputError, check

KEYS = ("x_train", "y_train", "x_test", "y_test")
_VALIDATION_KEYS = ("x_validation", "y_validation")
#: The keys of an archive of extra images.
EXTRA_IMAGES, EXTRA_LABELS = "image", "label"

# What NumPy and the zip reader raise on a file that is not an archive, or is truncated.
_UNREADABLE = (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error)


def check_file(path: str | pathlib.Path) -> None:
    """Raises `InputError` unless `path` is a readable archive with the keys of a data set."""
    _open(path).close()


def check_extra_file(path: str | pathlib.Path, labelled_by_model: bool) -> None:
    """Raises `InputError` unless `path` is an archive of extra images, with labels if no model gives them."""
    with open_archive(path) as archive:
        keys = sorted(archive.files)
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
    with _open(path) as archive:
        keys = [key for key in (*KEYS, *_VALIDATION_KEYS) if key in archive.files]
        arrays = {key: read_member(archive, key, path) for key in keys}
    return {
        part: (_images(arrays[f"x_{part}"], f"x_{part}"), _labels(arrays[f"y_{part}"], f"y_{part}"))
        for part in ("train", "validation", "test")
        if f"x_{part}" in arrays
    }


def open_archive(path: str | pathlib.Path) -> Any:
    """The archive in a file; raises `InputError` if it cannot be read."""
    path = pathlib.Path(path).expanduser()
    check(path.is_file(), f"No such data file. Expected a NumPy archive (.npz). Received: '{path}'.")
    try:
        archive = np.load(path, allow_pickle=False)
    except _UNREADABLE as error:
        raise _unreadable(path, error) from error
    if isinstance(archive, np.ndarray):
        raise _unreadable(path, "a single array (.npy)")
    return archive


def _open(path):
    archive = open_archive(path)
    validated = any(key in archive.files for key in _VALIDATION_KEYS)
    wanted = KEYS + _VALIDATION_KEYS if validated else KEYS
    missing = [key for key in wanted if key not in archive.files]
    if missing:
        archive.close()
        raise InputError(
            f"The data file {path} lacks {missing}. Expected the keys {list(KEYS)} and, optionally, "
            f"{list(_VALIDATION_KEYS)}. Received: {sorted(archive.files)}."
        )
    return archive


def read_member(archive, key: str, path: str | pathlib.Path) -> np.ndarray:
    """An array of an archive, or an `InputError`."""
    try:
        return archive[key]
    except ValueError as error:
        raise InputError(
            f"The array `{key}` of {path} cannot be read: {error} Expected plain numbers, since unpickling "
            "a file can run any code. Save it with a numeric dtype."
        ) from error
    except _UNREADABLE as error:
        raise _unreadable(path, error) from error


def _unreadable(path, reason) -> InputError:
    return InputError(
        f"The data file {path} is not a NumPy archive, or it is truncated. Expected a file written by "
        f"`numpy.savez`. Received: {reason}."
    )


def _images(images, key):
    if images.ndim == 3:
        images = images[..., np.newaxis]
    check(
        images.ndim == 4 and images.shape[-1] > 0,
        f"Invalid shape of `{key}`. Expected [N, H, W] or [N, H, W, C]. Received: shape={images.shape}.",
    )
    return images


def _labels(labels, key):
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    remedy = " For one-hot labels, save `labels.argmax(1)`." if labels.ndim == 2 else ""
    check(
        labels.ndim == 1,
        f"Invalid shape of `{key}`. Expected [N] or [N, 1]. Received: shape={labels.shape}.{remedy}",
    )
    return labels
