"""Noise on every pixel and channel.

The functions of this folder take a batch `[N, H, W, C]` of floats in [0, 1], the constants of a severity and
the random numbers to use, and return the corrupted batch, which may leave [0, 1]: the caller clips it.
"""

import math

import numpy as np
from scipy import special

from athe_tf.utils.images_and_labels import to_levels


def gaussian_noise(images, sigma, draws):
    """Adds normal noise of standard deviation `sigma`."""
    return images + np.float32(sigma) * draws.normal(images.shape[1:])


def speckle_noise(images, sigma, draws):
    """Adds normal noise proportional to the brightness of each pixel."""
    return images + images * np.float32(sigma) * draws.normal(images.shape[1:])


def impulse_noise(images, share, draws):
    """Salt and pepper: a fraction of all values becomes 0 or 1, with equal probability."""
    place = draws.uniform(images.shape[1:])
    return np.where(place < share / 2, 0, np.where(place < share, 1, images))


def shot_noise(images, photons, draws):
    """Counts photons: a pixel of brightness v is a Poisson number of mean `v * photons`, over `photons`."""
    levels = to_levels(images)
    # More than ten standard deviations: the probability of the rest is below the resolution of float32.
    most = math.ceil(photons + 10 * math.sqrt(photons) + 20)
    # The inverse of the distribution function, looked up for all 256 levels in one table: row l holds
    # values from l to l + 1.
    rows = np.arange(256)[:, np.newaxis]
    table = rows + special.pdtr(np.arange(most), rows / 255 * photons)
    chance = levels + draws.uniform(images.shape[1:]).astype(np.float64)
    counts = np.searchsorted(table.ravel(), chance.ravel(), side="right") % most
    return (counts / photons).reshape(images.shape)
