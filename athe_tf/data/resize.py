"""Images at another size: the central square, and what Pillow and torchvision compute."""

import numpy as np
import tensorflow as tf

from athe_tf.utils.images_and_labels import as_float, to_levels


def central_view(image, image_size: int | None, resize_size: int | None):
    """An image as an evaluation sees it.

    Args:
        image: `[H, W, C]`, uint8 or, without `resize_size`, float in [0, 1].
        image_size: Side of the result, or `None` for the unchanged image.
        resize_size: The shorter side before the center crop, or `None` for the largest central square.
    """
    if image_size is None:
        return image
    if resize_size is None:
        return central_square(image, image_size)
    return resize_and_center_crop(image, resize_size, image_size)


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


def resize_images(
    images: np.ndarray, size: int, resize_size: int | None = None, chunk: int = 1024
) -> np.ndarray:
    """`central_view` of an array of images, a chunk at a time."""
    if images.shape[1:3] == (size, size) and resize_size in (None, size):
        return images
    if resize_size is not None:
        levels = images if images.dtype == np.uint8 else to_levels(images)
        crops = np.stack([resize_and_center_crop(tf.constant(x), resize_size, size) for x in levels])
        return crops if images.dtype == np.uint8 else as_float(crops).astype(images.dtype)
    chunks = [
        central_square(tf.convert_to_tensor(images[i : i + chunk]), size).numpy()
        for i in range(0, len(images), chunk)
    ]
    return np.concatenate(chunks)


def resize(image, height: int, width: int):
    """An image `[H, W, C]` at another size, with an antialiased bilinear filter.

    uint8 images equal Pillow's up to rounding: the columns are resampled and rounded, then the rows.
    `tf.image.resize`, which is used for floats in [0, 1], rounds once and takes a third longer.
    """
    if image.dtype != tf.uint8:
        return tf.clip_by_value(tf.image.resize(image, [height, width], antialias=True), 0.0, 1.0)
    shape = tf.cast(tf.shape(image), tf.float32)
    return _resample(image, (height, width), (height / shape[0], width / shape[1]), (0.0, 0.0))


def resize_and_center_crop(image, resize_size: int, crop_size: int):
    """torchvision's `Resize(resize_size)` and `CenterCrop(crop_size)` of a uint8 image `[H, W, C]`.

    The shorter side becomes `resize_size`, the longer one is rounded down. Only what the crop needs is
    computed.
    """
    shape = tf.shape(image)[:2]
    short, long = tf.reduce_min(shape), tf.reduce_max(shape)
    longer = tf.cast(resize_size * tf.cast(long, tf.int64) // tf.cast(short, tf.int64), tf.int32)
    resized = tf.where(shape == short, resize_size, longer)
    scale = tf.cast(resized, tf.float32) / tf.cast(shape, tf.float32)
    # Half to even, as Python's `round` in torchvision.
    corner = tf.round(tf.cast(resized - crop_size, tf.float32) / 2)
    # The pixels of the crop, and those that the filter sees around them.
    around = tf.math.ceil(tf.maximum(1.0, 1 / scale)) + 1
    first = tf.maximum(tf.cast(tf.floor(corner / scale - around), tf.int32), 0)
    last = tf.minimum(tf.cast(tf.math.ceil((corner + crop_size) / scale + around), tf.int32), shape)
    window = image[first[0] : last[0], first[1] : last[1]]
    offset = tf.cast(first, tf.float32) * scale - corner
    return _resample(window, (crop_size, crop_size), (scale[0], scale[1]), (offset[0], offset[1]))


def _resample(image, size, scales, offsets):
    """Places the point `x` of each axis at `x * scale + offset`, and keeps `size` pixels."""
    shape = tf.shape(image)
    height, channels = shape[0], image.shape[-1] or shape[2]
    # As matrices, so that the kernel adds whole rows: with 3 channels its inner loop has 3 steps.
    columns = tf.transpose(tf.reshape(image, [height, shape[1] * channels]))
    columns = tf.reshape(columns, [shape[1], height * channels])
    columns = _resample_rows(columns, size[1], scales[1], offsets[1])
    rows = tf.transpose(tf.reshape(columns, [size[1] * channels, height]))
    return tf.reshape(_resample_rows(rows, size[0], scales[0], offsets[0]), [*size, channels])


def _resample_rows(matrix, size, scale, offset):
    resampled = tf.raw_ops.ScaleAndTranslate(
        images=matrix[tf.newaxis, :, tf.newaxis, :],
        size=[size, 1],
        scale=tf.stack([scale, 1.0]),
        translation=tf.stack([offset, 0.0]),
        kernel_type="triangle",
        antialias=True,
    )
    # Pillow rounds halves up.
    return tf.cast(resampled[0, :, 0, :] + 0.5, tf.uint8)
