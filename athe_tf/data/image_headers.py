"""What an image file declares of its size and colors, read from its first bytes before it is decoded."""

import pathlib
import struct
from typing import BinaryIO, NamedTuple

from athe_tf.utils.errors import InputError, check, first_line

# A photograph of a large camera has 100 million pixels. Decoders allocate what a header declares.
LARGEST_PIXELS = 2**27


class ImageHeader(NamedTuple):
    """What a file declares; zeros if its header is not understood: the decoder will say so."""

    height: int = 0
    width: int = 0
    #: 1 for gray, 3 for color, without transparency.
    channels: int = 0


def read_header(path: pathlib.Path) -> ImageHeader:
    """The header of an image file.

    Raises `InputError` if a PNG, JPEG, GIF or BMP file declares more pixels than any photograph has.
    """
    try:
        with open(path, "rb") as file:
            header = _header(file)
    except OSError as error:
        raise InputError(
            f"The file {path} cannot be read: {first_line(error)}. Change its permissions, or remove it."
        ) from error
    check(
        header.height * header.width <= LARGEST_PIXELS,
        f"The file {path} declares {header.height} x {header.width} pixels. Expected at most "
        f"{LARGEST_PIXELS:,} pixels. Remove it, or save it again.",
    )
    return header


def _header(file: BinaryIO) -> ImageHeader:
    start = file.read(26)
    channels = 3
    if start.startswith(b"\x89PNG") and len(start) == 26:
        width, height = struct.unpack(">II", start[16:24])
        # Gray, with or without transparency.
        channels = 1 if start[25] in (0, 4) else 3
    elif start.startswith(b"GIF8") and len(start) >= 10:
        width, height = struct.unpack("<HH", start[6:10])
    elif start.startswith(b"BM") and len(start) == 26:
        width, height = struct.unpack("<ii", start[18:26])
    elif start.startswith(b"\xff\xd8"):
        return _jpeg_header(file)
    else:
        return ImageHeader()
    return ImageHeader(abs(height), abs(width), channels)


def _jpeg_header(file: BinaryIO) -> ImageHeader:
    """The first frame header of a JPEG file."""
    file.seek(2)
    while len(start := file.read(4)) == 4 and start[0] == 0xFF:
        marker, length = start[1], struct.unpack(">H", start[2:])[0]
        # Frame headers are C0 to CF, but for the tables C4 and CC and the extension C8.
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            body = file.read(6)
            if len(body) < 6:
                return ImageHeader()
            height, width = struct.unpack(">HH", body[1:5])
            return ImageHeader(height, width, 1 if body[5] == 1 else 3)
        file.seek(max(length, 2) - 2, 1)
    return ImageHeader()
