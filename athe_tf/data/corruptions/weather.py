"""Weather: snow, frost, fog, and a sun that is too bright."""

import numpy as np

from athe_tf.data.corruptions.frost_texture import textures
from athe_tf.data.corruptions.plasma import plasma, power_of_two
from athe_tf.data.corruptions.resampling import line_blur, zoom

# Rec. 601, as in every conversion of colors to gray.
_LUMA = np.array([0.299, 0.587, 0.114], np.float32)

# Smallest side of the frost textures.
_TEXTURE_SIDE = 512


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
    textures are ours: see `frost_texture.py`.
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
    del draws
    value = images.max(axis=-1, keepdims=True)
    brighter = np.minimum(value + np.float32(amount), 1)
    # Hue and saturation are ratios of the channels, so one factor for all of them keeps both; black is gray.
    return np.where(value > 0, images * brighter / np.where(value > 0, value, 1), brighter)
