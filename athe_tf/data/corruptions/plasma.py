"""Clouds, by the diamond-square algorithm."""

import numpy as np


def plasma(draws, side: int, decay: float):
    """Fractal fields `[N, side, side]` from 0 to 1 that continue at their opposite edges.

    Points are filled in from coarse to fine: each is the mean of its four neighbours plus noise. From one
    level to the next the noise shrinks by the *square* of `decay`, as in the script behind the published
    images.

    Args:
        draws: Random numbers.
        side: A power of two, at least 2.
        decay: The larger, the smoother.
    """
    field = np.zeros([draws.count, side, side])
    step, amplitude = side, 1.0
    while step >= 2:
        half = step // 2
        corners = field[:, ::step, ::step]

        def filled(*neighbours, amplitude=amplitude):
            total = sum(neighbours)
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
