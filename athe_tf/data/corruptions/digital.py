"""Digital corruptions: effects of image processing."""

import numpy as np
import tensorflow as tf

from athe_tf.data.corruptions.resampling import along_sides, gaussian, sample
from athe_tf.utils.errors import check
from athe_tf.utils.images_and_labels import to_levels


def contrast(images, factor, _):
    """Moves every pixel towards the mean of its channel."""
    mean = images.mean(axis=(1, 2), keepdims=True)
    return (images - mean) * np.float32(factor) + mean


def saturate(images, constants, _):
    """Scales the saturation of each pixel in HSV space and adds to it, keeping hue and value."""
    check(
        images.shape[-1] == 3,
        f"The corruption 'saturate' needs color images. Expected 3 channels. Received: {images.shape[-1]}.",
    )
    factor, amount = constants
    value = images.max(axis=-1, keepdims=True)
    depth = value - images
    saturation = depth.max(axis=-1, keepdims=True) / np.where(value > 0, value, 1)
    wanted = np.clip(saturation * factor + amount, 0, 1)
    # A gray pixel has the hue 0, which is red: its green and blue are reduced.
    red = value * np.array([0, 1, 1], np.float32) * wanted
    scaled = depth * wanted / np.where(saturation > 0, saturation, 1)
    return value - np.where(saturation > 0, scaled, red)


def pixelate(images, share, _):
    """Larger pixels: shrinks each side to a fraction of it, and enlarges it again."""
    sizes = ((size, max(1, int(size * share))) for size in images.shape[1:3])
    there_and_back = (_box_matrix(small, size) @ _box_matrix(size, small) for size, small in sizes)
    return along_sides(images, *there_and_back)


def _box_matrix(size: int, new_size: int):
    """The matrix that resizes a side: each new pixel is the mean of the pixels whose centers it covers."""
    scale = size / new_size
    centers = (np.arange(new_size) + 0.5) * scale
    away = (np.arange(size) + 0.5 - centers[:, np.newaxis]) / max(scale, 1.0)
    covered = (away > -0.5) & (away <= 0.5)
    return (covered / covered.sum(axis=1, keepdims=True)).astype(np.float32)


def jpeg_compression(images, quality, _):
    """Writes and reads each image as a JPEG file of this quality."""
    decoded = [
        tf.io.decode_jpeg(tf.io.encode_jpeg(image, quality=quality), dct_method="INTEGER_ACCURATE").numpy()
        for image in to_levels(images)
    ]
    return np.stack(decoded).astype(np.float32) / np.float32(255)


def elastic_transform(images, constants, draws):
    """Stretches the image: a random affine map, then a random smooth displacement field.

    `constants` are the strength and the smoothness of the field and the moves of the affine map, in units of
    the shorter side.
    """
    strength, smoothness, affine = (value * min(images.shape[1:3]) for value in constants)
    rows, columns = affine_places(images.shape, affine, draws)
    warped = sample(images, rows, columns, "mirror")
    size = images.shape[1:3]
    noise = draws.uniform((*size, 2), -1.0, 1.0)
    field = strength * gaussian(noise, smoothness, truncate=3.0, border="reflect")
    rows, columns = np.meshgrid(*(np.arange(side) for side in size), indexing="ij")
    return sample(warped, rows + field[..., 0], columns + field[..., 1], "reflect")


def affine_places(shape, reach, draws):
    """Where each pixel of an affinely moved image comes from: rows and columns `[N, H, W]`.

    Three corners of a square in the middle of the image move by up to `reach` pixels in both directions.
    """
    count, height, width, _ = shape
    middle, side = np.array([width // 2, height // 2]), max(1, min(height, width) // 3)
    corners = middle + side * np.array([[1, 1], [1, -1], [-1, -1]])
    moved = corners + draws.uniform((3, 2), -reach, reach).astype(np.float64)
    # From the new place of a corner back to the old one.
    ones = np.ones([count, 3, 1])
    back = np.linalg.solve(np.concatenate([moved, ones], axis=2), np.broadcast_to(corners, [count, 3, 2]))
    rows, columns = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    places = np.stack([columns, rows, np.ones_like(rows)], axis=-1).reshape(-1, 3) @ back
    places = places.reshape(count, height, width, 2)
    return places[..., 1], places[..., 0]
