"""RandAugment, random erasing and Cutout: what follows the crop and flip of single images.

As in `augment`, what happens to an image depends on (seed, id) alone. Images are uint8, or floats in [0, 1].
"""

from collections.abc import Callable

import tensorflow as tf

from athe_tf.data.augment import RandomResizedCrop
from athe_tf.data.options import AugmentationOptions
from athe_tf.utils import rng

# The streams of random numbers; `augment` and the order use others.
_OPERATIONS, _ERASING, _PIXELS, _CUTOUT = 16, 17, 18, 19
#: Operations per image, and the probability of each, in RandAugment.
LAYERS, PROBABILITY = 2, 0.5
# Random erasing (Zhong et al., 2020): areas and ratios of height to width of what is erased.
AREAS, RATIOS = (0.02, 1 / 3), (0.3, 1 / 0.3)
_GRAY = (0.299, 0.587, 0.114)


def extended(augment: Callable, options: AugmentationOptions) -> Callable:
    """An augmentation followed by those of `options`; the same one if there are none."""
    steps = [
        (options.randaugment, rand_augment), (options.erasing, random_erasing), (options.cutout, cutout)
    ]  # fmt: skip
    steps = [(value, function) for value, function in steps if value]

    def more(images, seed, ids):
        for value, function in steps:
            images = function(images, seed, ids, value)
        return images

    if not steps:
        return augment
    if isinstance(augment, RandomResizedCrop):
        then = augment.then
        whole = more if then is None else lambda images, seed, ids: more(then(images, seed, ids), seed, ids)
        return RandomResizedCrop(augment.scale, augment.ratio, whole)
    return lambda images, seed, ids: more(augment(images, seed, ids), seed, ids)


def rand_augment(images, seed, ids, magnitude):
    """Two random operations, each with probability 1/2, of a magnitude from 0 to 10 (Cubuk et al., 2020).

    The 15 operations and their ranges are those of timm's `rand-mX-inc1`, without noise of the magnitude.
    """
    floats = images.dtype != tf.uint8
    draws = rng.uniform(seed, ids, (LAYERS, 3), 0.0, 1.0, stream=_OPERATIONS)

    def one(pair):
        image = tf.cast(pair[0], tf.float32) * (255.0 if floats else 1.0)
        for coin, kind, sign in (tf.unstack(row) for row in tf.unstack(pair[1])):
            side = tf.where(sign < 0.5, -1.0, 1.0)
            branches = [
                lambda image=image, operation=operation, side=side: tf.clip_by_value(
                    operation(image, magnitude / 10, side), 0.0, 255.0
                )
                for operation in OPERATIONS
            ]
            chosen = tf.cast(kind * len(branches), tf.int32)
            chosen = tf.where(coin < PROBABILITY, chosen, len(branches))
            image = tf.switch_case(chosen, [*branches, lambda image=image: image])
        return image / 255.0 if floats else tf.cast(tf.round(image), tf.uint8)

    return tf.ensure_shape(tf.map_fn(one, (images, draws), fn_output_signature=images.dtype), images.shape)


def blended(one, other, share):
    """`one` for a share of 0, `other` for 1; beyond that, away from `one`."""
    return one + share * (other - one)


def gray(image):
    """The brightness of each pixel."""
    weights = _GRAY if image.shape[-1] == 3 else tf.fill([image.shape[-1]], 1.0 / image.shape[-1])
    return tf.reduce_sum(image * weights, axis=-1, keepdims=True)


def equalize(image):
    """Every level of a channel becomes as frequent as any other."""

    def channel(values):
        levels = tf.cast(values, tf.int32)
        counts = tf.math.bincount(tf.reshape(levels, [-1]), minlength=256, maxlength=256)
        below = tf.cumsum(counts, exclusive=True)
        last = tf.reduce_max(tf.where(counts > 0, tf.range(256), 0))
        step = (tf.reduce_sum(counts) - counts[last]) // 255
        table = tf.minimum((below + step // 2) // tf.maximum(step, 1), 255)
        return tf.where(step > 0, tf.gather(tf.cast(table, tf.float32), levels), values)

    return tf.stack([channel(values) for values in tf.unstack(image, axis=-1)], axis=-1)


def stretch(image):
    """Autocontrast: each channel from 0 to 255."""
    low, high = tf.reduce_min(image, axis=[0, 1]), tf.reduce_max(image, axis=[0, 1])
    return tf.where(high > low, (image - low) * 255.0 / tf.maximum(high - low, 1e-6), image)


def sharpened(image, share):
    """Away from the image smoothed by PIL's kernel."""
    kernel = tf.constant([[1.0, 1.0, 1.0], [1.0, 5.0, 1.0], [1.0, 1.0, 1.0]]) / 13.0
    channels = image.shape[-1]
    kernel = tf.tile(kernel[..., tf.newaxis, tf.newaxis], [1, 1, channels, 1])
    inner = tf.nn.depthwise_conv2d(image[tf.newaxis], kernel, [1, 1, 1, 1], "VALID")[0]
    padding = [[1, 1], [1, 1], [0, 0]]
    inside = tf.pad(tf.ones_like(inner), padding)
    return blended(tf.where(inside > 0, tf.pad(inner, padding), image), image, share)


def warped(image, a=1.0, b=0.0, x=0.0, c=0.0, d=1.0, y=0.0):
    """The image at `(a u + b v + x, c u + d v + y)` about its center, by the nearest pixel; gray outside."""
    height, width = image.shape[0], image.shape[1]
    u, v = (width - 1) / 2, (height - 1) / 2
    row = [a, b, u - a * u - b * v + x, c, d, v - c * u - d * v + y, 0.0, 0.0]
    transform = tf.stack([tf.convert_to_tensor(value, tf.float32) for value in row])[tf.newaxis]
    return tf.raw_ops.ImageProjectiveTransformV3(
        images=image[tf.newaxis], transforms=transform, output_shape=[height, width], fill_value=128.0,
        interpolation="NEAREST", fill_mode="CONSTANT",
    )[0]  # fmt: skip


def rotated(image, degrees):
    """Turned about its center."""
    angle = degrees * 0.017453292519943295
    return warped(image, tf.cos(angle), -tf.sin(angle), 0.0, tf.sin(angle), tf.cos(angle), 0.0)


#: From an image of 0 to 255, a strength of 0 to 1 and a sign.
OPERATIONS = (
    lambda x, m, s: stretch(x),
    lambda x, m, s: equalize(x),
    lambda x, m, s: 255.0 - x,
    lambda x, m, s: rotated(x, s * 30.0 * m),
    lambda x, m, s: tf.floor(x / 2.0 ** (4 + int(4 * m))) * 2.0 ** (4 + int(4 * m)),  # posterize
    lambda x, m, s: tf.where(x < 256 - int(256 * m), x, 255.0 - x),  # solarize
    lambda x, m, s: tf.where(x < 128, x + int(110 * m), x),  # solarize, by adding
    lambda x, m, s: blended(gray(x), x, 1.0 + s * 0.9 * m),  # color
    lambda x, m, s: blended(tf.reduce_mean(gray(x)), x, 1.0 + s * 0.9 * m),  # contrast
    lambda x, m, s: x * (1.0 + s * 0.9 * m),  # brightness
    lambda x, m, s: sharpened(x, 1.0 + s * 0.9 * m),
    lambda x, m, s: warped(x, b=s * 0.3 * m),
    lambda x, m, s: warped(x, c=s * 0.3 * m),
    lambda x, m, s: warped(x, x=s * 0.45 * m * x.shape[1]),
    lambda x, m, s: warped(x, y=s * 0.45 * m * x.shape[0]),
)


def random_erasing(images, seed, ids, probability):
    """A box of random area, shape and place becomes noise, with this probability (Zhong et al., 2020)."""
    height, width = images.shape[1:3]
    coin, area, shape, top, left = tf.unstack(rng.uniform(seed, ids, (5,), 0.0, 1.0, stream=_ERASING), axis=1)
    area = height * width * blended(AREAS[0], AREAS[1], area)
    ratio = tf.exp(blended(tf.math.log(RATIOS[0]), tf.math.log(RATIOS[1]), shape))
    rows = tf.minimum(tf.round(tf.sqrt(area * ratio)), height)
    columns = tf.minimum(tf.round(tf.sqrt(area / ratio)), width)
    rows = tf.where(coin < probability, rows, 0.0)
    inside = boxes((height, width), tf.floor(top * (height - rows + 1)), rows,
                   tf.floor(left * (width - columns + 1)), columns)  # fmt: skip
    noise = rng.uniform(seed, ids, images.shape[1:], 0.0, 1.0, stream=_PIXELS)
    noise = tf.cast(256.0 * noise, tf.uint8) if images.dtype == tf.uint8 else tf.cast(noise, images.dtype)
    return tf.where(inside, noise, images)


def cutout(images, seed, ids, side):
    """A gray square of this side about a random pixel, cut off at the border (DeVries and Taylor, 2017)."""
    sizes = images.shape[1:3]
    corners = [
        tf.cast(rng.integers(rng.fold(seed, axis), ids, (), size, stream=_CUTOUT), tf.float32) - side // 2
        for axis, size in enumerate(sizes)
    ]
    inside = boxes(sizes, corners[0], float(side), corners[1], float(side))
    return tf.where(inside, tf.cast(128 if images.dtype == tf.uint8 else 0.5, images.dtype), images)


def boxes(sizes, top, rows, left, columns):
    """Whether each pixel of each image lies in the box of the image: `[N, H, W, 1]`."""
    inside = []
    for size, start, length in zip(sizes, (top, left), (rows, columns), strict=True):
        places = tf.range(size, dtype=tf.float32) - start[:, tf.newaxis]
        inside.append((places >= 0) & (places < tf.reshape(length, [-1, 1])))
    return (inside[0][:, :, tf.newaxis] & inside[1][:, tf.newaxis])[..., tf.newaxis]
