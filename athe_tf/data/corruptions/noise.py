"""Noise on every pixel and channel.

The functions of this folder take a batch `[N, H, W, C]` of floats in [0, 1], the constants of a severity and
the random numbers to use, and return the corrupted batch, which may leave [0, 1]: whoever calls clips it.
"""

import math

import numpy as np


def gaussian_noise(images, sigma, draws):
    """Adds normal noise of standard deviation `sigma`."""
    return images + np.float32(sigma) * draws.normal(images.shape[1:])


def speckle_noise(images, sigma, draws):
    """Adds normal noise in proportion to the brightness of each pixel."""
    return images + images * np.float32(sigma) * draws.normal(images.shape[1:])


def impulse_noise(images, share, draws):
    """Salt and pepper: a share of all values becomes 0 or 1, with equal chances."""
    place = draws.uniform(images.shape[1:])
    return np.where(place < share / 2, 0, np.where(place < share, 1, images))


def shot_noise(images, photons, draws):
    """Counts photons: a pixel of brightness v is a Poisson number of mean `v * photons`, over `photons`."""
    levels = np.rint(images * 255).astype(np.int64)
    # The inverse of the distribution function, looked up for all 256 levels in one table: row l holds
    # values from l to l + 1.
    table = np.arange(256)[:, np.newaxis] + _poisson_distribution(photons)
    chance = levels + draws.uniform(images.shape[1:]).astype(np.float64)
    counts = np.searchsorted(table.ravel(), chance.ravel(), side="right") % table.shape[1]
    return (counts / photons).reshape(images.shape)


def _poisson_distribution(photons):
    """`[256, K]`: the chance of at most k photons, k = 0..K-1, at each level of brightness."""
    # Ten standard deviations and some: the rest of the tail has less chance than a float32 can say.
    most = math.ceil(photons + 10 * math.sqrt(photons) + 20)
    counts = np.arange(most)
    log_factorials = np.concatenate([[0.0], np.cumsum(np.log(counts[1:]))])
    means = np.arange(1, 256)[:, np.newaxis] / 255 * photons
    densities = np.exp(counts * np.log(means) - means - log_factorials)
    # No light, no photons.
    dark = (counts == 0).astype(np.float64)[np.newaxis]
    distribution = np.cumsum(np.concatenate([dark, densities]), axis=1)
    distribution = np.minimum(distribution, 1)
    distribution[:, -1] = 1
    return distribution
