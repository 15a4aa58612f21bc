"""Random augmentations of training images.

Each function takes a batch of images `[N, H, W, C]` of any dtype, a seed and the ids of the images, and
returns a batch of the same shape and dtype. What happens to an image depends on (seed, id) alone: not on its
batch or its position in it; only `batch_crop_flip` moves a batch as one. The stream folds the epoch into the
seed.

    augmented = pad_crop_flip(images, seed=fold(seed, epoch), ids=indices)
"""

import functools
import math
from collections.abc import Callable

import tensorflow as tf

from athe_tf.data.resize import resize
from athe_tf.utils import rng
from athe_tf.utils.errors import check, check_choice

# The streams of random numbers; the order of an epoch uses others.
_CROP, _FLIP, _BOXES = 1, 2, 4


def none(images, seed, ids):
    """No augmentation."""
    del seed, ids
    return images


def flip(images, seed, ids):
    """Flips images left to right with probability 1/2."""
    coin = rng.integers(seed, ids, (1,), 2, stream=_FLIP)
    if images.shape[0] == 1:
        # Five times as fast for a photograph.
        return tf.cond(coin[0, 0] == 1, lambda: tf.reverse(images[0], [1])[tf.newaxis], lambda: images)
    columns = tf.range(images.shape[2])
    # Gathering columns is several times faster than `tf.where` between the images and their mirror images.
    columns = tf.where(coin == 1, columns[::-1], columns)
    return tf.gather(images, columns, axis=2, batch_dims=1)


def pad_crop(images, seed, ids, *, padding=None, mode="zero"):
    """Pads the images and crops a window of the original size at a random position.

    Args:
        images: The batch.
        seed: An integer or an integer tensor.
        ids: Integer tensor `[N]`.
        padding: Pixels on each side. Defaults to an eighth of the height, at least 1: the usual 4 for
            32 x 32, 1 for 8 x 8.
        mode: `"zero"` or `"reflect"`.
    """
    check_choice("mode", mode, ("zero", "reflect"))
    height, width = images.shape[1:3]
    padding = max(1, height // 8) if padding is None else padding
    most = min(height, width) - 1
    check(
        padding >= 0 and (mode == "zero" or padding <= most),
        f"Invalid value for argument `padding`. Expected 0 or more and, to reflect, at most {most}. "
        f"Received: padding={padding}.",
    )
    border = [[0, 0], [padding, padding], [padding, padding], [0, 0]]
    padded = tf.pad(images, border, "CONSTANT" if mode == "zero" else "REFLECT")
    corners = rng.integers(seed, ids, (2,), 2 * padding + 1, stream=_CROP)
    rows = corners[:, :1] + tf.range(height)
    columns = corners[:, 1:] + tf.range(width)
    return tf.gather(tf.gather(padded, rows, axis=1, batch_dims=1), columns, axis=2, batch_dims=1)


def batch_crop_flip(images, seed, ids, *, padding=None):
    """`reflect_crop_flip` with one window for the whole batch, as LLR's released code has it.

    The id of the first image decides where the window is. Each image is flipped on its own.
    """
    first = tf.fill(tf.shape(ids), tf.gather(ids, 0))
    return flip(pad_crop(images, seed, first, padding=padding, mode="reflect"), seed, ids)


def pad_crop_flip(images, seed, ids, *, padding=None, mode="zero"):
    """`pad_crop`, then `flip`: the augmentation of nearly every CIFAR paper."""
    return flip(pad_crop(images, seed, ids, padding=padding, mode=mode), seed, ids)


#: `pad_crop_flip` with reflected borders, as Rice et al. train on CIFAR.
reflect_crop_flip = functools.partial(pad_crop_flip, mode="reflect")

# How often torchvision tries to place a crop before it takes the center.
TRIES = 10


class RandomResizedCrop:
    """Crops a box of random area and aspect ratio and resizes it; torchvision's algorithm.

    Up to ten times, an area and an aspect ratio are drawn; the first box that fits in the image is placed at
    random. If none fits, the largest central box with an allowed aspect ratio is taken. The box of an image
    depends on (seed, id) and its size alone.

    In a stream of encoded images, only the box is decoded, from the image in its full size. Images in memory
    are cropped and resized to their own size.

    Example:

    >>> import tensorflow as tf
    >>> crop = athe_tf.data.RandomResizedCrop(scale=(0.25, 1.0))
    >>> crop(tf.zeros([2, 64, 64, 3], tf.uint8), seed=0, ids=tf.constant([0, 1])).shape
    TensorShape([2, 64, 64, 3])

    Args:
        scale: The smallest and largest area of a box, as fractions of the image. Defaults to (0.08, 1).
        ratio: The smallest and largest ratio of width to height. Defaults to (3/4, 4/3).
        then: An augmentation for the resized crops, such as `augment.flip`. Defaults to `None`.

    Reference:
        Szegedy et al., "Going deeper with convolutions", CVPR 2015.
    """

    def __init__(
        self,
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3 / 4, 4 / 3),
        then: Callable | None = None,
    ):
        for name, (low, high), most in (("scale", scale, 1.0), ("ratio", ratio, math.inf)):
            check(
                0 < low <= high <= most,
                f"Invalid value for argument `{name}`. Expected two rising numbers above 0"
                f"{' and at most 1' if most == 1 else ''}. Received: {name}={(low, high)}.",
            )
        self.scale = scale
        self.ratio = ratio
        self.then = then

    def __repr__(self) -> str:
        return f"RandomResizedCrop(scale={self.scale}, ratio={self.ratio}, then={self.then})"

    def __call__(self, images, seed, ids):
        """Crops a batch `[N, H, W, C]` of images of one size; its shape and dtype are kept."""
        height, width = images.shape[1:3]
        boxes = self.boxes(seed, ids, tf.fill(tf.shape(ids), height), tf.fill(tf.shape(ids), width))

        def crop(pair):
            image, (top, left, rows, columns) = pair[0], tf.unstack(pair[1])
            return resize(image[top : top + rows, left : left + columns], height, width)

        crops = tf.map_fn(crop, (images, boxes), fn_output_signature=images.dtype)
        return self.finish(tf.ensure_shape(crops, images.shape), seed, ids)

    def finish(self, crops, seed, ids):
        """What follows the crop, for a batch of resized crops."""
        return crops if self.then is None else self.then(crops, seed, ids)

    def boxes(self, seed, ids, heights, widths) -> tf.Tensor:
        """The boxes of images: int32 `[N, 4]` of `(top, left, height, width)`.

        Args:
            seed: An integer or an integer tensor.
            ids: Integer tensor `[N]`.
            heights: Integer tensor `[N]`, in pixels.
            widths: Integer tensor `[N]`.
        """
        return self.boxes_of(self.draws(seed, ids), heights, widths)

    def draws(self, seed, ids) -> tf.Tensor:
        """The random numbers that the boxes of images are made of, in [0, 1)."""
        return rng.uniform(seed, ids, (TRIES, 4), 0.0, 1.0, stream=_BOXES, dtype=tf.float64)

    def boxes_of(self, draws, heights, widths) -> tf.Tensor:
        """The boxes that `draws` give for images of these sizes; see `boxes`."""
        rows, columns = (tf.cast(size, tf.float64)[:, tf.newaxis] for size in (heights, widths))
        area = rows * columns * _between(draws[..., 0], *self.scale)
        ratio = tf.exp(_between(draws[..., 1], *(math.log(value) for value in self.ratio)))
        height, width = tf.round(tf.sqrt(area / ratio)), tf.round(tf.sqrt(area * ratio))
        fits = (height > 0) & (height <= rows) & (width > 0) & (width <= columns)
        top = tf.minimum(tf.floor(draws[..., 2] * (rows - height + 1)), rows - height)
        left = tf.minimum(tf.floor(draws[..., 3] * (columns - width + 1)), columns - width)
        tries = tf.stack([top, left, height, width], axis=-1)
        first = tf.argmax(tf.cast(fits, tf.int32), axis=1)
        chosen = tf.gather(tries, first, axis=1, batch_dims=1)
        found = tf.reduce_any(fits, axis=1, keepdims=True)
        return tf.cast(tf.where(found, chosen, self._central(rows, columns)), tf.int32)

    def _central(self, rows, columns):
        """The largest central boxes with an allowed ratio of width to height."""
        height = tf.where(columns / rows < self.ratio[0], tf.round(columns / self.ratio[0]), rows)
        width = tf.where(columns / rows > self.ratio[1], tf.round(rows * self.ratio[1]), columns)
        return tf.concat([(rows - height) // 2, (columns - width) // 2, height, width], axis=1)


def _between(fraction, low, high):
    return low + fraction * (high - low)


#: Random areas and shapes, resized to the size of the images; torchvision's defaults.
random_resized_crop = RandomResizedCrop()

#: `random_resized_crop`, then `flip`: the augmentation of nearly every ImageNet paper.
random_resized_crop_flip = RandomResizedCrop(then=flip)
