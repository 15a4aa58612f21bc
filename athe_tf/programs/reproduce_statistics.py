"""Means and confidence intervals over seeds, and differences on the same images."""

import math
import statistics
from collections.abc import Sequence

import numpy as np

from athe_tf.results.intervals import Z95
from athe_tf.utils.errors import check


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of a mean over seeds, by Student's t with n - 1 degrees of freedom.

    Example:

    >>> low, high = mean_interval([1.0, 2.0, 3.0])
    >>> round(low, 3), round(high, 3)
    (-0.484, 4.484)
    """
    from scipy.stats import t

    check(len(values) > 1, f"An interval over seeds needs at least two. Received: {len(values)}.")
    half = t.ppf(0.975, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    center = statistics.fmean(values)
    return float(center - half), float(center + half)


def flags_of(text: str) -> np.ndarray:
    """Flags as `evaluation.json` stores them: one character per image.

    Example:

    >>> flags_of("101").tolist()
    [True, False, True]
    """
    return np.array([character == "1" for character in text])


def paired_interval(one: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """The 95 % interval of the mean of `one - other` over images that both have, by the normal distribution.

    It contains the chance of the choice of images, not that of the training.

    Example:

    >>> low, high = paired_interval(flags_of("1100"), flags_of("1000"))
    >>> round(low, 2), round(high, 2)
    (-0.24, 0.74)
    """
    check(len(one) == len(other), f"Expected the same images. Received: {len(one)} and {len(other)} flags.")
    difference = one.astype(np.float64) - other.astype(np.float64)
    half = Z95 * float(difference.std(ddof=1)) / math.sqrt(len(difference))
    center = float(difference.mean())
    return center - half, center + half
