"""`npz:PATH`: a data set of the user's own, as a NumPy archive.

    np.savez("mine.npz", x_train=..., y_train=..., x_test=..., y_test=...)

Images are `[N, H, W, C]` or `[N, H, W]`, uint8 or float in [0, 1]; labels are integers `0..L-1`, `[N]` or
`[N, 1]`. `x_validation` and `y_validation` are optional. NumPy only: the file can be checked before
TensorFlow starts.
"""

import pathlib
import zipfile
import zlib

import numpy as np

from athe_tf.data.splits import Splits, from_arrays
from athe_tf.utils.errors import InputError, check

KEYS = ("x_train", "y_train", "x_test", "y_test")
_VALIDATION_KEYS = ("x_validation", "y_validation")

# What NumPy and the zip reader raise on a file that is no archive, or is cut short.
_UNREADABLE = (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error)


def load(name, validation_size=None, image_size=None) -> Splits:
    """The splits of `name`, which is `"npz:PATH"`."""
    parts = read(name.removeprefix("npz:"))
    return from_arrays(name, parts, validation_size=validation_size, image_size=image_size)


def check_file(path) -> None:
    """Raises `InputError` unless `path` is a readable archive with the keys of a data set."""
    _open(path).close()


def read(path) -> dict:
    """The arrays of an archive: `{"train": (images, labels), ...}`, images `[N, H, W, C]`."""
    archive = _open(path)
    with archive:
        keys = [key for key in (*KEYS, *_VALIDATION_KEYS) if key in archive.files]
        arrays = {key: read_member(archive, key, path) for key in keys}
    parts = {}
    for part in ("train", "validation", "test"):
        if f"x_{part}" in arrays:
            parts[part] = (
                _images(arrays.pop(f"x_{part}"), f"x_{part}"),
                _labels(arrays.pop(f"y_{part}"), f"y_{part}"),
            )
    return parts


def open_archive(path):
    """The archive in a file, or an `InputError` that says why there is none."""
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
    missing = [key for key in KEYS if key not in archive.files]
    if (_VALIDATION_KEYS[0] in archive.files) != (_VALIDATION_KEYS[1] in archive.files):
        missing += [key for key in _VALIDATION_KEYS if key not in archive.files]
    if missing:
        archive.close()
        raise InputError(
            f"The data file {path} lacks {missing}. Expected the keys {list(KEYS)} and, if wanted, "
            f"{list(_VALIDATION_KEYS)}. Received: {sorted(archive.files)}."
        )
    return archive


def read_member(archive, key, path):
    """An array of an archive, or an `InputError`."""
    try:
        return archive[key]
    except ValueError as error:
        raise InputError(
            f"The array `{key}` of {path} cannot be read: {error} Expected plain numbers, since unpickling "
            f"a file runs whatever it says. Save it with a numeric dtype."
        ) from error
    except _UNREADABLE as error:
        raise _unreadable(path, error) from error


def _unreadable(path, reason) -> InputError:
    return InputError(
        f"The data file {path} is not a NumPy archive, or it is cut short. Expected a file written by "
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
