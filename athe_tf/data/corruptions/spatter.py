"""Drops of water or mud on the lens."""

import numpy as np

from athe_tf.data.corruptions.resampling import convolve, gaussian
from athe_tf.data.corruptions.weather import grey

_WATER = np.array([175, 238, 238], np.float32) / 255
_MUD = np.array([63, 42, 20], np.float32) / 255

# The light falls from the upper left.
_RELIEF = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])
_MEAN_OF_NINE = np.full([3, 3], 1 / 9)

# Further in than this many pixels, a drop is flat.
_RIM = 20


def spatter(images, constants, draws):
    """Drops where smooth noise is above a threshold.

    `constants` are the mean, the standard deviation, the blur and the threshold of the noise, then the
    strength of water or the blur of mud, and which of the two it is. The relief of the water is simpler than
    in the published images: its rim is the border of a drop, not an edge found by Canny's detector.
    """
    mean, deviation, sigma, threshold, last, kind = constants
    layer = mean + deviation * draws.normal((*images.shape[1:3], 1))
    layer = gaussian(layer.astype(np.float32), sigma)
    drops = layer > threshold
    if kind == "mud":
        cover = gaussian(drops.astype(np.float32), last)
        cover = np.where(cover < 0.8, 0, cover)
        return images * (1 - cover) + cover * _colour(_MUD, images)
    shine = np.where(drops, layer, 0) * _relief(drops)
    brightest = shine.max(axis=(1, 2, 3), keepdims=True)
    return images + last * shine / np.where(brightest > 0, brightest, 1) * _colour(_WATER, images)


def _colour(colour, images):
    return colour if images.shape[-1] == 3 else grey(colour[np.newaxis, np.newaxis, np.newaxis])


def _relief(drops):
    """How bright the surface of drops is: dark at the upper left, bright at the lower right."""
    rim = drops & _spread(~drops)
    distance, reached = np.zeros(drops.shape, np.int64), rim
    for _ in range(_RIM):
        distance += ~reached
        reached = _spread(reached)
    height = convolve(_equalised(distance).astype(np.float32), _MEAN_OF_NINE)
    return convolve(np.clip(convolve(height, _RELIEF), 0, 1), _MEAN_OF_NINE)


def _spread(mask):
    """Every pixel that is in the mask or has a neighbour in it."""
    padded = np.pad(mask, ((0, 0), (1, 1), (1, 1), (0, 0)))
    height, width = mask.shape[1:3]
    shifted = [padded[:, y : y + height, x : x + width] for y in range(3) for x in range(3)]
    return np.logical_or.reduce(shifted)


def _equalised(distance):
    """Distances as shares: of all pixels that are not on the rim, how many are no further from it."""
    shares = np.stack([(distance <= step).mean(axis=(1, 2, 3)) for step in range(_RIM + 1)], axis=1)
    shares = (shares - shares[:, :1]) / np.maximum(1 - shares[:, :1], 1e-6)
    return shares[np.arange(len(distance))[:, np.newaxis, np.newaxis, np.newaxis], distance]
