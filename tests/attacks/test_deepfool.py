"""DeepFool on linear models, where one step is enough, and what it costs."""

import numpy as np
import pytest

from athe_tf import attacks
from tests.linear_case import gray_images, linear_model, predictions, radii

IMAGES = gray_images()


@pytest.fixture(scope="module")
def linear():
    return linear_model()


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_the_radius_is_found_up_to_the_overshoot(linear, norm):
    y = predictions(linear, IMAGES)
    radius = radii(linear, IMAGES, y, norm)
    epsilon = float(np.median(radius))
    result = attacks.get("deepfool", epsilon=epsilon, norm=norm).run(linear, IMAGES, y)
    # 2% of overshoot, and the least step, which matters next to the boundary only.
    assert (result.norm >= radius * 0.9999).all()
    np.testing.assert_array_less(result.norm, radius * 1.04 + 1.1e-5)
    clear = abs(radius / epsilon - 1) > 0.03
    np.testing.assert_array_equal(result.success[clear], (radius < epsilon)[clear])


def test_a_linear_model_needs_one_step(linear):
    y = predictions(linear, IMAGES)
    result = attacks.get("deepfool", epsilon=0.1).run(linear, IMAGES, y)
    # The clean pass, the pass at the image with its slopes, and the pass that sees the class change; that
    # one has slopes too, for the images that go on.
    assert (result.queries == 3).all()
    assert (result.gradients == 2 * (5 - 1)).all()


def test_costs_are_exact_when_steps_run_out():
    model = linear_model(classes=12)
    y = predictions(model, IMAGES)
    # With a tenth of the images already wrong and no overshoot at all, one step does not always cross.
    result = attacks.get("deepfool-1", epsilon=0.1, n_targets=3, overshoot=0.0).run(model, IMAGES, y)
    assert (result.queries == 3).all() and (result.gradients == 3).all()


def test_scale_and_shift_of_the_logits_do_not_matter(linear):
    y = predictions(linear, IMAGES)
    scaled = linear_model(scale=30.0, shift=40.0)
    attack = attacks.get("deepfool", epsilon=0.03)
    plain, other = (attack.run(model, IMAGES, y) for model in (linear, scaled))
    np.testing.assert_allclose(plain.norm, other.norm, rtol=1e-3, atol=1e-6)
    np.testing.assert_array_equal(plain.success, other.success)


def test_targets_are_the_likeliest_classes(linear):
    y = predictions(linear, IMAGES)
    logits = np.asarray(linear(IMAGES))
    kernel = linear.layers[-1].get_weights()[0]
    rows = np.arange(len(y))
    second = np.argsort(logits, axis=1)[:, -2]
    slope = np.linalg.norm(kernel[:, second] - kernel[:, y], axis=0)
    expected = (logits[rows, y] - logits[rows, second]) / slope
    result = attacks.get("deepfool", epsilon=1.0, norm="l2", n_targets=1).run(linear, IMAGES, y)
    # A third class may be met on the way to the second, never the other way round.
    assert (result.norm <= expected * 1.021 + 2e-5).all()
    np.testing.assert_allclose(np.median(result.norm / expected), 1.02, atol=0.005)


def test_images_that_cannot_be_changed_stay_and_end():
    model = linear_model()
    model.layers[-1].set_weights([np.zeros((40, 5)), np.arange(5.0)])
    result = attacks.get("deepfool-4", epsilon=0.1).run(model, IMAGES, np.full(60, 4))
    assert not result.success.any() and np.isinf(result.norm).all() and np.isfinite(result.x_adv).all()
    assert (result.queries == 6).all() and (result.gradients == 16).all()
