"""Accuracies and confidence intervals, from per-example flags and over seeds."""

import math
import statistics
from collections.abc import Sequence

import numpy as np

from athe_tf.utils.errors import check

# The 97.5% quantile of the normal distribution, for two-sided 95% intervals.
Z95 = 1.959963984540054


def wilson_interval(successes: int, trials: int, z: float = Z95) -> tuple[float, float]:
    """Wilson's score interval of a proportion, which is accurate near 0 and 1, unlike the normal one.

    Example:

    >>> low, high = wilson_interval(50, 100)
    >>> round(low, 4), round(high, 4)
    (0.4038, 0.5962)
    """
    if trials == 0:
        return 0.0, 1.0
    share = successes / trials
    center = share + z * z / (2 * trials)
    half_width = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    total = 1 + z * z / trials
    return max(0.0, (center - half_width) / total), min(1.0, (center + half_width) / total)


def interval_of(flags) -> list[float]:
    """Wilson's interval of the share of true flags."""
    return list(wilson_interval(int(np.sum(flags)), len(flags)))


def per_class(flags, labels, classes: int) -> list[float | None]:
    """The share of true flags per class; `None` for a class without images.

    Example:

    >>> per_class([True, False, True], [0, 0, 1], 3)
    [0.5, 1.0, None]
    """
    flags, labels = np.asarray(flags, np.float64), np.asarray(labels)
    count = np.bincount(labels, minlength=classes)
    right = np.bincount(labels, weights=flags, minlength=classes)
    return [float(r / n) if n else None for r, n in zip(right, count, strict=True)]


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95% interval of a mean over seeds, by Student's t with n - 1 degrees of freedom.

    Example:

    >>> low, high = mean_interval([1.0, 2.0, 3.0])
    >>> round(low, 3), round(high, 3)
    (-0.484, 4.484)
    """
    from scipy.stats import t  # here, because it takes a while

    check(len(values) > 1, f"An interval over seeds needs at least two. Received: {len(values)}.")
    half = t.ppf(0.975, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    center = statistics.fmean(values)
    return float(center - half), float(center + half)
