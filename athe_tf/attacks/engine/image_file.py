"""A file with room for every adversarial image of an attack."""

import contextlib
import errno
import os
import pathlib

import numpy as np

from athe_tf.utils.files import replacing

# Bytes that are written at once where a file system cannot reserve space.
CHUNK = 1 << 20
_DTYPE = np.dtype("<f4")


class ImageFile:
    """Float32 images in a `.npy` file, read and written row by row.

    The space is allocated when the file is created, and rows are written by system calls. A full disk is
    therefore an `OSError` at the beginning. A sparse memory map would be a bus error in the middle.

    Args:
        path: The file.
        shape: The shape of all images, `[N, H, W, C]`.
    """

    def __init__(self, path, shape):
        self.path = pathlib.Path(path)
        self.shape = tuple(int(size) for size in shape)
        self.row_bytes = int(np.prod(self.shape[1:], dtype=np.int64)) * _DTYPE.itemsize

    def is_complete(self) -> bool:
        """Whether the file exists, and has room for exactly these images."""
        try:
            with open(self.path, "rb") as file:
                return self._first_byte(file) + self.shape[0] * self.row_bytes == os.path.getsize(self.path)
        except (OSError, ValueError):
            return False

    def write(self, images: np.ndarray, rows: np.ndarray) -> None:
        """Writes those rows of an array of all images, and waits until they are on the disk."""
        if not self.is_complete():
            self._create()
        with open(self.path, "r+b") as file:
            first = self._first_byte(file)
            for row in rows:
                file.seek(first + int(row) * self.row_bytes)
                file.write(np.ascontiguousarray(images[row], _DTYPE).data)
            file.flush()
            os.fsync(file.fileno())

    def read(self, rows: np.ndarray) -> np.ndarray:
        """The images of those rows of a complete file."""
        found = np.empty((len(rows), *self.shape[1:]), _DTYPE)
        with open(self.path, "rb") as file:
            first = self._first_byte(file)
            for position, row in enumerate(rows):
                file.seek(first + int(row) * self.row_bytes)
                found[position] = np.frombuffer(file.read(self.row_bytes), _DTYPE).reshape(self.shape[1:])
        return found

    def _create(self) -> None:
        with replacing(self.path) as temporary, open(temporary, "r+b") as file:
            header = {"descr": _DTYPE.str, "fortran_order": False, "shape": self.shape}
            np.lib.format.write_array_header_1_0(file, header)
            file.flush()
            allocate(file, file.tell(), self.shape[0] * self.row_bytes)

    def _first_byte(self, file) -> int:
        """Where the images start; raises `ValueError` if the file is not for these images."""
        if np.lib.format.read_magic(file) != (1, 0):
            raise ValueError("another version of the format")
        shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(file)
        if (shape, fortran_order, dtype) != (self.shape, False, _DTYPE):
            raise ValueError("other images")
        return file.tell()


def allocate(file, offset: int, size: int) -> None:
    """Reserves the space of `size` bytes in an open file; raises `OSError` if the disk is full.

    Where the file system or the platform cannot reserve space, zeros are written.
    """
    if not size:
        return
    with contextlib.suppress(AttributeError):  # macOS has no such function
        try:
            os.posix_fallocate(file.fileno(), offset, size)
            return
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                raise
    file.seek(offset)
    for start in range(0, size, CHUNK):
        file.write(bytes(min(CHUNK, size - start)))
    file.flush()
