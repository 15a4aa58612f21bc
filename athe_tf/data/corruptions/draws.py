"""The random numbers of a corruption."""

import zlib

import numpy as np
import tensorflow as tf

from athe_tf.utils import rng


class Draws:
    """Random numbers for a batch of images under one corruption, a new sequence with each call.

    Every method returns `[N, *shape]`, where row n depends on (seed, corruption, severity, ids[n]) and on
    the number of earlier calls, but on no other image.

    Args:
        seed: An integer.
        name: The corruption.
        severity: 1 to 5.
        ids: `[N]` integers.
    """

    def __init__(self, seed: int, name: str, severity: int, ids):
        self.count = len(ids)
        self._seed = rng.fold(seed, zlib.crc32(name.encode()), severity)
        self._ids = tf.constant(ids, tf.int64)
        self._calls = 0

    def uniform(self, shape, low=0.0, high=1.0) -> np.ndarray:
        """Uniform float32 in `[low, high)`."""
        return rng.uniform(self._seed, self._ids, shape, low, high, self._next()).numpy()

    def normal(self, shape) -> np.ndarray:
        """Standard normal float32."""
        return rng.normal(self._seed, self._ids, shape, self._next()).numpy()

    def integers(self, shape, low: int, high: int) -> np.ndarray:
        """Uniform integers in `[low, high)`."""
        return low + rng.integers(self._seed, self._ids, shape, high - low, self._next()).numpy()

    def _next(self) -> int:
        self._calls += 1
        return self._calls
