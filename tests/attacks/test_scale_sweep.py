"""The sweep over logit scales, and the warnings about the scale."""

import keras
import numpy as np
import pytest

import athe_tf
from athe_tf import attacks
from athe_tf.attacks.engine.model_checks import scale_warnings
from athe_tf.utils.errors import InputError
from tests.linear_case import predictions

SETTINGS = {"epsilon": 0.05, "steps": 5, "step_size": 0.02}
SCALES = (1, 15)


@pytest.fixture(scope="module")
def net():
    """An untrained hypersphere network on images of one channel that are not square."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((6, 5, 1))
    h = keras.layers.Flatten()(keras.layers.Conv2D(8, 3, activation="relu")(inputs))
    h = keras.layers.Dense(16, activation="relu")(h)
    return keras.Model(inputs, athe_tf.CosineDense(4, scale=15.0, name="head")(h))


@pytest.fixture(scope="module")
def images(net):
    x = np.random.default_rng(0).uniform(size=(50, 6, 5, 1)).astype("float32")
    return x, predictions(net, x)


@pytest.fixture(scope="module")
def sweep():
    return attacks.get("pgd-scale-sweep", scales=SCALES, **SETTINGS)


def test_the_verdict_is_the_union_of_all_scales_and_the_margin(net, images, sweep):
    union = attacks.PGD(**SETTINGS, loss="margin").run(net, *images).success
    for scale in SCALES:
        union |= attacks.PGD(**SETTINGS, logit_scale=scale).run(net, *images).success
    result = sweep.run(net, *images)
    np.testing.assert_array_equal(result.success, union)
    assert 0 < union.sum() < 50
    # Three losses with five steps and the last point each; and the clean pass.
    assert (result.queries[~union] == 1 + 3 * 6).all() and (result.gradients[~union] == 15).all()


def test_images_stay_admissible_in_any_batch_size(net, images, sweep):
    whole, pieces = sweep.run(net, *images), sweep.run(net, *images, batch_size=11)
    np.testing.assert_array_equal(whole.success, pieces.success)
    for x_adv in (whole.x_adv, sweep(net, *images).numpy()):
        assert abs(x_adv - images[0]).max() <= 0.05 + 1e-6 and x_adv.min() >= 0 and x_adv.max() <= 1


def test_settings_list_the_scales(sweep):
    assert sweep.settings()["scales"] == [1.0, 15.0]
    assert attacks.get("pgd-scale-sweep-7", epsilon=0.1).settings()["scales"] == [1, 5, 10, 15, 30]
    assert attacks.get("pgd-scale-sweep-7", epsilon=0.1).steps == 7
    with pytest.raises(InputError, match="`scales` must be larger than 0"):
        attacks.get("pgd-scale-sweep", epsilon=0.1, scales=[0])


RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    "logits, expected",
    [
        (RNG.uniform(-1, 1, (200, 10)), ["Cosine logits at scale 1"]),
        (RNG.normal(size=(200, 10)) * 5, []),
        (np.eye(10)[np.zeros(200, int)] * 20, ["100.0% of the examples have a margin of 16 or more"]),
        (np.eye(10)[np.zeros(200, int)] * 15.9, []),
        (RNG.dirichlet(np.ones(10), 200), ["look like probabilities"]),
    ],
)
def test_warnings_name_what_is_wrong_with_the_scale(logits, expected):
    found = scale_warnings(logits, np.zeros(200, int))
    assert len(found) == len(expected)
    for message, part in zip(found, expected, strict=True):
        assert part in message


def test_one_per_cent_of_large_margins_is_tolerated():
    logits = RNG.normal(size=(200, 10))
    logits[:2, 0] = 40.0
    assert scale_warnings(logits, np.zeros(200, int)) == []
    logits[2, 0] = 40.0
    assert len(scale_warnings(logits, np.zeros(200, int))) == 1
