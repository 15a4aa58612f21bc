"""Random augmentations of training images.

Each function takes a batch of images `[N, H, W, C]` of any dtype, a seed and the ids of the images, and
returns a batch of the same shape and dtype. What happens to an image depends on (seed, id) alone: not on its
batch or its position in it; only `batch_crop_flip` moves a batch as one. The stream folds the epoch into the
seed.

    augmented = pad_crop_flip(images, seed=fold(seed, epoch), ids=indices)
"""

import tensorflow as tf

from athe_tf.data.random_resized_crop import RandomResizedCrop
from athe_tf.utils import rng
from athe_tf.utils.errors import check, check_choice

# The streams of random numbers; the order of an epoch uses others.
_CROP, _FLIP = 1, 2


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


def reflect_crop_flip(images, seed, ids, *, padding=None):
    """`pad_crop_flip` with reflected borders, as Rice et al. train on CIFAR."""
    return pad_crop_flip(images, seed, ids, padding=padding, mode="reflect")


def batch_crop_flip(images, seed, ids, *, padding=None):
    """`reflect_crop_flip` with one window for the whole batch, as LLR's released code has it.

    The id of the first image decides where the window is. Each image is flipped on its own.
    """
    first = tf.fill(tf.shape(ids), tf.gather(ids, 0))
    return flip(pad_crop(images, seed, first, padding=padding, mode="reflect"), seed, ids)


def pad_crop_flip(images, seed, ids, *, padding=None, mode="zero"):
    """`pad_crop`, then `flip`: the augmentation of nearly every CIFAR paper."""
    return flip(pad_crop(images, seed, ids, padding=padding, mode=mode), seed, ids)


#: Random areas and shapes, resized to the size of the images; torchvision's defaults.
random_resized_crop = RandomResizedCrop()

#: `random_resized_crop`, then `flip`: the augmentation of nearly every ImageNet paper.
random_resized_crop_flip = RandomResizedCrop(then=flip)
