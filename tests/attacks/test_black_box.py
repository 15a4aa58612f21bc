"""The contract that all black-box attacks keep, then NES, SPSA and ZOO on their own."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import athe_tf
from athe_tf import attacks
from athe_tf.utils.errors import InputError
from tests.curved_case import curved_model
from tests.linear_case import gray_images, linear_model, predictions, radii

IMAGES = gray_images()
# Small budgets: (name, arguments, most queries of an image).
CASES = {
    "square": ("square-60", {}, 60 + 2),
    "spsa": ("spsa-4", {"samples": 8, "norm": "l2"}, 1 + 4 * 17),
    "zoo": ("zoo-80", {}, 80),
    "zoo-threshold": ("zoo-80", {"mode": "threshold"}, 80),
    "rays": ("rays-80", {}, 80),
}
EPSILON = {"linf": 0.05, "l2": 0.25}
ESTIMATING = ["nes-20", "spsa-20", "zoo-2000"]


@functools.cache
def make(case, epsilon=None):
    name, kwargs, budget = CASES[case]
    epsilon = EPSILON[kwargs.get("norm", "linf")] if epsilon is None else epsilon
    return attacks.get(name, epsilon=epsilon, **kwargs), budget


@pytest.fixture(scope="module")
def linear():
    return linear_model()


@pytest.fixture(scope="module")
def curved():
    """Images of one channel that are not square."""
    return curved_model((7, 5, 1), convolutions=1, normalized=True)


@pytest.mark.parametrize("case", CASES)
def test_images_stay_admissible_inputs_untouched_budgets_kept(curved, case):
    x = np.random.default_rng(3).uniform(size=(20, 7, 5, 1)).astype("float32")
    x[:, :2] = np.round(x[:, :2])  # some pixels at the ends of the box
    y = np.arange(20, dtype="int64") % 4
    kept = x.copy()
    attack, budget = make(case)
    result = attack.run(curved, x, y)
    for x_adv in (result.x_adv, attack(curved, x, y).numpy()):
        assert x_adv.dtype == np.float32 and np.isfinite(x_adv).all()
        assert x_adv.min() >= 0 and x_adv.max() <= 1
        assert attack.threat.distance(x, x_adv).numpy().max() <= attack.threat.epsilon + 1e-6
    np.testing.assert_array_equal(x, kept)
    np.testing.assert_array_equal(result.x_adv[~result.success], x[~result.success])
    np.testing.assert_array_equal(predictions(curved, result.x_adv) != y, result.success)
    assert result.queries.max() <= budget and not result.gradients.any()
    wrong = predictions(curved, x) != y
    assert (result.queries[wrong] == 1).all() and not result.norm[wrong].any()


@pytest.mark.parametrize("case", CASES)
def test_neither_batch_size_nor_company_changes_an_image(curved, case):
    x = np.random.default_rng(3).uniform(size=(30, 7, 5, 1)).astype("float32")
    y = predictions(curved, x)
    attack, _ = make(case)
    whole = attack.run(curved, x, y, batch_size=30, seed=5)
    pieces = attack.run(curved, x, y, batch_size=7, seed=5)
    half = attack.run(curved, x[15:], y[15:], ids=np.arange(15, 30), seed=5)
    assert whole.success.any()
    for part in (pieces.success, np.concatenate([whole.success[:15], half.success])):
        np.testing.assert_array_equal(whole.success, part)
    np.testing.assert_array_equal(whole.queries, pieces.queries)
    np.testing.assert_allclose(whole.x_adv, pieces.x_adv, atol=1e-5)


class Counter:
    """A linear model that counts the images it sees, and the traces it takes."""

    def __init__(self, classes=3, size=7):
        self.kernel = np.random.default_rng(0).normal(size=(size, classes)).astype("float32")
        self.rows = self.traces = 0

    def note(self, count):
        self.rows += int(count)
        return np.int32(0)

    def __call__(self, x):
        self.traces += 1
        with tf.control_dependencies([tf.numpy_function(self.note, [tf.shape(x)[0]], tf.int32)]):
            return tf.matmul(tf.reshape(x, [-1, len(self.kernel)]), self.kernel)


@pytest.mark.parametrize("case", CASES)
def test_queries_equal_the_number_of_times_the_model_saw_each_image(case):
    model = Counter()
    x = np.random.default_rng(1).uniform(0.3, 0.7, (16, 1, 7, 1)).astype("float32")
    y = (x.reshape(16, 7) @ model.kernel).argmax(1)
    attack, _ = make(case, epsilon=0.03)
    victim = athe_tf.victim(model)
    for i in range(16):
        model.rows = 0
        alone = attack.run(victim, x[i : i + 1], y[i : i + 1], ids=[i])
        assert model.rows == alone.queries[0]
    traces, model.rows = model.traces, 0
    together = attack.run(victim, x, y, batch_size=16)
    # In company a solved row stays until an eighth of the batch, two rows here, is solved.
    assert 0 <= model.rows - together.queries.sum() <= together.queries.max()
    assert model.traces <= traces + 1  # the clean pass may generalize its batch size once


@pytest.mark.parametrize(
    "case, classes",
    [
        ("square", 10),
        ("zoo", 2),
        ("rays", 2),
        ("square", 2),
        ("spsa", 2),
        ("rays", 10),
    ],
)
def test_any_number_of_classes(case, classes):
    model = linear_model(classes=classes, shape=(9, 6, 1))
    x = gray_images(count=12, shape=(9, 6, 1))
    y = predictions(model, x)
    attack, budget = make(case)
    result = attack.run(model, x, y)
    radius = radii(model, x, y, attack.threat.norm)
    assert not result.success[radius > attack.threat.epsilon].any() and result.success.any()
    assert result.queries.max() <= budget


@pytest.mark.parametrize("case", CASES)
def test_epsilon_zero_changes_nothing(linear, case):
    y = predictions(linear, IMAGES)
    attack, _ = make(case, epsilon=0.0)
    np.testing.assert_array_equal(attack(linear, IMAGES, y), IMAGES)


@pytest.mark.parametrize("case", ["square", "spsa"])
def test_an_attack_may_be_called_inside_a_function(curved, case):
    x = np.random.default_rng(3).uniform(size=(9, 7, 5, 1)).astype("float32")
    y = predictions(curved, x)
    attack, _ = make(case)
    target = athe_tf.victim(curved)

    @tf.function
    def craft(images, labels, step):
        return attack(target, images, labels, seed=step)

    first, second = (craft(x, y, tf.constant(step)).numpy() for step in (0, 1))
    assert attack.threat.distance(x, first).numpy().max() <= attack.threat.epsilon + 1e-6
    assert abs(first - second).max() > 0.1 * attack.threat.epsilon


@pytest.mark.parametrize("name", ESTIMATING)
def test_estimated_gradients_succeed_beyond_the_radius_and_never_below(linear, name):
    y = predictions(linear, IMAGES)
    radius = radii(linear, IMAGES, y, "linf")
    epsilon = float(np.median(radius))
    # ZOO moves a coordinate by learning_rate a visit: here across half of the ball.
    step = {"learning_rate": epsilon} if name.startswith("zoo") else {}
    result = attacks.get(name, epsilon=epsilon, **step).run(linear, IMAGES, y)
    assert result.success[1.5 * radius <= epsilon].all()
    assert not result.success[radius > epsilon * (1 + 1e-4)].any()


@pytest.mark.parametrize("name", ["nes", "spsa"])
def test_the_estimate_is_the_gradient_times_q(linear, name):
    y = predictions(linear, IMAGES)[:8]
    attack = attacks.get(name, epsilon=0.1, samples=2000, sigma=1e-3, chunk=4000)
    x = tf.constant(IMAGES[:8])
    estimate = attack.estimate(athe_tf.victim(linear), x, tf.constant(y), tf.range(8), 0).numpy() / 2000
    kernel = linear.layers[-1].get_weights()[0]
    logits = np.array(linear(x))
    logits[np.arange(8), y] = -np.inf
    gradient = (kernel[:, logits.argmax(1)] - kernel[:, y]).T.reshape(estimate.shape)
    # The error of a coordinate is about ||g|| / sqrt(q): here a seventh of a typical entry.
    cosine = (
        (estimate * gradient).sum((1, 2, 3))
        / np.linalg.norm(estimate.reshape(8, -1), axis=1)
        / np.linalg.norm(gradient.reshape(8, -1), axis=1)
    )
    assert cosine.min() > 0.97


@pytest.mark.parametrize("chunk", [2, 40])
def test_the_estimate_does_not_depend_on_how_probes_are_divided(linear, chunk):
    y = predictions(linear, IMAGES)[:5]
    x = tf.constant(IMAGES[:5])

    def estimate(size):
        attack = attacks.NES(0.1, samples=10, chunk=size)
        return attack.estimate(athe_tf.victim(linear), x, tf.constant(y), tf.range(5), 7).numpy()

    np.testing.assert_allclose(estimate(chunk), estimate(100), rtol=1e-3, atol=2e-2)


def test_nes_and_spsa_draw_gaussian_and_signs():
    draws = {name: attacks.get(name, epsilon=0.1).draw(0, tf.range(50), (200,)) for name in ("nes", "spsa")}
    assert set(np.unique(draws["spsa"])) == {-1.0, 1.0}
    assert abs(np.mean(draws["nes"].numpy() ** 4) - 3) < 0.2  # the fourth moment of a Gaussian


def test_a_probe_that_is_not_a_number_does_not_spoil_the_gradient():
    def model(x):
        flat = tf.reshape(x, [-1, 4])
        hole = tf.where(flat[:, :1] > 0.5005, float("nan"), 0.0)
        return tf.concat([flat[:, :1] + flat[:, 1:2] + hole, 1.2 - flat[:, 1:2] + 0.0 * hole], axis=1)

    x = np.full((3, 2, 2, 1), 0.5, "float32")
    x[:, 1] = 0.4
    attack = attacks.get("nes-3", epsilon=0.0, samples=8)
    estimate = attack.estimate(athe_tf.victim(model), tf.constant(x), tf.zeros(3, tf.int32), tf.range(3), 0)
    assert np.isfinite(estimate).all()


def test_zoo_updates_one_coordinate_at_a_time(linear):
    y = predictions(linear, IMAGES)
    # Five queries: the clean one, one update, the last test, and what a test after the update may need.
    x_adv = attacks.get("zoo-5", epsilon=0.5, learning_rate=0.02)(linear, IMAGES, y).numpy()
    moved = abs(x_adv - IMAGES).reshape(60, -1)
    assert ((moved > 1e-6).sum(1) <= 1).all() and (moved.max(1) > 0).mean() > 0.9
    # The first step of Adam has the length of its learning rate.
    np.testing.assert_allclose(moved.max(1)[moved.max(1) > 0], 0.02, atol=1e-4)
    assert len(np.unique(moved.argmax(1))) > 10


def test_zoo_by_threshold_counts_only_what_lies_within_epsilon(linear):
    y = predictions(linear, IMAGES)
    within = attacks.get("zoo-400", epsilon=0.3, mode="threshold").run(linear, IMAGES, y)
    tight = attacks.get("zoo-400", epsilon=0.012, mode="threshold").run(linear, IMAGES, y)
    projected = attacks.get("zoo-400", epsilon=0.012).run(linear, IMAGES, y)
    assert within.success.all() and within.norm.max() <= 0.3
    assert tight.norm[tight.success].max() <= 0.012 + 1e-6
    assert projected.success.mean() >= tight.success.mean()


def test_zoo_by_a_larger_sigma_sees_slopes_through_rounding(linear):
    """Beside logits of 1e4 float32 resolves 1e-3: at 1e-5 slopes of 1 drown, at 1e-2 they do not."""
    y = predictions(linear, IMAGES)
    radius = radii(linear, IMAGES, y, "linf")
    epsilon = float(np.median(radius)) * 1.5

    def offset(x):
        return linear(x) + 8192.0

    def found(sigma):
        result = attacks.get("zoo-600", epsilon=epsilon, sigma=sigma).run(offset, IMAGES, y)
        return result.success[1.5 * radius < epsilon].mean()

    assert found(1e-2) > 0.9 > found(1e-5)


@pytest.mark.parametrize(
    "name, kwargs, message",
    [
        ("nes", {"steps": 0}, "`steps` must be at least 1"),
        ("spsa", {"samples": 0}, "`samples` must be at least 1"),
        ("nes", {"sigma": 0.0}, "`sigma` must be positive"),
        ("nes", {"chunk": 1}, "`chunk` must be at least 2"),
        ("nes", {"norm": "l1"}, "supports only norm='linf' or 'l2'"),
        ("zoo", {"mode": "l2"}, "Received: mode='l2'"),
        ("zoo-4", {}, "at least 5 queries .* Received: n_queries=4"),
        ("zoo", {"sigma": -1.0}, "`sigma` must be positive"),
        ("zoo", {"norm": "l2"}, "supports only norm='linf'"),
    ],
)
def test_impossible_arguments_are_refused(name, kwargs, message):
    with pytest.raises(InputError, match=message):
        attacks.get(name, epsilon=0.1, **kwargs)


def test_names_and_settings_say_how_an_attack_was_run():
    nes = attacks.get("nes-50", epsilon=0.031)
    assert nes.settings() == {
        "norm": "linf",
        "epsilon": 0.031,
        "steps": 50,
        "step_size": 0.031 / 4,
        "samples": 128,
        "sigma": 0.001,
        "chunk": 256,
        "targeted": False,
    }
    assert attacks.get("zoo", epsilon=0.1).settings()["n_queries"] == 20_000
    assert attacks.get("zoo-300", epsilon=0.1).settings()["n_queries"] == 300
