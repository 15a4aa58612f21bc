"""Auto-PGD: exact cases, the published schedule, then the contract."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import athe_tf
from athe_tf import attacks
from athe_tf.attacks import apgd_steps
from athe_tf.utils.errors import InputError, NotApplicable
from tests.curved_case import curved_model
from tests.linear_case import gray_images, linear_model, predictions, radii

IMAGES = gray_images()
# One row an attack: name, norm and an epsilon at which some images of `curved` fall and some stand.
ATTACKS = [("apgd-ce-12", "linf", 0.06), ("apgd-dlr-12", "l2", 0.25), ("apgd-t-12", "l1", 0.8)]


# The same attack for several tests: what takes time is to trace it.
get = functools.cache(attacks.get)


@pytest.fixture(scope="module")
def linear():
    return linear_model()


@pytest.fixture(scope="module")
def curved():
    """Images of one channel that are not square."""
    return curved_model((6, 5, 1), classes=5)


def curved_images(count=40):
    return np.random.default_rng(3).uniform(size=(count, 6, 5, 1)).astype("float32")


def assert_exact(attack, model, norm):
    """The attack, made for the median radius, succeeds where the radius is smaller, and nowhere else."""
    y = predictions(model, IMAGES)
    radius = radii(model, IMAGES, y, norm)
    clear = abs(radius / attack.threat.epsilon - 1) > 0.03
    result = attack.run(model, IMAGES, y)
    np.testing.assert_array_equal(result.success[clear], (radius < attack.threat.epsilon)[clear])
    return result


def median_radius(model, norm):
    return float(np.median(radii(model, IMAGES, predictions(model, IMAGES), norm)))


@pytest.mark.parametrize(
    "norm, loss",
    [
        ("linf", "dlr"),
        ("l2", "margin"),
        ("l1", "dlr"),
        ("linf", "margin"),
        ("l2", "dlr"),
        ("l1", "margin"),
    ],
)
def test_scale_free_losses_find_exactly_the_images_within_epsilon(linear, norm, loss):
    epsilon = median_radius(linear, norm)
    assert_exact(attacks.APGD(epsilon, norm, loss=loss), linear, norm)


def test_targets_by_clean_rank_find_exactly_the_images_within_epsilon(linear):
    assert_exact(attacks.get("apgd-t", epsilon=median_radius(linear, "l1"), norm="l1"), linear, "l1")


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_two_classes_are_exact_with_cross_entropy(norm):
    model = linear_model(classes=2)
    assert_exact(attacks.get("apgd-ce", epsilon=median_radius(model, norm), norm=norm), model, norm)


@pytest.mark.parametrize("classes", [2, 3])
def test_apgd_t_has_a_loss_for_few_classes(classes):
    model = linear_model(classes=classes)
    attack = attacks.get("apgd-t", epsilon=median_radius(model, "linf"))
    assert attack.rounds(athe_tf.victim(model)) == classes - 1
    assert_exact(attack, model, "linf")


def test_larger_epsilon_is_exact_and_counts_only_the_last_ball(linear):
    epsilon = median_radius(linear, "l1")
    attack = attacks.get("apgd-dlr-50", epsilon=epsilon, norm="l1", larger_epsilon=True)
    result = assert_exact(attack, linear, "l1")
    # Fifty steps in three balls, the last point of each, and the clean pass.
    assert (result.gradients[~result.success] == 50).all() and (result.queries[~result.success] == 54).all()


@pytest.mark.parametrize(
    "steps, expected",
    [(100, [22, 41, 57, 70, 80, 87, 93, 99]), (20, [4, 7, 9, *range(10, 21)]), (1, [1])],
)
def test_checkpoints_are_the_published_ones(steps, expected):
    assert apgd_steps.checkpoints(steps) == expected


def test_step_size_is_halved_when_too_few_steps_raised_the_loss():
    policy = apgd_steps.MomentumSteps(athe_tf.threat.Linf(0.1), 100)
    x = tf.zeros([3, 1, 1, 1])
    memory = policy.memory(x, x, resumed=False)
    best = apgd_steps.Iterate(x + 1.0, x + 2.0, tf.constant([50.0] * 3))
    # One example rises always, one never, one always but for the last five steps: 17 of 22 are enough.
    for i in range(23):
        loss = tf.constant([i, -i, min(i, 17)], tf.float32)
        now, memory = policy.checkpoint(tf.constant(i), x, apgd_steps.Iterate(x, x, loss), best, memory)
    np.testing.assert_allclose(memory[1], [0.2, 0.1, 0.2])
    np.testing.assert_array_equal(now.x[:, 0, 0, 0], [0, 1, 0])
    np.testing.assert_array_equal(now.gradient[:, 0, 0, 0], [0, 2, 0])
    # The next check halves the others, whose best loss did not change; not the one that was just halved.
    for i in range(23, 42):
        loss = tf.fill([3], float(i))
        _, memory = policy.checkpoint(tf.constant(i), x, apgd_steps.Iterate(x, x, loss), best, memory)
    np.testing.assert_allclose(memory[1], [0.1, 0.1, 0.1])


def test_first_steps_follow_the_formula(linear):
    """Two steps by hand: the first of 2 epsilon without momentum, the second with a quarter of it."""
    y, epsilon = predictions(linear, IMAGES), 0.04
    attack = attacks.get("apgd-ce-2", epsilon=epsilon)
    start = apgd_steps.MomentumSteps(attack.threat, 2).start(
        tf.constant(IMAGES), tf.range(60), athe_tf.utils.rng.fold(athe_tf.utils.rng.fold(0), 0)
    )
    points = [np.clip(start, IMAGES - epsilon, IMAGES + epsilon)]
    losses = []
    for i in range(3):
        x = tf.constant(points[-1])
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = keras.losses.sparse_categorical_crossentropy(y, linear(x), from_logits=True)
        losses.append(loss.numpy())
        sign = np.sign(tape.gradient(loss, x))
        target = np.clip(points[-1] + 2 * epsilon * sign, IMAGES - epsilon, IMAGES + epsilon)
        fresh = 1.0 if i == 0 else 0.75
        last = points[-2] if i else points[-1]
        moved = points[-1] + fresh * (target - points[-1]) + (1 - fresh) * (points[-1] - last)
        points.append(np.clip(moved, IMAGES - epsilon, IMAGES + epsilon))
    best = np.argmax(losses, axis=0)
    expected = np.stack(points[:3])[best, np.arange(60)]
    np.testing.assert_allclose(attack(linear, IMAGES, y), expected, atol=1e-6)


def test_sparse_sign_moves_as_many_pixels_as_it_is_given():
    gradient = tf.reshape(tf.constant([[1.0, -5.0, 3.0, 2.0], [1.0, -5.0, 3.0, 2.0]]), [2, 2, 2, 1])
    direction = apgd_steps.sparse_sign(gradient, tf.constant([2.7, 0.0]))
    np.testing.assert_allclose(tf.reshape(direction, [2, 4]), [[0, -0.5, 0.5, 0], [0, -1, 0, 0]])


@pytest.mark.parametrize("name, norm, epsilon", ATTACKS)
def test_images_stay_admissible_and_inputs_untouched(curved, name, norm, epsilon):
    x = curved_images()
    y = predictions(curved, x)
    kept = x.copy()
    attack = get(name, epsilon=epsilon, norm=norm)
    for x_adv in (attack(curved, x, y).numpy(), attack.run(curved, x, y).x_adv):
        assert x_adv.dtype == np.float32 and np.isfinite(x_adv).all()
        assert x_adv.min() >= 0 and x_adv.max() <= 1
        assert attack.threat.distance(x, x_adv).numpy().max() <= epsilon + 1e-6
    np.testing.assert_array_equal(x, kept)


@pytest.mark.parametrize("name, norm, epsilon", ATTACKS)
def test_neither_batch_size_nor_company_changes_an_image(curved, name, norm, epsilon):
    x = curved_images()
    y = predictions(curved, x)
    attack = get(name, epsilon=epsilon, norm=norm)
    whole = attack.run(curved, x, y, seed=5)
    pieces = attack.run(curved, x, y, batch_size=7, seed=5)
    half = attack.run(curved, x[20:], y[20:], ids=np.arange(20, 40), seed=5)
    # The sign of a gradient that is zero but for rounding depends on the processor and the batch: one image
    # may take another way, and on some machines another end.
    same = np.isclose(whole.x_adv, pieces.x_adv, atol=1e-5).all(axis=(1, 2, 3))
    assert same.sum() >= 39 and (whole.success[20:] != half.success).sum() <= 1
    np.testing.assert_array_equal(whole.success[same], pieces.success[same])
    np.testing.assert_array_equal(whole.gradients[same], pieces.gradients[same])
    assert 0 < whole.success.sum() < 40


def test_more_restarts_and_more_targets_never_help_the_model(curved):
    x = curved_images()
    y = predictions(curved, x)
    ball = {"norm": "l1", "epsilon": 0.8}
    one = attacks.get("apgd-t-12", n_targets=1, **ball).run(curved, x, y).success
    all_targets = get("apgd-t-12", epsilon=0.8, norm="l1").run(curved, x, y).success
    twice = attacks.get("apgd-t-12x2", **ball).run(curved, x, y).success
    assert not (one & ~all_targets).any() and not (all_targets & ~twice).any()


@pytest.mark.parametrize("name", ["apgd-dlr-10", "apgd-t-10"])
def test_scale_and_shift_of_the_logits_do_not_matter(linear, name):
    scaled = linear_model(scale=30.0, shift=40.0)
    y = predictions(linear, IMAGES)
    attack = get(name, epsilon=0.006)
    results = [attack.run(m, IMAGES, y).success for m in (linear, scaled)]
    np.testing.assert_array_equal(*results)
    assert 0 < results[0].sum() < 60


def test_logit_scale_replaces_the_scale_of_a_hypersphere_head(curved):
    x = curved_images(10)
    y = predictions(curved, x)
    whole = athe_tf.victim(curved)
    raw = athe_tf.attacks.Victim(lambda v: whole.logits(v) / 15.0, num_classes=5)
    as_published = attacks.get("apgd-ce-5", epsilon=0.05, logit_scale=1)(whole, x, y)
    on_cosines = attacks.get("apgd-ce-5", epsilon=0.05)(raw, x, y)
    np.testing.assert_allclose(as_published, on_cosines, atol=1e-5)


@pytest.mark.parametrize(
    "name, queries, gradients",
    [
        ("apgd-ce-10x2", 2 * 11, 2 * 10),  # ten steps and the last point, twice
        ("apgd-t-10", 4 * 12, 4 * 10),  # four targets, each with the clean logits
    ],
)
def test_costs_are_counted_per_image(linear, name, queries, gradients):
    y = predictions(linear, IMAGES)
    result = get(name, epsilon=0.006).run(linear, IMAGES, y)
    failed = ~result.success
    assert failed.any()
    assert (result.queries[failed] == 1 + queries).all() and (result.gradients[failed] == gradients).all()
    assert (result.gradients[result.success] <= gradients).all()


def test_training_gets_the_restart_of_highest_loss(curved):
    x = curved_images()
    y = predictions(curved, x)

    def loss(attack):
        logits = curved(attack(curved, x, y))
        return keras.losses.sparse_categorical_crossentropy(y, logits, from_logits=True).numpy()

    once = loss(get("apgd-ce-12", epsilon=0.06, norm="linf"))
    thrice = loss(attacks.get("apgd-ce-12x3", epsilon=0.06))
    assert (thrice >= once - 1e-5).all() and (thrice > once + 1e-4).any()


def test_epsilon_zero_returns_the_input(linear):
    y = predictions(linear, IMAGES)
    attack = attacks.get("apgd-ce-3", epsilon=0.0, norm="l1")
    assert not attack.run(linear, IMAGES, y).success.any()
    np.testing.assert_array_equal(attack(linear, IMAGES, y), IMAGES)


def test_one_trace_for_all_batch_sizes(linear):
    traces = []

    def model(x):
        traces.append(1)
        return linear(x)

    y = predictions(linear, IMAGES)
    attack, target = attacks.get("apgd-t-5", epsilon=0.006), athe_tf.victim(model)
    attack.run(target, IMAGES, y)
    count = len(traces)
    for batch_size in (7, 60):
        attack.run(target, IMAGES, y, batch_size=batch_size)
    assert len(traces) <= count + 1  # the clean pass may generalize its batch size once


def test_a_callable_needs_not_say_how_many_classes_it_has():
    model = linear_model(classes=3)
    y = predictions(model, IMAGES)
    known = attacks.get("apgd-t-5", epsilon=0.008, n_targets=2).run(model, IMAGES, y)
    unknown = attacks.get("apgd-t-5", epsilon=0.008, n_targets=2).run(lambda x: model(x), IMAGES, y)
    np.testing.assert_array_equal(known.success, unknown.success)
    two = linear_model(classes=2)
    with pytest.raises(NotApplicable, match="APGD-DLR needs at least 3 classes"):
        attacks.get("apgd-dlr-5", epsilon=0.1).run(lambda x: two(x), IMAGES, predictions(two, IMAGES))


def test_dlr_with_two_classes_is_refused_with_a_remedy():
    message = "APGD-DLR needs at least 3 classes. Received: num_classes=2. Use 'apgd-ce' instead."
    with pytest.raises(NotApplicable, match=message):
        attacks.get("apgd-dlr", epsilon=0.1).run(linear_model(classes=2), IMAGES, np.zeros(60, int))


@pytest.mark.parametrize(
    "name, kwargs, message",
    [
        ("apgd-ce-0", {}, "`steps` must be at least 1"),
        ("apgd-ce", {"restarts": 0}, "`?restarts`? must be at least 1"),
        ("apgd-ce", {"logit_scale": -1}, "must be 'model' or a number larger than 0"),
        ("apgd-ce", {"larger_epsilon": True}, "schedule for norm='l1'. Received: norm='linf'"),
        ("apgd-t", {"n_targets": 0}, "`n_targets` must be at least 1"),
        ("apgd-t", {"loss": "ce"}, "Invalid arguments for the attack"),
    ],
)
def test_impossible_arguments_are_refused(name, kwargs, message):
    with pytest.raises(InputError, match=message):
        attacks.get(name, epsilon=0.1, **kwargs)
