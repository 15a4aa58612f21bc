"""Blurring, zooming and warping of batches of images `[N, H, W, C]`.

Results do not depend on the batch. What lies outside of an image is named as in `scipy.ndimage`: `"nearest"`
repeats the last pixel, `"mirror"` mirrors at its center, `"reflect"` at its edge.
"""

import numpy as np
from scipy import ndimage


def gaussian(images, sigma: float, *, truncate=4.0, border="nearest"):
    """Gaussian blur with standard deviation `sigma` in pixels."""
    return ndimage.gaussian_filter(images, (0, sigma, sigma, 0), truncate=truncate, mode=border)


def zoom(images, factor: float):
    """Enlarges the middle of the images, which keep their size."""
    return along_sides(images, *(_zoom_matrix(size, factor) for size in images.shape[1:3]))


def _zoom_matrix(size: int, factor: float):
    """The matrix that enlarges the middle of a side: what becomes of the unit vectors."""
    crop = int(np.ceil(size / factor))
    top = (size - crop) // 2
    middle = np.eye(size, dtype=np.float32)[top : top + crop]
    enlarged = ndimage.zoom(middle, (factor, 1), order=1, mode="nearest")
    first = (len(enlarged) - size) // 2
    return enlarged[first : first + size]


def along_sides(images, rows, columns):
    """Applies the matrix `rows` `[H', H]` from top to bottom and `columns` `[W', W]` from left to right."""
    # One product per image and channel: rounding in a joint product would depend on the number of images.
    return np.moveaxis(rows @ np.moveaxis(images, -1, 1) @ columns.T, 1, -1)


def correlate(images, kernel):
    """Every pixel becomes the sum of its neighbors, weighted by a kernel of odd size."""
    return ndimage.correlate(images, kernel[np.newaxis, :, :, np.newaxis], mode="mirror")


def line_blur(images, radius: int, sigma: float, degrees):
    """Blurs each image along a line in its own direction of `degrees`, `[N]`, as a shaken camera does.

    The weights are half of a Gaussian over `2 * radius + 1` pixels that begin at the pixel itself, and the
    pixels of the line are rounded to whole ones: ImageMagick's motion blur, which the published images used.
    """
    height, width = images.shape[1:3]
    reach = 2 * radius
    weights = np.exp(-0.5 * (np.arange(reach + 1) / sigma) ** 2)
    weights = (weights / weights.sum()).astype(np.float32)
    angles = np.deg2rad(np.asarray(degrees, np.float64))[:, np.newaxis]
    tops, lefts = (
        reach + np.rint(np.arange(reach + 1) * part).astype(np.int64)
        for part in (np.sin(angles), np.cos(angles))
    )
    padded = np.pad(images, ((0, 0), (reach, reach), (reach, reach), (0, 0)), "edge")
    result = np.zeros_like(images)
    # Image by image: slicing one image is several times faster than a gather over all.
    for total, image, *line in zip(result, padded, tops, lefts, strict=True):
        for weight, top, left in zip(weights, *line, strict=True):
            total += weight * image[top : top + height, left : left + width]
    return result


def sample(images, rows, columns, border: str):
    """The images at places between pixels, by bilinear interpolation.

    `rows` and `columns` are `[N, H, W]`, the coordinates of each new pixel.
    """
    result = np.empty_like(images)
    for new, image, *places in zip(result, images, rows, columns, strict=True):
        for channel in range(images.shape[-1]):
            ndimage.map_coordinates(image[..., channel], places, new[..., channel], order=1, mode=border)
    return result
