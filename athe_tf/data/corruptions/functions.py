"""The corruptions: noise, blur, weather, and effects of image processing.

Each function takes a batch `[N, H, W, C]` of floats in [0, 1], the constants of a severity and the random
numbers to use, and returns the corrupted batch, which may leave [0, 1]: the caller clips it.
"""

import math

import numpy as np
import tensorflow as tf
from scipy import ndimage, special

from athe_tf.data.corruptions.resampling import along_sides, correlate, gaussian, line_blur, sample, zoom
from athe_tf.data.corruptions.textures import plasma, power_of_two, textures
from athe_tf.utils.errors import check
from athe_tf.utils.images_and_labels import as_float, to_levels

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
    """Every pixel, from the last to the first, takes the value of a random neighbor.

    The published script means to swap the two, but its assignment between views of one array copies. The
    published images are of that kind, and so are ours.

    Args:
        origin: `[N, H * W]`, the pixel at each place; changed in place.
        moves: `[N, H * W, 2]`, from each pixel to its neighbor, down and right.
        size: `(height, width)`.
        reach: Moves are in `[-reach, reach)`, and this much of the border stays.
    """
    height, width = size
    inner = (np.arange(reach + 1, side - reach + 1) for side in size)
    rows, columns = (place.ravel() for place in np.meshgrid(*inner, indexing="ij"))
    # Pixels of one wave are 2 * reach columns apart or more, row after row: they do not share
    # neighbors, so the result is the same as for one pixel after another.
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
    """A camera that moves toward the scene: the mean of the image and of enlarged ones.

    `constants` are the end and the step of the factors of enlargement, which begin at 1.
    """
    factors = np.arange(1, *constants)
    total = images.copy()
    for factor in factors:
        total += zoom(images, factor)
    return total / np.float32(len(factors) + 1)


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
    """Adds to the value of each pixel in HSV space, and keeps its hue and saturation."""
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
    """Every pixel that is in the mask or has a neighbor in it."""
    return ndimage.binary_dilation(mask, np.ones([1, 3, 3, 1]))


def _equalised(distance):
    """Distances as fractions: of all pixels off the rim, the fraction that is no further from it."""
    shares = np.stack([(distance <= step).mean(axis=(1, 2, 3)) for step in range(_RIM + 1)], axis=1)
    shares = (shares - shares[:, :1]) / np.maximum(1 - shares[:, :1], 1e-6)
    return shares[np.arange(len(distance))[:, np.newaxis, np.newaxis, np.newaxis], distance]


def contrast(images, factor, _):
    """Moves every pixel toward the mean of its channel."""
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
    return as_float(np.stack(decoded))


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
