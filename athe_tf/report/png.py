"""PNG files, without an imaging library."""

import base64
import struct
import zlib

import numpy as np

from athe_tf.utils.images_and_labels import to_levels

SIGNATURE = b"\x89PNG\r\n\x1a\n"
GRAY, COLOR = 0, 2


def encode(image: np.ndarray) -> bytes:
    """Encodes an image `[H, W]` or `[H, W, C]` with values in [0, 1] as a PNG file.

    Only the first channel of two, or the first three of more, are shown.
    """
    pixels = np.atleast_3d(np.asarray(image, "float64"))
    pixels = pixels[..., :3] if pixels.shape[-1] >= 3 else pixels[..., :1]
    data = to_levels(np.nan_to_num(pixels))
    height, width, channels = data.shape
    header = struct.pack(">IIBBBBB", width, height, 8, COLOR if channels == 3 else GRAY, 0, 0, 0)
    # Every row starts with the number of its filter; 0 means none.
    rows = np.hstack([np.zeros((height, 1), "uint8"), data.reshape(height, -1)])
    packed = zlib.compress(rows.tobytes(), 9)
    return SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", packed) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def data_uri(image: np.ndarray) -> str:
    """An image as a data URI, for `<img src=...>`."""
    return as_data_uri(encode(image))


def as_data_uri(content: bytes) -> str:
    """The content of a PNG file as a data URI."""
    return "data:image/png;base64," + base64.b64encode(content).decode("ascii")
