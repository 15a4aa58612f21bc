"""Swift: who goes on to which stage, what its notes say, and that only the image itself decides."""

import numpy as np
import pytest
import tensorflow as tf

from athe_tf import attacks
from tests.curved_case import curved_model
from tests.linear_case import gray_images, linear_model, predictions, radii

IMAGES = gray_images(40)


@pytest.fixture(scope="module")
def linear():
    return linear_model()


@pytest.fixture(scope="module")
def honest(linear):
    """`(attack, result, radii)` on a model whose gradients tell the truth."""
    y = predictions(linear, IMAGES)
    radius = radii(linear, IMAGES, y, "linf")
    attack = attacks.Swift(epsilon=float(np.median(radius)), n_queries=400, detector_queries=30)
    return attack, attack.run(linear, IMAGES, y), radius


def test_the_flags_of_a_linear_model_are_exact(honest):
    attack, result, radius = honest
    clear = abs(radius / attack.epsilon - 1) > 0.01
    np.testing.assert_array_equal(result.success[clear], (radius < attack.epsilon)[clear])


def test_the_short_form_for_validation_is_cr_with_one_start_per_target(honest, linear):
    attack, _, radius = honest
    y = predictions(linear, IMAGES)
    found = attack(linear, IMAGES, y, seed=1).numpy()
    short = attacks.ConstraintRelaxation(attack.epsilon)(linear, IMAGES, y, seed=1)
    np.testing.assert_array_equal(found, short)
    assert np.abs(found - IMAGES).max() <= attack.epsilon + 1e-6
    clear = abs(radius / attack.epsilon - 1) > 0.01
    wrong = predictions(linear, found) != y
    np.testing.assert_array_equal(wrong[clear], (radius < attack.epsilon)[clear])
    # Ten steps and their test, two targets chosen among four wrong classes, 20 steps toward each of them.
    victim = attacks.victim(linear)
    assert attack.schedule.craft_passes(victim) == 21 + 1 + 4 + 2 * 50


def test_it_says_that_it_is_not_autoattack(honest):
    _, result, _ = honest
    assert "not AutoAttack" in result.notes[0]
    assert not any("mislead" in note for note in result.notes)


def test_only_images_that_came_close_get_more_gradients(honest):
    attack, result, radius = honest
    survived = ~result.success
    # The distance at the edge of the ball; a linear model has the same slope everywhere.
    close = survived & (radius / attack.epsilon - 1 < attack.come_close - 0.02)
    far = survived & (radius / attack.epsilon - 1 > attack.come_close + 0.02)
    assert close.any() and far.any()
    assert result.gradients[close].min() > result.gradients[far].max() + 300
    np.testing.assert_array_equal(attack.schedule.eligible_images(attack.attacks[1], result)[close], True)
    np.testing.assert_array_equal(attack.schedule.eligible_images(attack.attacks[1], result)[far], False)


def test_square_goes_on_where_gradients_mislead(linear):
    # Pixels rounded to a fine grid: the gradient of `tf.round` is zero, random search does not need it.
    def masked(x):
        return linear(tf.round(x * 1000.0) / 1000.0 + 0.0 * x)

    victim = attacks.Victim(masked, num_classes=5, name="masked")
    y = predictions(linear, IMAGES)
    epsilon = float(2.5 * np.median(radii(linear, IMAGES, y, "linf")))
    attack = attacks.Swift(epsilon=epsilon, n_queries=1500, detector_queries=60)
    result = attack.run(victim, IMAGES, y)
    stages = {stage.name: result.robust_after(stage).sum() for stage in result.stages}
    assert stages["cr"] > stages["square-detector"] > stages["square"]
    assert any("mislead" in note and "1500 queries" in note for note in result.notes)


def test_other_images_do_not_change_the_flags_of_an_image():
    model = curved_model((8, 8, 1), classes=5)
    x = np.random.default_rng(5).uniform(size=(24, 8, 8, 1)).astype("float32")
    y = predictions(model, x)
    attack = attacks.Swift(epsilon=0.02, n_targets=2, detector_queries=20, n_queries=50)
    whole = attack.run(model, x, y)
    halves = [attack.run(model, x[r], y[r], ids=r, batch_size=5) for r in np.split(np.arange(24), 2)]
    assert 0 < whole.success.sum() < 24
    np.testing.assert_array_equal(np.concatenate([half.success for half in halves]), whole.success)
