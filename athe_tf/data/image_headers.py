"""The size that an image file declares, read from its first bytes before it is decoded."""

import pathlib
import struct
from typing import BinaryIO

from athe_tf.utils.errors import InputError, check

# A photograph of a large camera has 100 million pixels. Decoders allocate what a header declares.
LARGEST_PIXELS = 2**27


def check_image_size(path: pathlib.Path) -> None:
    """Raises `InputError` if a PNG, JPEG, GIF or BMP file declares more pixels than any photograph has."""
    try:
        with open(path, "rb") as file:
            height, width = _declared_size(file)
    except OSError as error:
        raise InputError(
            f"The file {path} cannot be read: {error.strerror}. Change its permissions, or remove it."
        ) from error
    check(
        height * width <= LARGEST_PIXELS,
        f"The file {path} declares {height} x {width} pixels. Expected at most {LARGEST_PIXELS:,} pixels. "
        "Remove it, or save it again.",
    )


def _declared_size(file: BinaryIO) -> tuple[int, int]:
    """`(height, width)`; zeros if the header is not understood: the decoder will say so."""
    start = file.read(26)
    if start.startswith(b"\x89PNG") and len(start) >= 24:
        width, height = struct.unpack(">II", start[16:24])
    elif start.startswith(b"GIF8") and len(start) >= 10:
        width, height = struct.unpack("<HH", start[6:10])
    elif start.startswith(b"BM") and len(start) == 26:
        width, height = struct.unpack("<ii", start[18:26])
    elif start.startswith(b"\xff\xd8"):
        return _jpeg_size(file)
    else:
        return 0, 0
    return abs(height), abs(width)


def _jpeg_size(file: BinaryIO) -> tuple[int, int]:
    """The size in the first frame header of a JPEG file."""
    file.seek(2)
    while len(start := file.read(4)) == 4 and start[0] == 0xFF:
        marker, length = start[1], struct.unpack(">H", start[2:])[0]
        # Frame headers are C0 to CF, but for the tables C4 and CC and the extension C8.
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            body = file.read(5)
            return struct.unpack(">HH", body[1:]) if len(body) == 5 else (0, 0)
        file.seek(max(length, 2) - 2, 1)
    return 0, 0
