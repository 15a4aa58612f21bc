"""Images and figures as PNG, in memory and in files."""

import base64
import io
import pathlib

import numpy as np
from PIL import Image

from athe_tf.utils.images_and_labels import to_levels

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def encode(image: np.ndarray) -> bytes:
    """Encodes an image `[H, W]` or `[H, W, C]` with values in [0, 1] as a PNG file.

    Only the first channel of two, or the first three of more, are shown.
    """
    pixels = np.atleast_3d(np.asarray(image, "float64"))
    pixels = pixels[..., :3] if pixels.shape[-1] >= 3 else pixels[..., 0]
    file = io.BytesIO()
    Image.fromarray(to_levels(np.nan_to_num(pixels))).save(file, "PNG", optimize=True)
    return file.getvalue()


def data_uri(content: bytes) -> str:
    """The content of a PNG file as a data URI, for `<img src=...>`."""
    return "data:image/png;base64," + base64.b64encode(content).decode("ascii")


def write_figure(figure, path: pathlib.Path) -> None:
    """Writes a figure of matplotlib with a palette of 256 colors, which takes a third of the space."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png")
    Image.open(drawn).convert("RGB").quantize(256).save(path, "PNG", optimize=True)
