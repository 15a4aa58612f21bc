"""Blur: out of focus, behind glass, by a moving or zooming camera."""

import numpy as np
from scipy import ndimage

from athe_tf.data.corruptions.resampling import correlate, gaussian, line_blur, zoom


def gaussian_blur(images, sigma, _):
    """A Gaussian blur of `sigma` pixels."""
    return gaussian(images, sigma)


def defocus_blur(images, constants, _):
    """Every point becomes a disc; `constants` are its radius and the blur of its rim."""
    return correlate(images, disc(*constants))


def disc(radius, rim):
    """A disc with sum 1, blurred over 3 x 3 pixels, or 5 x 5 above a radius of 8."""
    blur = 1 if radius <= 8 else 2
    place = np.arange(-int(radius) - blur, int(radius) + blur + 1)
    inside = (place**2 + place[:, np.newaxis] ** 2 <= radius**2).astype(np.float64)
    inside = ndimage.gaussian_filter(inside, rim, radius=blur, mode="constant")
    return inside / inside.sum()


def glass_blur(images, constants, draws):
    """Frosted glass: a blur, pixels replaced by near ones, and the blur again.

    `constants` are the standard deviation of the blur, how far a pixel may come from, and how often.
    """
    sigma, reach, rounds = constants
    count, height, width, channels = images.shape
    blurred = gaussian(images, sigma)
    origin = np.broadcast_to(np.arange(height * width), [count, height * width]).copy()
    for _ in range(rounds):
        scatter(origin, draws.integers((height * width, 2), -reach, reach), (height, width), reach)
    flat = blurred.reshape(count, height * width, channels)
    return gaussian(np.take_along_axis(flat, origin[..., np.newaxis], 1).reshape(images.shape), sigma)


def scatter(origin, moves, size, reach) -> None:
    """Every pixel, from the last to the first, takes the value of a random neighbour.

    The published script means to swap the two, but its assignment between views of one array copies. The
    published images are of that kind, and so are ours.

    Args:
        origin: `[N, H * W]`, the pixel at each place; changed in place.
        moves: `[N, H * W, 2]`, from each pixel to its neighbour, down and right.
        size: `(height, width)`.
        reach: Moves are in `[-reach, reach)`, and this much of the border stays.
    """
    height, width = size
    inner = (np.arange(reach + 1, side - reach + 1) for side in size)
    rows, columns = (place.ravel() for place in np.meshgrid(*inner, indexing="ij"))
    # Pixels of one wave are 2 * reach columns apart or more, row after row: they do not share
    # neighbours, so the result is that of processing pixels one by one.
    wave = 2 * reach * (height - rows) + (width - columns)
    order = np.argsort(wave, kind="stable")
    which = np.arange(len(origin))[:, np.newaxis]
    for members in np.split(order, np.flatnonzero(np.diff(wave[order])) + 1):
        pixels = rows[members] * width + columns[members]
        down, right = moves[:, pixels, 0], moves[:, pixels, 1]
        origin[:, pixels] = origin[which, pixels + down * width + right]


def motion_blur(images, constants, draws):
    """Camera shake; `constants` are the radius and the standard deviation of the line."""
    radius, sigma = constants
    return line_blur(images, radius, sigma, draws.uniform((), -45.0, 45.0))


def zoom_blur(images, constants, draws):
    """A camera that moves towards the scene: the mean of the image and of enlarged ones.

    `constants` are the end and the step of the factors of enlargement, which begin at 1.
    """
    factors = np.arange(1, *constants)
    total = images.copy()
    for factor in factors:
        total += zoom(images, factor)
    return total / np.float32(len(factors) + 1)
