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


def mcnemar(lost: int, won: int) -> float:
    """The p-value of McNemar's exact test: how surprising the split of the images that changed sides is.

    Example:

    >>> round(mcnemar(2, 9), 4)
    0.0654

    Args:
        lost: Images that only the first model classifies correctly.
        won: Images that only the second one does.
    """
    from scipy.stats import binomtest

    return float(binomtest(lost, lost + won).pvalue) if lost + won else 1.0


def paired_interval(lost: int, won: int, images: int) -> tuple[float, float]:
    """The 95% interval of the difference `(won - lost) / images` of two models on the same images.

    Wald's interval after half an image is added to each cell (Agresti and Min, 2005, Statistics in Medicine
    24), which holds its level for small counts too.

    Example:

    >>> low, high = paired_interval(2, 9, 100)
    >>> round(low, 4), round(high, 4)
    (0.0034, 0.1338)
    """
    total = images + 2
    center = (won - lost) / total
    half = Z95 * math.sqrt(max(0.0, (won + lost + 1) / total - center * center) / total)
    return max(-1.0, center - half), min(1.0, center + half)


def seeds_interval(first: Sequence[float], second: Sequence[float], paired: bool) -> tuple[float, float]:
    """The 95% interval of how much larger the mean of `second` over seeds is, by Student's t.

    Args:
        first: One value per seed.
        second: One value per seed.
        paired: Whether the values belong to the same seeds, in the same order; else Welch's t.
    """
    if paired:
        return mean_interval([b - a for a, b in zip(first, second, strict=True)])
    from scipy.stats import t

    parts = [statistics.variance(values) / len(values) for values in (first, second)]
    shares = sum(part**2 / (len(v) - 1) for part, v in zip(parts, (first, second), strict=True))
    half = t.ppf(0.975, sum(parts) ** 2 / shares) * math.sqrt(sum(parts)) if shares else 0.0
    center = statistics.fmean(second) - statistics.fmean(first)
    return float(center - half), float(center + half)
