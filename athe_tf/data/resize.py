"""The central square of an image, at another size."""

import numpy as np
import tensorflow as tf


def central_square(image, size: int):
    """Crops the central square of an image or batch `[..., H, W, C]` and resizes it to `size` x `size`.

    The dtype is kept; uint8 is rounded.
    """
    shape = tf.shape(image)
    height, width = shape[-3], shape[-2]
    side = tf.minimum(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    square = image[..., top : top + side, left : left + side, :]
    # Without antialiasing, small details of large photographs turn into noise.
    resized = tf.image.resize(square, [size, size], antialias=True)
    if image.dtype == tf.uint8:
        resized = tf.round(resized)
    return tf.cast(tf.clip_by_value(resized, 0.0, 255.0 if image.dtype == tf.uint8 else 1.0), image.dtype)


def resize_images(images: np.ndarray, size: int, chunk: int = 1024) -> np.ndarray:
    """`central_square` of an array of images, a chunk at a time."""
    if images.shape[1:3] == (size, size):
        return images
    chunks = [
        central_square(tf.convert_to_tensor(images[i : i + chunk]), size).numpy()
        for i in range(0, len(images), chunk)
    ]
    return np.concatenate(chunks)
