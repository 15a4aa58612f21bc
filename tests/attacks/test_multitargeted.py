"""MultiTargeted: exact cases, targets and rounds."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

import athe_tf
from athe_tf import attacks
from athe_tf.attacks.targets import ranked_target
from athe_tf.utils.errors import InputError
from tests.linear_case import gray_images, linear_model, predictions, radii

IMAGES = gray_images()


@pytest.fixture(scope="module")
def linear():
    return linear_model()


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
@pytest.mark.parametrize("classes", [2, 5])
def test_finds_exactly_the_images_within_epsilon(norm, classes):
    model = linear_model(classes=classes)
    y = predictions(model, IMAGES)
    radius = radii(model, IMAGES, y, norm)
    epsilon = float(np.median(radius))
    attack = attacks.get("multitargeted-60", epsilon=epsilon, norm=norm, step_size=epsilon / 5, start="zero")
    result = attack.run(model, IMAGES, y)
    clear = abs(radius / epsilon - 1) > 0.03
    np.testing.assert_array_equal(result.success[clear], (radius < epsilon)[clear])
    # One restart a target: the clean logits, 60 steps, the last point; and the clean pass.
    failed = ~result.success
    assert (result.gradients[failed] == 60 * (classes - 1)).all()
    assert (result.queries[failed] == 1 + 62 * (classes - 1)).all()
    assert attack.threat.distance(IMAGES, result.x_adv).numpy().max() <= epsilon + 1e-6


def test_targets_are_ranked_by_clean_logit_without_the_label():
    logits = tf.constant([[3.0, 1.0, 2.0], [1.0, 2.0, 5.0]])
    labels = tf.constant([0, 0])
    np.testing.assert_array_equal(ranked_target(logits, labels, 0), [2, 2])
    np.testing.assert_array_equal(ranked_target(logits, labels, tf.constant(1)), [1, 1])
    np.testing.assert_array_equal(ranked_target(logits, labels, 2), [2, 2])


def test_more_targets_and_more_restarts_never_help_the_model(linear):
    y = predictions(linear, IMAGES)
    chain = [
        attacks.get(name, epsilon=0.006, n_targets=k).run(linear, IMAGES, y).success
        for name, k in (("multitargeted-2", 1), ("multitargeted-2", 3), ("multitargeted-2x3", 3))
    ]
    for weaker, stronger in itertools.pairwise(chain):
        assert not (weaker & ~stronger).any()
    assert chain[0].sum() < chain[-1].sum()


def test_scale_shift_and_batch_size_do_not_matter(linear):
    y = predictions(linear, IMAGES)
    attack = attacks.get("multitargeted-10", epsilon=0.006)
    reference = attack.run(linear, IMAGES, y)
    pieces = attack.run(linear, IMAGES, y, batch_size=13)
    scaled = attack.run(linear_model(scale=30.0, shift=40.0), IMAGES, y)
    np.testing.assert_array_equal(reference.success, pieces.success)
    np.testing.assert_allclose(reference.x_adv, pieces.x_adv, atol=1e-6)
    np.testing.assert_array_equal(reference.success, scaled.success)


def test_training_gets_the_target_with_the_largest_margin(linear):
    y = predictions(linear, IMAGES)

    def margin(**kwargs):
        attack = attacks.get("multitargeted-10", epsilon=0.02, start="zero", **kwargs)
        logits = np.array(linear(attack(linear, IMAGES, y)))
        own = logits[np.arange(60), y]
        logits[np.arange(60), y] = -np.inf
        return logits.max(1) - own

    one, every = margin(n_targets=1), margin()
    assert (every >= one - 1e-5).all() and (every > one + 1e-3).any()


def test_settings_say_what_was_attacked():
    settings = attacks.get("multitargeted-20", epsilon=0.1, n_targets=4).settings()
    assert settings["n_targets"] == 4 and settings["steps"] == 20 and settings["loss"] == "gap"
    assert attacks.get("multitargeted", epsilon=0.1).settings()["n_targets"] is None


def test_an_unknown_number_of_classes_is_found_out_or_refused_with_a_remedy(linear):
    attack, y = attacks.get("multitargeted-2", epsilon=0.01), predictions(linear, IMAGES)
    told, found_out = (attack.run(model, IMAGES, y) for model in (linear, lambda x: linear(x)))
    assert told.stages[0].rounds == found_out.stages[0].rounds == 4
    np.testing.assert_array_equal(told.success, found_out.success)
    # A single call has no clean pass to learn it from.
    with pytest.raises(InputError, match=r"number of classes .* is unknown.*num_classes=.*set `n_targets`"):
        attack(lambda x: linear(x), IMAGES, y)
    with pytest.raises(InputError, match="`n_targets` must be at least 1"):
        attacks.get("multitargeted", epsilon=0.1, n_targets=0)
    assert attacks.get("multitargeted", epsilon=0.1, n_targets=9).rounds(athe_tf.victim(linear)) == 4
