"""Drops of water or mud on the lens."""

import numpy as np
from scipy import ndimage

from athe_tf.data.corruptions.resampling import correlate, gaussian
from athe_tf.data.corruptions.weather import gray

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
        return images * (1 - cover) + cover * _color(_MUD, images)
    shine = np.where(drops, layer, 0) * _relief(drops)
    brightest = shine.max(axis=(1, 2, 3), keepdims=True)
    return images + last * shine / np.where(brightest > 0, brightest, 1) * _color(_WATER, images)


def _color(color, images):
    return color if images.shape[-1] == 3 else gray(color[np.newaxis, np.newaxis, np.newaxis])


def _relief(drops):
    """The brightness of the surface of drops: dark at the upper left, bright at the lower right."""
    rim = drops & _dilate(~drops)
    distance, reached = np.zeros(drops.shape, np.int64), rim
    for _ in range(_RIM):
        distance += ~reached
        reached = _dilate(reached)
    height = correlate(_equalised(distance).astype(np.float32), _MEAN_OF_NINE)
    return correlate(np.clip(correlate(height, _RELIEF), 0, 1), _MEAN_OF_NINE)


def _dilate(mask):
    """Every pixel that is in the mask or has a neighbour in it."""
    return ndimage.binary_dilation(mask, np.ones([1, 3, 3, 1]))


def _equalised(distance):
    """Distances as fractions: of all pixels off the rim, the fraction that is no further from it."""
    shares = np.stack([(distance <= step).mean(axis=(1, 2, 3)) for step in range(_RIM + 1)], axis=1)
    shares = (shares - shares[:, :1]) / np.maximum(1 - shares[:, :1], 1e-6)
    return shares[np.arange(len(distance))[:, np.newaxis, np.newaxis, np.newaxis], distance]
