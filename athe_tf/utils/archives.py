"""NumPy archives of unknown origin: what they declare is checked before anything is read into memory."""

import math
import pathlib
import zipfile
from typing import Any

import numpy as np
import psutil

from athe_tf.utils.errors import InputError, check, first_line

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

    def declared(self, name: str) -> tuple[tuple[int, ...], np.dtype]:
        """Shape and dtype of an array, without reading it; raises `InputError` if it cannot be read."""
        try:
            return self._check_declared(name)
        except InputError:
            raise
        # Damaged headers make NumPy and the zip reader raise a dozen kinds of errors.
        except Exception as error:
            raise self._unreadable(f"`{name}`: {first_line(error)}") from error

    def read(self, name: str) -> np.ndarray:
        """An array; raises `InputError` if it cannot be read, or does not fit in memory."""
        self.declared(name)
        try:
            with self._zip.open(self._members[name]) as file:
                return np.lib.format.read_array(file, allow_pickle=False)
        except Exception as error:
            raise self._unreadable(f"`{name}`: {first_line(error)}") from error

    def _check_declared(self, name: str) -> tuple[tuple[int, ...], np.dtype]:
        """Shape and dtype; an error unless the headers fit together and the array fits in memory."""
        info = self._members[name]
        check(
            not info.flag_bits & 1,
            f"The array `{name}` of {self.path} is encrypted. Save it with `numpy.savez`.",
        )
        with self._zip.open(info) as file:
            shape, dtype = _header(file)
            size = math.prod(shape) * dtype.itemsize
            stored = info.file_size - file.tell()
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
            size < available_memory(),
            f"The array `{name}` of {self.path} does not fit in memory: {size / 2**30:.1f} GiB. Save fewer "
            "images, or convert them to a TensorFlow Datasets set.",
        )
        check(
            size < BELIEVED_BYTES or size < LARGEST_RATIO * info.compress_size,
            f"The array `{name}` of {self.path} grows from {info.compress_size:,} to {size:,} bytes, as in "
            "archives that are made to fill the memory. If you trust it, save it with `numpy.savez`, which "
            "does not compress.",
        )
        return shape, dtype

    def _unreadable(self, reason: str) -> InputError:
        return InputError(
            f"The data file {self.path} is not a NumPy archive, or it is truncated. Expected a file written "
            f"by `numpy.savez`. Received: {reason}."
        )


def _header(file) -> tuple[tuple[int, ...], Any]:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    if any(side < 0 for side in shape):
        raise ValueError(f"a negative shape {shape}")
    return shape, dtype


def available_memory() -> int:
    """Bytes of memory that this machine can still give."""
    return psutil.virtual_memory().available
