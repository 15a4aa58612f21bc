"""Clouds, and procedural textures of frost on a window.

The published images of frost used photographs. These textures are our own: needles of ice that lie in patches
of one direction each, over a plasma of thicker and thinner ice. They have the mean colors and the contrasts
of the five photographs, so that about as much of an image is hidden.
"""

import functools

import numpy as np

from athe_tf.data.corruptions.apply import Draws
from athe_tf.data.corruptions.resampling import gaussian, line_blur

# Mean of red, green and blue, and the standard deviation, of the photographs.
_COLORS = (
    ((0.305, 0.585, 0.650), 0.08),
    ((0.787, 0.805, 0.841), 0.09),
    ((0.787, 0.805, 0.841), 0.09),
    ((0.540, 0.599, 0.648), 0.11),
    ((0.441, 0.484, 0.528), 0.17),
)

_DIRECTIONS = 8
_PATCH = 32  # pixels, about
_NEEDLE = 12  # pixels, half of its length


@functools.lru_cache(maxsize=2)
def textures(side: int):
    """Five textures `[5, side, side, 3]` in [0, 1]; `side` is a power of two."""
    draws = Draws(0, "frost texture", 1, np.arange(len(_COLORS)))
    ice = _standard(_needles(draws, side)) + 0.9 * _standard(plasma(draws, side, 1.4))
    mean = np.array([color for color, _ in _COLORS], np.float32)[:, np.newaxis, np.newaxis]
    contrast = np.array([contrast for _, contrast in _COLORS], np.float32).reshape(-1, 1, 1, 1)
    return np.clip(mean + contrast * _standard(ice)[..., np.newaxis], 0, 1)


def _needles(draws, side):
    """Streaks `[5, side, side]` in the direction of the patch that each pixel belongs to."""
    noise = gaussian(draws.normal((side, side, 1)), 0.7)
    patches = (side // _PATCH) ** 2
    directions = draws.integers((patches,), 0, _DIRECTIONS)
    thickness = draws.normal((patches,))
    places = draws.uniform((patches, 2), 0.0, float(side))
    result = []
    for texture in range(draws.count):
        patch = _nearest(places[texture], side)
        repeated = np.repeat(noise[texture : texture + 1], _DIRECTIONS, axis=0)
        streaks = line_blur(repeated, _NEEDLE, _NEEDLE / 2, np.arange(_DIRECTIONS) * 180 / _DIRECTIONS)
        chosen = np.take_along_axis(streaks[..., 0], directions[texture][patch][np.newaxis], 0)[0]
        result.append(chosen / chosen.std() + 0.4 * thickness[texture][patch])
    return np.stack(result)


def _nearest(places, side):
    """`[side, side]`: the index of the nearest place."""
    pixels = np.arange(side)
    rows, columns = ((pixels[:, np.newaxis] - places[:, axis]) ** 2 for axis in (0, 1))
    return np.stack([np.argmin(row + columns, axis=1) for row in rows])


def _standard(fields):
    mean, deviation = (part(fields, axis=(1, 2), keepdims=True) for part in (np.mean, np.std))
    return (fields - mean) / deviation


def plasma(draws, side: int, decay: float):
    """Fractal fields `[N, side, side]` from 0 to 1 that continue at their opposite edges.

    `side` is a power of two, at least 2; the larger `decay`, the smoother the field.

    Points are filled in from coarse to fine: each is the mean of its four neighbors plus noise. From one
    level to the next the noise shrinks by the *square* of `decay`, as in the script behind the published
    images.
    """
    field = np.zeros([draws.count, side, side])
    step, amplitude = side, 1.0
    while step >= 2:
        half = step // 2
        corners = field[:, ::step, ::step]

        def filled(*neighbors, amplitude=amplitude):
            total = sum(neighbors)
            return total / 4 + amplitude * draws.uniform(total.shape[1:], -1.0, 1.0)

        below, right = np.roll(corners, -1, 1), np.roll(corners, -1, 2)
        middles = filled(corners, below, right, np.roll(below, -1, 2))
        field[:, half::step, half::step] = middles
        field[:, ::step, half::step] = filled(corners, right, middles, np.roll(middles, 1, 1))
        field[:, half::step, ::step] = filled(corners, below, middles, np.roll(middles, 1, 2))
        step, amplitude = half, amplitude / decay**2
    field -= field.min(axis=(1, 2), keepdims=True)
    return (field / field.max(axis=(1, 2), keepdims=True)).astype(np.float32)


def power_of_two(least: int) -> int:
    """The smallest power of two that is at least `least`, and at least 2."""
    return 2 ** max(1, (least - 1).bit_length())
