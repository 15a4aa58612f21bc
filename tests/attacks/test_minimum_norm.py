"""What DeepFool, C&W and FAB share: the contract of an attack, and counting at epsilon."""

import numpy as np
import pytest

import athe_tf
from athe_tf import attacks
from athe_tf.utils.errors import InputError
from tests.curved_case import curved_model
from tests.linear_case import gray_images, linear_model, predictions

IMAGES = gray_images(40)
# Radii at which about half of the images of the curved network fall.
EPSILON = {"linf": 0.04, "l2": 0.2, "l1": 0.6}
SETTINGS = {
    "deepfool": {"steps": 10},
    "cw-l2": {"steps": 30, "search_steps": 3, "initial_c": 1.0, "learning_rate": 0.05},
    "fab": {"steps": 8},
    "fab-t": {"steps": 8},
    # The radius of DDN falls from 1 by 5% per step.
    "ddn": {"steps": 100},
    # After more steps, images lie on the boundary to the last bit, and another batch size flips them.
    "fmn": {"steps": 30},
}
CASES = [
    ("deepfool", "linf"),
    ("deepfool", "l2"),
    ("cw-l2", "l2"),
    ("cw-l2", "linf"),
    ("fab", "linf"),
    ("fab", "l2"),
    ("fab", "l1"),
    ("fab-t", "linf"),
    ("ddn", "l2"),
    ("fmn", "linf"),
    ("fmn", "l2"),
    ("fmn", "l1"),
]


def some_norm(name):
    """linf, or the only norm of an attack."""
    norms = attacks.ATTACKS.get(name).norms
    return "linf" if "linf" in norms else norms[0]


@pytest.fixture(scope="module")
def curved():
    """Images that are not square; no dead units, whose slopes are noise."""
    return curved_model((6, 5, 1), activation="elu")


@pytest.fixture(scope="module")
def images(curved):
    x = np.random.default_rng(3).uniform(size=(30, 6, 5, 1)).astype("float32")
    y = predictions(curved, x)
    y[:3] = (y[:3] + 1) % 4
    return x, y


@pytest.fixture(scope="module")
def results(curved, images):
    """Every attack once, for the tests that only look at the outcome."""
    x, y = images
    made = {}
    for name, norm in CASES:
        attack = attacks.get(name, epsilon=EPSILON[norm], norm=norm, **SETTINGS[name])
        kept = x.copy(), [w.copy() for w in curved.get_weights()]
        made[name, norm] = attack, attack.run(curved, x, y, batch_size=30, seed=5)
        np.testing.assert_array_equal(x, kept[0])
        for before, after in zip(kept[1], curved.get_weights(), strict=True):
            np.testing.assert_array_equal(before, after)
    return made


@pytest.mark.parametrize("case", CASES)
def test_success_means_wrong_within_epsilon_and_inside_the_box(curved, images, results, case):
    x, y = images
    attack, result = results[case]
    x_adv, success = result.x_adv, result.success
    assert x_adv.dtype == np.float32 and np.isfinite(x_adv).all()
    assert x_adv.min() >= 0 and x_adv.max() <= 1
    distance = attack.threat.distance(x, x_adv).numpy()
    assert distance.max() <= EPSILON[case[1]] + 1e-6
    logits = np.array(curved(x_adv))
    rows = np.arange(len(y))
    label = logits[rows, y]
    logits[rows, y] = -np.inf
    margin = logits.max(axis=1) - label
    # An image at the boundary itself is on either side of it, depending on how the network is compiled.
    clear = abs(margin) > 1e-5
    assert clear.sum() >= len(y) - 2
    np.testing.assert_array_equal(margin[clear] > 0, success[clear])
    assert 3 < success.sum() < 30  # three were wrong from the start
    np.testing.assert_array_equal(x_adv[~success], x[~success])
    np.testing.assert_allclose(result.norm[success][3:], distance[success][3:], rtol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_norms_beyond_epsilon_are_reported(results, case):
    _, result = results[case]
    assert (result.norm[~result.success] > EPSILON[case[1]]).all()
    # FMN in l1 loses the boundary of some images and finds nothing there.
    assert np.isfinite(result.norm).mean() > (0.7 if case == ("fmn", "l1") else 0.9)


@pytest.mark.parametrize("case", CASES)
def test_a_misclassified_image_has_norm_zero_and_costs_one_query(results, case):
    _, result = results[case]
    assert result.success[:3].all() and not result.norm[:3].any()
    assert (result.queries[:3] == 1).all() and not result.gradients[:3].any()


@pytest.mark.parametrize("case", CASES)
def test_neither_batch_size_nor_company_changes_an_image(curved, images, results, case):
    x, y = images
    attack, whole = results[case]
    part = slice(11, 30)
    pieces = attack.run(curved, x[part], y[part], ids=np.arange(11, 30), batch_size=7, seed=5)
    np.testing.assert_array_equal(whole.success[part], pieces.success)
    np.testing.assert_allclose(whole.norm[part], pieces.norm, rtol=1e-3)
    np.testing.assert_array_equal(whole.queries[part], pieces.queries)


@pytest.mark.parametrize("name", SETTINGS)
def test_one_trace_serves_all_batch_sizes(curved, images, results, name):
    attack, _ = next(results[case] for case in CASES if case[0] == name)
    functions = attack._compiled[athe_tf.victim(curved)]
    attack.run(curved, *images, batch_size=13)
    assert len(functions) == 1  # they are concrete: a function is a trace


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("name", SETTINGS)
def test_any_number_of_classes_will_do(name, classes):
    shape = (3, 4, 1)
    model, x = linear_model(classes, shape=shape), gray_images(8, shape=shape)
    attack = attacks.get(name, epsilon=1.0, norm=some_norm(name), **SETTINGS[name])
    result = attack.run(model, x, predictions(model, x))
    assert np.isfinite(result.norm).all() and result.success.all()


@pytest.mark.parametrize("name", SETTINGS)
def test_epsilon_zero_returns_the_input_and_still_reports_norms(name):
    model = linear_model()
    y = predictions(model, IMAGES)
    result = attacks.get(name, epsilon=0.0, norm=some_norm(name), **SETTINGS[name]).run(model, IMAGES, y)
    assert not result.success.any()
    np.testing.assert_array_equal(result.x_adv, IMAGES)
    assert np.isfinite(result.norm).all()


@pytest.mark.parametrize("name", ["deepfool", "fab-t"])
def test_a_call_gives_the_nearest_adversarial_images(name):
    model = linear_model()
    y = predictions(model, IMAGES)
    attack = attacks.get(name, epsilon=0.5, norm="l2", steps=10)
    x_adv = attack(model, IMAGES, y)
    assert (predictions(model, x_adv) != y).all()
    assert (attack.threat.distance(IMAGES, x_adv) <= attack.run(model, IMAGES, y).norm * 1.001).numpy().all()


def test_clipping_to_epsilon_finds_more_and_costs_a_query():
    model = linear_model()
    y = predictions(model, IMAGES)
    # A coarse attack overshoots by half, so that what it found is often wrong at epsilon too.
    found = attacks.DeepFool(0.03, overshoot=0.5).run(model, IMAGES, y)
    clipped = attacks.DeepFool(0.03, overshoot=0.5, clip_to_epsilon=True).run(model, IMAGES, y)
    assert (found.success <= clipped.success).all() and clipped.success.sum() > found.success.sum()
    np.testing.assert_array_equal(clipped.queries - found.queries, ~found.success)
    gained = clipped.success & ~found.success
    np.testing.assert_allclose(clipped.norm[gained], 0.03, rtol=1e-4)
    np.testing.assert_array_equal(predictions(model, clipped.x_adv) != y, clipped.success)


@pytest.mark.parametrize(
    "name, kwargs, message",
    [
        ("deepfool", {"norm": "l1"}, "'deepfool' supports only norm='linf' or 'l2'. Received: norm='l1'"),
        ("cw-l2", {"norm": "l1"}, "'cw-l2' supports only norm='l2' or 'linf'"),
        ("deepfool", {"steps": 0}, "`steps` must be at least 1"),
        ("deepfool", {"n_targets": 0}, "`n_targets` must be at least 1"),
        ("deepfool", {"overshoot": -1}, "`overshoot` must be at least 0"),
        ("cw-l2", {"initial_c": 0}, "`initial_c` must be positive"),
        ("cw-l2", {"search_steps": 0}, "`search_steps` must be at least 1"),
        ("fab", {"beta": 1.0}, "`beta` must lie between 0 and 1"),
        ("fab", {"alpha_max": 2}, r"`alpha_max` must lie in \[0, 1\]"),
        ("fab", {"eta": 0.9}, "`eta` must be at least 1"),
        ("fab", {"restarts": 0}, "`?restarts`? must be at least 1"),
        ("fab-t", {"n_targets": 0}, "`n_targets` must be at least 1"),
    ],
)
def test_impossible_arguments_are_refused(name, kwargs, message):
    with pytest.raises(InputError, match=message):
        attacks.get(name, epsilon=0.1, **kwargs)
