"""PGD among 8-bit images, on linear models whose worst case on the grid is known."""

import numpy as np
import pytest

from athe_tf import attacks
from athe_tf.utils.errors import InputError
from tests.linear_case import SHAPE, linear_model, predictions

LEVELS = np.random.default_rng(2).integers(0, 256, (40, *SHAPE))
IMAGES = (LEVELS / 255).astype("float32")


def worst_margins(model, labels, levels: int):
    """For two classes: the margin at the corner of the ball that is worst, inside the box."""
    kernel, bias = (np.asarray(w, "float64") for w in model.layers[-1].get_weights())
    slope = (kernel[:, 1] - kernel[:, 0]).reshape(SHAPE)
    sign = np.where(labels == 0, 1, -1).reshape(-1, 1, 1, 1)
    corner = np.clip(LEVELS + levels * sign * np.sign(slope), 0, 255) / 255
    margins = (corner * slope).sum((1, 2, 3)) + bias[1] - bias[0]
    return np.where(labels == 0, -margins, margins)


# Radii between two levels, below one level, and of whole levels.
@pytest.mark.parametrize("radius", [0.9, 1.0, 3.7, 12.0, 40.3])
def test_two_linear_classes_are_attacked_to_the_corner_of_the_grid(radius):
    model = linear_model(classes=2)
    y = predictions(model, IMAGES)
    result = attacks.EightBitPGD(radius / 255, steps=20).run(model, IMAGES, y)
    margins = worst_margins(model, y, int(radius))
    assert (np.abs(margins) > 1e-4).all(), "else rounding decides"
    np.testing.assert_array_equal(result.success, margins < 0)
    found = 255 * result.x_adv.astype("float64")
    np.testing.assert_allclose(found, np.rint(found), atol=1e-4)
    assert np.abs(np.rint(found) - LEVELS).max() <= int(radius)


def test_images_between_levels_stay_in_the_ball_and_move_to_levels_in_reach():
    model, x = linear_model(), IMAGES * np.float32(0.99)
    x_adv = np.asarray(attacks.EightBitPGD(0.4 / 255, steps=3)(model, x, predictions(model, x)))
    assert np.abs(x_adv - x).max() <= 0.4 / 255 + 1e-6
    near = np.abs(255 * x - np.rint(255 * x)) < 0.39  # a level lies in reach
    np.testing.assert_allclose((255 * x_adv)[near], np.rint(255 * x)[near], atol=1e-3)
    np.testing.assert_array_equal(
        x_adv[np.abs(255 * x - np.rint(255 * x)) > 0.41], x[np.abs(255 * x - np.rint(255 * x)) > 0.41]
    )


def test_steps_are_whole_levels_and_the_norm_is_linf():
    assert [round(255 * attacks.EightBitPGD(e / 255).step_size) for e in (0.5, 1, 8, 76.5)] == [1, 1, 2, 19]
    with pytest.raises(InputError, match="supports only norm='linf'"):
        attacks.EightBitPGD(0.1, "l2")
