"""Blurring, zooming and warping of batches of images `[N, H, W, C]`.

What works along rows and columns separately is a matrix for each side. Results do not depend on the batch.
"""

import numpy as np


def along_sides(images, rows, columns):
    """Applies the matrix `rows` `[H', H]` from top to bottom and `columns` `[W', W]` from left to right."""
    count, height, width, channels = images.shape
    # A product for each image: one for all of them would round differently with their number.
    tall = np.matmul(rows, images.reshape(count, height, width * channels))
    tall = tall.reshape(count, -1, width, channels).swapaxes(1, 2)
    wide = np.matmul(columns, tall.reshape(count, width, -1))
    return wide.reshape(count, len(columns), len(rows), channels).swapaxes(1, 2)


def folded(index, size: int, border: str):
    """Indices brought back into `0..size-1`.

    Args:
        index: Integers.
        size: Of the side.
        border: `"edge"` repeats the last pixel, `"reflect"` mirrors at its centre, `"symmetric"` at its edge.
    """
    if border == "edge" or size == 1:
        return np.clip(index, 0, size - 1)
    period = 2 * size - 2 if border == "reflect" else 2 * size
    index = np.mod(index, period)
    return np.minimum(index, period - index - (border == "symmetric"))


def gaussian_weights(radius: int, sigma: float):
    """A normal distribution at the integers from `-radius` to `radius`, with sum 1."""
    weights = np.exp(-0.5 * (np.arange(-radius, radius + 1) / max(sigma, 1e-12)) ** 2)
    return weights / weights.sum()


def gaussian_matrix(size: int, sigma: float, *, truncate=4.0, border="edge"):
    """The matrix of a Gaussian blur along a side."""
    radius = int(truncate * sigma + 0.5)
    offsets = np.arange(-radius, radius + 1)
    weights = gaussian_weights(radius, sigma)
    matrix = np.zeros([size, size])
    source = folded(np.arange(size)[:, np.newaxis] + offsets, size, border)
    np.add.at(matrix, (np.arange(size)[:, np.newaxis], source), weights)
    return matrix.astype(np.float32)


def gaussian(images, sigma: float, *, truncate=4.0, border="edge"):
    """Gaussian blur with standard deviation `sigma` in pixels."""
    rows, columns = (
        gaussian_matrix(size, sigma, truncate=truncate, border=border) for size in images.shape[1:3]
    )
    return along_sides(images, rows, columns)


def zoom_matrix(size: int, factor: float):
    """The matrix that enlarges the middle of a side by `factor`, with linear interpolation."""
    crop = int(np.ceil(size / factor))
    enlarged = round(crop * factor)
    first = (enlarged - size) // 2
    # The ends of the crop stay its ends.
    place = np.arange(first, first + size) * ((crop - 1) / max(enlarged - 1, 1))
    lower = np.minimum(place.astype(np.int64), crop - 1)
    upper = np.minimum(lower + 1, crop - 1)
    top = (size - crop) // 2
    matrix = np.zeros([size, size])
    np.add.at(matrix, (np.arange(size), top + lower), 1 - (place - lower))
    np.add.at(matrix, (np.arange(size), top + upper), place - lower)
    return matrix.astype(np.float32)


def zoom(images, factor: float):
    """Enlarges the middle of the images, which keep their size."""
    return along_sides(images, *(zoom_matrix(size, factor) for size in images.shape[1:3]))


def box_matrix(size: int, new_size: int):
    """The matrix that resizes a side: each new pixel is the mean of the pixels whose centres it covers."""
    scale = size / new_size
    centres = (np.arange(new_size) + 0.5) * scale
    away = (np.arange(size) + 0.5 - centres[:, np.newaxis]) / max(scale, 1.0)
    covered = (away > -0.5) & (away <= 0.5)
    return (covered / covered.sum(axis=1, keepdims=True)).astype(np.float32)


def convolve(images, kernel):
    """Convolves with a symmetric kernel of odd size; the border is mirrored."""
    height, width = images.shape[1:3]
    reach = len(kernel) // 2
    padded = np.pad(images, ((0, 0), (reach, reach), (reach, reach), (0, 0)), "reflect")
    total = np.zeros_like(images)
    for row, column in zip(*np.nonzero(kernel), strict=True):
        weight = np.float32(kernel[row, column])
        total += weight * padded[:, row : row + height, column : column + width]
    return total


def line_blur(images, radius: int, sigma: float, degrees):
    """Blurs each image along a line of its own, as a shaken camera does.

    The weights are half of a Gaussian over `2 * radius + 1` pixels that begin at the pixel itself, and the
    pixels of the line are rounded to whole ones: ImageMagick's motion blur, which the published images used.

    Args:
        images: The batch.
        radius: Of the line, in pixels.
        sigma: Of the Gaussian.
        degrees: `[N]`, the direction in each image.
    """
    height, width = images.shape[1:3]
    reach = 2 * radius
    weights = gaussian_weights(reach, sigma)[reach:]
    weights = (weights / weights.sum()).astype(np.float32)
    angles = np.deg2rad(np.asarray(degrees, np.float64))[:, np.newaxis]
    tops, lefts = (
        reach + np.rint(np.arange(reach + 1) * part).astype(np.int64)
        for part in (np.sin(angles), np.cos(angles))
    )
    padded = np.pad(images, ((0, 0), (reach, reach), (reach, reach), (0, 0)), "edge")
    result = np.zeros_like(images)
    # Image by image: slices of one are several times faster than a gather over all.
    for total, image, *line in zip(result, padded, tops, lefts, strict=True):
        for weight, top, left in zip(weights, *line, strict=True):
            total += weight * image[top : top + height, left : left + width]
    return result


def sample(images, rows, columns, border: str):
    """The images at places between pixels, by bilinear interpolation.

    Args:
        images: The batch.
        rows: `[N, H, W]`, the vertical coordinate for each new pixel.
        columns: `[N, H, W]`, the horizontal one.
        border: As in `folded`.
    """
    count, height, width, _ = images.shape
    top, left = np.floor(rows).astype(np.int64), np.floor(columns).astype(np.int64)
    below, beside = rows - top, columns - left
    which = np.arange(count)[:, np.newaxis, np.newaxis]
    total = np.zeros_like(images)
    for down, right in ((0, 0), (0, 1), (1, 0), (1, 1)):
        weight = (below if down else 1 - below) * (beside if right else 1 - beside)
        source = folded(top + down, height, border), folded(left + right, width, border)
        total += weight.astype(np.float32)[..., np.newaxis] * images[which, *source]
    return total
