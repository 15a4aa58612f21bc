"""Constraint relaxation: independent of the logit scale, exact on linear models, resumable."""

import numpy as np
import pytest
import tensorflow as tf

from athe_tf import attacks
from athe_tf.attacks.constraint_relaxation import (
    CYCLE,
    FIRST_STEPS,
    JUDGED,
    RELAXED,
    TARGET_ROUNDS,
    came_close,
)
from athe_tf.utils.errors import InputError
from tests.curved_case import curved_model
from tests.linear_case import DUAL, gray_images, linear_model, predictions, radii

IMAGES = gray_images()


class ExactCase:
    """Linear logits with weights that are multiples of 100: a hundredth of them is exact, too.

    The weights are a variable: one trace serves all factors.
    """

    def __init__(self, norm, epsilon, size=40, classes=6):
        rng = np.random.default_rng(0)
        self.kernel = 100.0 * rng.integers(-9, 10, size=(size, classes))
        self.scaled = tf.Variable(self.kernel.astype("float32"))
        self.victim = attacks.Victim(
            lambda x: tf.matmul(tf.reshape(x - 0.5, [-1, size]), self.scaled), num_classes=classes
        )
        # Multiples of 1/64, so that images and clean logits are exact in float32.
        self.x = rng.integers(20, 45, size=(50, 4, 5, 2)).astype("float32") / 64
        self.y = self.victim.logits(self.x).numpy().argmax(1).astype("int32")
        self.attack = attacks.get("cr", epsilon=epsilon, norm=norm, cycles=2)

    def run(self, factor):
        self.scaled.assign((factor * self.kernel).astype("float32"))
        return self.attack.run(self.victim, self.x, self.y)


@pytest.mark.parametrize("norm, epsilon", [("linf", 1 / 64), ("l2", 0.08)])
def test_multiplying_all_logits_changes_no_flag(norm, epsilon):
    case = ExactCase(norm, epsilon)
    plain = case.run(1.0)
    assert 5 < plain.success.sum() < 45
    for factor in (0.01, 100.0):
        other = case.run(factor)
        for name in ("success", "rounds", "passes"):
            np.testing.assert_array_equal(getattr(other, name), getattr(plain, name), err_msg=name)
    for factor in (2.0**12, 2.0**-12):
        other = case.run(factor)
        for name in ("x_adv", "success", "queries", "gradients", "norm", "rounds"):
            np.testing.assert_array_equal(getattr(other, name), getattr(plain, name), err_msg=name)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_a_linear_model_is_attacked_exactly(norm):
    model = linear_model()
    y = predictions(model, IMAGES)
    radius = radii(model, IMAGES, y, norm)
    epsilon = float(np.median(radius))
    result = attacks.get("cr", epsilon=epsilon, norm=norm).run(model, IMAGES, y)
    clear = abs(radius / epsilon - 1) > 0.03
    np.testing.assert_array_equal(result.success[clear], (radius < epsilon)[clear])


def test_l1_where_it_would_overstate_robustness_is_refused():
    with pytest.raises(InputError, match="'cr' supports only norm='linf' or 'l2'. Received: norm='l1'"):
        attacks.get("cr", epsilon=1.0, norm="l1")


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_targets_are_the_nearest_classes(norm):
    model = linear_model(classes=8)
    y = predictions(model, IMAGES)
    result = attacks.get("cr", epsilon=1e-4, norm=norm, n_targets=2).run(model, IMAGES, y)
    kernel = model.layers[-1].get_weights()[0]
    logits = np.asarray(model(IMAGES))
    gap = logits[np.arange(len(y)), y][:, None] - logits
    distance = gap / np.linalg.norm(kernel[:, None, :] - kernel[:, y, None], DUAL[norm], axis=0).clip(1e-9)
    distance[np.arange(len(y)), y] = np.inf
    # Distances are measured for the six likeliest of the seven wrong classes.
    unlikely = np.where(np.arange(8) == y[:, None], np.inf, logits).argmin(axis=1)
    distance[np.arange(len(y)), unlikely] = np.inf
    survived = ~result.success
    nearest = np.sort(distance.argsort(axis=1)[:, :2])[survived]
    np.testing.assert_array_equal(np.sort(result.memory["cr"][survived, :2]), nearest)
    # The last columns are margins: the clean one and the smallest one.
    margins = result.memory["cr"][survived, -2:]
    least = np.where(gap == 0, np.inf, gap).min(axis=1)
    np.testing.assert_allclose(margins[:, 0], least[survived], rtol=1e-3)
    assert (margins[:, 1] < margins[:, 0]).all()


def test_an_image_came_close_by_the_slope_or_by_what_is_left_of_its_margin():
    # One target: its class, its distance in epsilons; the clean margin and the smallest one.
    memory = np.array([[1, 0.05, 4, 1], [1, 0.5, 4, 0.36], [1, 0.5, 4, 0.37], [1, 0.11, 4, 0.5]])
    # A linear model at a distance of 0.1 keeps an eleventh of its margin.
    np.testing.assert_array_equal(came_close(memory, 0.1), [True, True, False, False])


def test_distant_targets_are_given_up_in_the_first_cycle():
    model = linear_model()
    y = predictions(model, IMAGES)
    radius = radii(model, IMAGES, y, "linf")
    far = radius > np.quantile(radius, 0.4)
    epsilon = float(radius[far].min() / 2)  # the boundary is at two epsilons or more
    result = attacks.get("cr", epsilon=epsilon, n_targets=2).run(model, IMAGES[far], y[far])
    steps = FIRST_STEPS + 2 * (JUDGED + 1)
    assert (result.gradients == steps + 4).all()  # and one for each of four wrong classes
    # The clean pass, the last iterate of the first round, the ranking, and the projected points.
    assert (result.queries == steps + 3 + 2 * RELAXED).all()
    assert not result.success.any() and (result.rounds == TARGET_ROUNDS + 2 * 5).all()


@pytest.fixture(scope="module")
def curved():
    return curved_model((8, 8, 1), classes=5)


@pytest.fixture(scope="module")
def curved_images(curved):
    x = np.random.default_rng(5).uniform(size=(40, 8, 8, 1)).astype("float32")
    return x, predictions(curved, x)


def test_a_resumed_run_ends_as_if_it_had_not_stopped(curved, curved_images, tmp_path):
    attack = attacks.get("cr", epsilon=0.02, cycles=1, restarts=2, come_close=1.0)
    whole = attack.run(curved, *curved_images, batch_size=8)
    state, batches = tmp_path / "state.npz", []

    def interrupt(*_):
        batches.append(1)
        if len(batches) % 4 == 0:
            raise KeyboardInterrupt

    for _ in range(30):
        try:
            resumed = attack.run(curved, *curved_images, batch_size=8, state=state, progress=interrupt)
            break
        except KeyboardInterrupt:
            continue
    assert len(batches) > 8 and 0 < whole.success.sum() < 40
    np.testing.assert_array_equal(resumed.success, whole.success)
    np.testing.assert_array_equal(resumed.rounds, whole.rounds)
    np.testing.assert_array_equal(resumed.gradients, whole.gradients)
    np.testing.assert_allclose(resumed.memory["cr"], whole.memory["cr"], rtol=1e-4, atol=1e-5)


def test_the_number_of_targets_follows_the_classes():
    def count(classes):
        return attacks.get("cr", epsilon=0.1).target_count(attacks.Victim(lambda x: x, num_classes=classes))

    assert [count(classes) for classes in (2, 3, 10, 100, 1000)] == [1, 2, 3, 5, 7]
    assert CYCLE == 30
    with pytest.raises(InputError, match="number of classes"):
        attacks.get("cr", epsilon=0.1)(lambda x: tf.reshape(x, [-1, 40]), IMAGES, np.zeros(60, "int32"))
