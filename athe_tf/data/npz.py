"""`npz:PATH`: the user's own images, as a NumPy archive.

    np.savez("mine.npz", x_train=..., y_train=..., x_test=..., y_test=...)

Images are `[N, H, W, C]` or `[N, H, W]`, uint8 or float in [0, 1]; labels are integers `0..L-1`, `[N]` or
`[N, 1]`. `x_validation` and `y_validation` are optional, and so are the training images of a set that is used
for testing only; `class_names` are the names of the classes. Extra training images (see `with_extra`) are an
archive with `image` and `label`. NumPy only: files can be checked before TensorFlow starts, and what an
archive of unknown origin declares is checked before anything is read into memory.
"""

import math
import pathlib
import zipfile
from typing import Any

import numpy as np

from athe_tf.utils import images_and_labels as rules
from athe_tf.utils.errors import InputError, check, first_line
from athe_tf.utils.machine import available_memory

KEYS = ("x_train", "y_train", "x_test", "y_test")
_VALIDATION_KEYS = ("x_validation", "y_validation")
#: The keys of an archive of extra images.
EXTRA_IMAGES, EXTRA_LABELS = "image", "label"
# Images and labels shrink by less than this; a larger archive that shrinks by more is not believed.
LARGEST_RATIO = 200
BELIEVED_BYTES = 2**30


class Archive:
    """An `.npz` file: a context manager with the names of its arrays, which `read` returns.

    Example:

    >>> np.savez("two.npz", a=np.arange(3), b=np.zeros(2))
    >>> with Archive("two.npz") as archive:
    ...     archive.names, archive.read("a")
    (['a', 'b'], array([0, 1, 2]))

    Args:
        path: The file.
    """

    def __init__(self, path: str | pathlib.Path):
        self.path = pathlib.Path(path).expanduser()
        try:
            regular = self.path.is_file()
        except (OSError, ValueError) as error:
            raise InputError(f"The data file '{self.path}' cannot be opened: {first_line(error)}.") from error
        check(regular, f"No such data file. Expected a NumPy archive (.npz). Received: '{self.path}'.")
        try:
            self._zip = zipfile.ZipFile(self.path)
        except PermissionError as error:
            raise InputError(
                f"The data file {self.path} may not be read: {first_line(error)}. Change its permissions."
            ) from error
        except Exception as error:
            raise self._unreadable(first_line(error)) from error
        self._members = {info.filename.removesuffix(".npy"): info for info in self._zip.infolist()}
        self.names = sorted(self._members)

    def __enter__(self) -> "Archive":
        return self

    def __exit__(self, *exception) -> None:
        self._zip.close()

    def declared(self, name: str, in_memory: bool = True) -> tuple[tuple[int, ...], np.dtype]:
        """Shape and dtype of an array, without reading it; raises `InputError` if it cannot be read."""
        info = self._members[name]
        check(
            not info.flag_bits & 1,
            f"The array `{name}` of {self.path} is encrypted. Save it with `numpy.savez`.",
        )
        try:
            with self._zip.open(info) as file:
                shape, dtype, _ = _header(file)
                size = math.prod(shape) * dtype.itemsize
                stored = info.file_size - file.tell()
        # Damaged headers make NumPy and the zip reader raise a dozen kinds of errors.
        except Exception as error:
            raise self._unreadable(f"`{name}`: {first_line(error)}") from error
        check(
            not dtype.hasobject,
            f"The array `{name}` of {self.path} cannot be read: it contains Python objects. Expected plain "
            "numbers, since unpickling a file can run any code. Save it with a numeric dtype.",
        )
        check(
            size == stored,
            f"The array `{name}` of {self.path} is damaged: {size:,} bytes according to its shape {shape}, "
            f"{stored:,} bytes in the file. Save it again.",
        )
        check(
            not in_memory or size < available_memory(),
            f"The array `{name}` of {self.path} does not fit in memory: {size / 2**30:.1f} GiB. Save fewer "
            "images, or convert them to a TensorFlow Datasets set; extra images need no memory in a file of "
            "`numpy.savez`, which does not compress.",
        )
        check(
            size < BELIEVED_BYTES or size < LARGEST_RATIO * info.compress_size,
            f"The array `{name}` of {self.path} grows from {info.compress_size:,} to {size:,} bytes, as in "
            "archives that are made to fill the memory. If you trust it, save it with `numpy.savez`, which "
            "does not compress.",
        )
        return shape, dtype

    def read(self, name: str) -> np.ndarray:
        """An array; raises `InputError` if it cannot be read, or does not fit in memory."""
        self.declared(name)
        try:
            with self._zip.open(self._members[name]) as file:
                return np.lib.format.read_array(file, allow_pickle=False)
        except Exception as error:
            raise self._unreadable(f"`{name}`: {first_line(error)}") from error

    def map(self, name: str) -> np.ndarray:
        """As `read`, but a memory map, whatever its size, if the archive is not compressed."""
        info = self._members[name]
        if info.compress_type != zipfile.ZIP_STORED:
            return self.read(name)
        shape, dtype = self.declared(name, in_memory=False)
        with open(self.path, "rb") as file:
            # The header of a member is 30 bytes and two fields, whose lengths are the last of those bytes.
            file.seek(info.header_offset + 26)
            file.seek(int.from_bytes(file.read(2), "little") + int.from_bytes(file.read(2), "little"), 1)
            in_columns = _header(file)[2]
            return np.memmap(
                self.path, dtype, mode="r", offset=file.tell(), shape=shape, order="F" if in_columns else "C"
            )

    def _unreadable(self, reason: str) -> InputError:
        return InputError(
            f"The data file {self.path} is not a NumPy archive, or it is truncated. Expected a file written "
            f"by `numpy.savez`. Received: {reason}."
        )


def _header(file) -> tuple[tuple[int, ...], Any, bool]:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, columns_first, dtype = read(file)
    if any(side < 0 for side in shape):
        raise ValueError(f"a negative shape {shape}")
    return shape, dtype, columns_first


def check_file(path: str | pathlib.Path) -> None:
    """Raises `InputError` unless `path` is an archive of a data set, by its keys, headers and labels."""
    with Archive(path) as archive:
        _check_keys(archive)
        names = _class_names(archive)
        sizes = {part: _check_declared_images(archive, f"x_{part}") for part in _parts_of(archive)}
        classes = len(names) if names else None
        for part, size in sizes.items():
            labels = _labels(archive, f"y_{part}")
            rules.check_labels(labels, size, f"y_{part}")
            if part == "train":
                classes = rules.count_classes(labels, f"y_{part}")
            rules.check_classes(labels, classes, f"y_{part}", rules.SAME_CLASSES)
        check(
            not names or len(names) == classes,
            f"The data file {archive.path} has {len(names or ())} `class_names` for {classes} classes. Save "
            "one name per class.",
        )


def extra_arrays(path: str | pathlib.Path, labelled_by_model: bool) -> list[np.ndarray]:
    """The images of a file, and the labels if no model gives them; memory maps where it is not compressed."""
    path, count = pathlib.Path(path).expanduser(), 1 if labelled_by_model else 2
    if path.suffix == ".npy":
        try:
            return [np.load(each, mmap_mode="r", allow_pickle=False) for each in _npy_files(path)[:count]]
        except Exception as error:
            raise InputError(f"{path} is not an array of `numpy.save`: {first_line(error)}.") from error
    with Archive(path) as archive:
        return [archive.map(name) for name in (EXTRA_IMAGES, EXTRA_LABELS)[:count]]


def _npy_files(path: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    return path, path.with_suffix(".label.npy")


def check_extra_file(path: str | pathlib.Path, labelled_by_model: bool) -> None:
    """Raises `InputError` unless `path` is an archive of extra images, or a `.npy` file of them.

    Labels must be there if no model gives them.
    """
    path = pathlib.Path(path).expanduser()
    if path.suffix == ".npy":
        for file, remedy in zip(
            _npy_files(path), ("Save images with `numpy.save`", "Save labels there"), strict=True
        ):
            check(
                file.is_file() or (labelled_by_model and file != path),
                f"No such file of extra images or labels. Received: '{file}'. {remedy}, or use an .npz file.",
            )
        return
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


def read(
    path: str | pathlib.Path, only: str | None = None
) -> tuple[dict[str, tuple[np.ndarray, np.ndarray]], tuple[str, ...] | None]:
    """The arrays of an archive that passes `check_file`, `{"train": (images, labels), ...}`, and the names of
    its classes, or `None`.

    Images are `[N, H, W, C]`. With `only`, they are those of one split (of `train` if that has to be held
    out), and a memory map where the archive is not compressed.
    """
    with Archive(path) as archive:
        known = _parts_of(archive)
        chosen = [only] if only in known else ["train"]
        if only is None:
            images = {part: archive.read(f"x_{part}") for part in known}
        else:
            images = {part: archive.map(f"x_{part}") for part in chosen}
        parts = {
            part: (x[..., np.newaxis] if x.ndim == 3 else x, _labels(archive, f"y_{part}"))
            for part, x in images.items()
        }
        return parts, _class_names(archive)


def _class_names(archive: Archive) -> tuple[str, ...] | None:
    return tuple(map(str, np.ravel(archive.read("class_names")))) if "class_names" in archive.names else None


def _check_keys(archive: Archive) -> None:
    validated = any(key in archive.names for key in _VALIDATION_KEYS)
    tested = not any(key in archive.names for key in (*KEYS[:2], *_VALIDATION_KEYS))
    wanted = KEYS[2:] if tested else KEYS + _VALIDATION_KEYS if validated else KEYS
    missing = [key for key in wanted if key not in archive.names]
    if missing:
        raise InputError(
            f"The data file {archive.path} lacks {missing}. Expected the keys {list(KEYS)} and, optionally, "
            f"{list(_VALIDATION_KEYS)}; for testing only, {list(KEYS[2:])}. Received: {archive.names}."
        )


def _parts_of(archive: Archive) -> list[str]:
    return [part for part in ("train", "validation", "test") if f"x_{part}" in archive.names]


def _check_declared_images(archive: Archive, key: str) -> int:
    """The number of images; raises `InputError` unless an array's header describes images."""
    shape, dtype = archive.declared(key)
    check(
        len(shape) == 3 or (len(shape) == 4 and shape[-1] > 0),
        f"Invalid shape of `{key}`. Expected [N, H, W] or [N, H, W, C]. Received: shape={shape}.",
    )
    rules.check_image_type(shape if len(shape) == 4 else (*shape, 1), dtype, key)
    return shape[0]


def count_of_classes(path: str | pathlib.Path) -> int:
    """The number of classes of an archive."""
    with Archive(path) as archive:
        if "y_train" in archive.names:
            return rules.count_classes(_labels(archive, "y_train"), "y_train")
        # For testing only: classes without an image are not known, unless they have names.
        return len(_class_names(archive) or ()) or max(2, int(_labels(archive, "y_test").max()) + 1)


def _labels(archive: Archive, key: str) -> np.ndarray:
    labels = archive.read(key)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    remedy = " For one-hot labels, save `labels.argmax(1)`." if labels.ndim == 2 else ""
    check(
        labels.ndim == 1,
        f"Invalid shape of `{key}`. Expected [N] or [N, 1]. Received: shape={labels.shape}.{remedy}",
    )
    return labels
