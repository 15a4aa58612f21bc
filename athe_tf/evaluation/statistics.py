"""From flags to accuracies, with the interval that the number of images allows."""

import math

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
