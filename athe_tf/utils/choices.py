"""Values and rules that flags and the library share, without TensorFlow."""

import math

from athe_tf.utils.errors import check, check_choice

NORMS = ("linf", "l2", "l1")
STARTS = ("uniform", "gaussian", "zero")
#: How weight normalization meets the optimizer, see `CosineDense`.
WEIGHT_NORMS = ("differentiable", "project", "straight_through")


def check_epsilon(norm: str, epsilon: float, shown: str = "epsilon") -> None:
    """Raises `InputError` for a radius that no threat model can have.

    Args:
        norm: One of `NORMS`.
        epsilon: The radius, in pixels of [0, 1].
        shown: How the message calls it.
    """
    check_choice("norm", norm, NORMS)
    check(
        math.isfinite(epsilon) and epsilon >= 0,
        f"{shown} must be finite and not negative. Received: {shown}={epsilon:g}.",
    )
    check(
        norm != "linf" or epsilon <= 1,
        f"Pixels lie in [0, 1], so {shown} must not exceed 1 in linf. Received: {shown}={epsilon:g}. "
        f"Did you mean {shown}={epsilon:g}/255?",
    )
