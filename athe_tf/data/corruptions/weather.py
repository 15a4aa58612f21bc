"""Weather: snow, frost, fog, a sun that is too bright, and drops of water or mud on the lens."""

import numpy as np
from scipy import ndimage

from athe_tf.data.corruptions.resampling import correlate, gaussian, line_blur, zoom
from athe_tf.data.corruptions.textures import plasma, power_of_two, textures

# Rec. 601, as in every conversion of colors to gray.
_LUMA = np.array([0.299, 0.587, 0.114], np.float32)

# Smallest side of the frost textures.
_TEXTURE_SIDE = 512

_WATER = np.array([175, 238, 238], np.float32) / 255
_MUD = np.array([63, 42, 20], np.float32) / 255

# The light falls from the upper left.
_RELIEF = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])
_MEAN_OF_NINE = np.full([3, 3], 1 / 9)

# Further in than this many pixels, a drop is flat.
_RIM = 20


def gray(images):
    """`[N, H, W, 1]`, the brightness that the eye sees."""
    return images if images.shape[-1] == 1 else (images @ _LUMA)[..., np.newaxis]


def snow(images, constants, draws):
    """Motion-blurred flakes over a whitened image.

    `constants` are the mean, the standard deviation and the zoom of a layer of noise, the threshold above
    which it is a flake, the radius and the standard deviation of the fall, and the weight of the image.
    """
    mean, deviation, factor, threshold, radius, sigma, weight = constants
    layer = mean + deviation * draws.normal((*images.shape[1:3], 1))
    layer = np.clip(zoom(layer.astype(np.float32), factor), 0, 1)
    layer = line_blur(np.where(layer < threshold, 0, layer), radius, sigma, draws.uniform((), -135.0, -45.0))
    whitened = weight * images + (1 - weight) * np.maximum(images, 1.5 * gray(images) + 0.5)
    return whitened + layer + layer[:, ::-1, ::-1]


def frost(images, constants, draws):
    """Ice on the lens: a random crop of a texture over the image.

    `constants` are the weights of image and texture, and of how many pixels of the texture one is taken. The
    textures are ours: see `textures.py`.
    """
    weight, thickness, stride = constants
    height, width, channels = images.shape[1:]
    # Every fifth pixel, not the mean of five: small images get the sharp grain of the published ones.
    ice = textures(max(_TEXTURE_SIDE, power_of_two(stride * max(height, width) + 1)))[:, ::stride, ::stride]
    texture = draws.integers((), 0, len(ice))
    top = draws.integers((), 0, ice.shape[1] - height + 1)
    left = draws.integers((), 0, ice.shape[2] - width + 1)
    rows = (top[:, np.newaxis] + np.arange(height))[:, :, np.newaxis]
    columns = (left[:, np.newaxis] + np.arange(width))[:, np.newaxis]
    cut = ice[texture[:, np.newaxis, np.newaxis], rows, columns]
    return weight * images + thickness * (cut if channels == 3 else gray(cut))


def fog(images, constants, draws):
    """Clouds of varying thickness; `constants` are their amount and the decay of their noise."""
    amount, decay = constants
    height, width = images.shape[1:3]
    clouds = plasma(draws, power_of_two(max(height, width)), decay)[:, :height, :width, np.newaxis]
    brightest = images.max(axis=(1, 2, 3), keepdims=True)
    return (images + amount * clouds) * brightest / (brightest + amount)


def brightness(images, amount, draws):
    """Adds to the value of each pixel in HSV space, with its hue and saturation as they are."""
    value = images.max(axis=-1, keepdims=True)
    brighter = np.minimum(value + np.float32(amount), 1)
    # Hue and saturation are ratios of the channels, so one factor for all of them keeps both; black is gray.
    return np.where(value > 0, images * brighter / np.where(value > 0, value, 1), brighter)


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
