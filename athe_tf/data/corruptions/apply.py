"""`corrupt`: images with a corruption of a severity, and its random numbers."""

import itertools
import zlib

import numpy as np
import tensorflow as tf

from athe_tf.data.corruptions.names import CORRUPTIONS, check_severity, setting
from athe_tf.utils import rng
from athe_tf.utils.errors import check
from athe_tf.utils.images_and_labels import as_float, check_images, to_levels

# Images are corrupted this many pixels at a time: large enough for NumPy, with bounded memory.
_CHUNK_PIXELS = 2**19


class Draws:
    """Random numbers for a batch of images under one corruption, a new sequence with each call.

    Every method returns `[N, *shape]`, where row n depends on (seed, corruption, severity, ids[n]) and on
    the number of earlier calls, but on no other image. `corrupt` describes the arguments.
    """

    def __init__(self, seed: int, name: str, severity: int, ids):
        self.count = len(ids)
        self._seed = rng.fold(seed, zlib.crc32(name.encode()), severity)
        self._ids = tf.constant(ids, tf.int64)
        self._streams = itertools.count(1)

    def uniform(self, shape, low=0.0, high=1.0) -> np.ndarray:
        """Uniform float32 in `[low, high)`."""
        return rng.uniform(self._seed, self._ids, shape, low, high, next(self._streams)).numpy()

    def normal(self, shape) -> np.ndarray:
        """Standard normal float32."""
        return rng.normal(self._seed, self._ids, shape, next(self._streams)).numpy()

    def integers(self, shape, low: int, high: int) -> np.ndarray:
        """Uniform integers in `[low, high)`."""
        return low + rng.integers(self._seed, self._ids, shape, high - low, next(self._streams)).numpy()


def corrupt(
    images: np.ndarray, name: str, severity: int, *, seed: int = 0, ids: np.ndarray | None = None
) -> np.ndarray:
    """Corrupts images.

    Example:

    >>> images, labels = athe_tf.data.load("digits").test.arrays(max_examples=4)
    >>> noisy = athe_tf.data.corrupt(images, "gaussian_noise", severity=5)
    >>> noisy.shape
    (4, 8, 8, 1)

    Args:
        images: `[N, H, W, C]` with 1 or 3 channels, uint8 or float in [0, 1].
        name: One of `STANDARD` or `EXTRA`.
        severity: 1 to 5.
        seed: An integer. Defaults to 0.
        ids: `[N]` integers that identify the images. Defaults to 0, 1, ...

    Returns:
        Images of the same shape, uint8 for uint8 and float32 for floats. Both are multiples of 1/255, as in
        image files.
    """
    images = np.asarray(images)
    function = CORRUPTIONS.get(name)
    check_severity(severity)
    check_images(images)
    check(
        images.shape[-1] in (1, 3),
        f"Corruptions are defined for images with 1 or 3 channels. Received: shape={images.shape}.",
    )
    ids = np.arange(len(images)) if ids is None else np.asarray(ids)
    check(
        ids.shape == images.shape[:1],
        f"Invalid shape of `ids`. Expected {images.shape[:1]}, one for each image. Received: {ids.shape}.",
    )
    constants = setting(name, severity, images.shape[1:3])
    result = np.empty(images.shape, np.uint8 if images.dtype == np.uint8 else np.float32)
    size = max(1, _CHUNK_PIXELS // (images.shape[1] * images.shape[2]))
    for start in range(0, len(images), size):
        part = slice(start, start + size)
        corrupted = function(as_float(images[part]), constants, Draws(seed, name, severity, ids[part]))
        levels = to_levels(corrupted)
        result[part] = levels if result.dtype == np.uint8 else as_float(levels)
    return result
