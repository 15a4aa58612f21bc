"""From flags to accuracies, with the interval that the number of images allows."""

import math

import numpy as np

# The 97.5 % point of the normal distribution: 95 % of it lies between minus and plus this.
Z95 = 1.959963984540054


def wilson_interval(successes: int, trials: int, z: float = Z95) -> tuple[float, float]:
    """Wilson's score interval for a share; honest for shares near 0 and 1, where the usual one is not.

    Example:

    >>> low, high = wilson_interval(50, 100)
    >>> round(low, 4), round(high, 4)
    (0.4038, 0.5962)
    """
    if trials == 0:
        return 0.0, 1.0
    share = successes / trials
    centre = share + z * z / (2 * trials)
    spread = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    total = 1 + z * z / trials
    return max(0.0, (centre - spread) / total), min(1.0, (centre + spread) / total)


def interval_of(flags) -> list[float]:
    """Wilson's interval of the share of flags that are set."""
    return list(wilson_interval(int(np.sum(flags)), len(flags)))


def per_class(flags, labels, classes: int) -> list[float | None]:
    """The share of flags that are set among the images of each class; `None` for a class without images.

    Example:

    >>> per_class([True, False, True], [0, 0, 1], 3)
    [0.5, 1.0, None]
    """
    flags, labels = np.asarray(flags, np.float64), np.asarray(labels)
    count = np.bincount(labels, minlength=classes)
    right = np.bincount(labels, weights=flags, minlength=classes)
    return [float(r / n) if n else None for r, n in zip(right, count, strict=True)]
