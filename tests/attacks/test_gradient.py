"""FGSM, BIM, PGD, MIM and their losses: exact cases first, then the contract."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import athe_tf
from athe_tf import attacks
from athe_tf.utils.errors import InputError
from tests.curved_case import curved_model
from tests.linear_case import gray_images, linear_model, predictions, radii

IMAGES = gray_images()
EPSILON = {"linf": 0.05, "l2": 0.25, "l1": 0.8}
STEPPED = ["bim-20", "pgd-20", "mim-20", "cw-linf-20", "adaptive-pgd-20"]


@pytest.fixture(scope="module")
def linear():
    return linear_model()


@pytest.fixture(scope="module")
def curved():
    """Curved enough for restarts to matter."""
    return curved_model((6, 6, 1), normalized=True)


def accuracy(result):
    return 1 - result.success.mean()


@pytest.mark.parametrize(
    "norm, loss",
    [
        ("linf", "margin"),
        ("l2", "dlr"),
        ("l1", "margin"),
        ("linf", "dlr"),
        ("l2", "margin"),
        ("l1", "dlr"),
    ],
)
def test_scale_free_losses_find_exactly_the_images_within_epsilon(linear, norm, loss):
    y = predictions(linear, IMAGES)
    radius = radii(linear, IMAGES, y, norm)
    epsilon = float(np.median(radius))
    attack = attacks.PGD(epsilon, norm, steps=60, step_size=epsilon / 5, loss=loss, start="zero")
    result = attack.run(linear, IMAGES, y)
    clear = abs(radius / epsilon - 1) > 0.03
    np.testing.assert_array_equal(result.success[clear], (radius < epsilon)[clear])


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_cross_entropy_is_exact_with_two_classes(norm):
    model = linear_model(classes=2)
    y = predictions(model, IMAGES)
    radius = radii(model, IMAGES, y, norm)
    epsilon = float(np.median(radius))
    result = attacks.get("pgd-60", epsilon=epsilon, norm=norm, start="zero").run(model, IMAGES, y)
    clear = abs(radius / epsilon - 1) > 0.03
    np.testing.assert_array_equal(result.success[clear], (radius < epsilon)[clear])


def test_fgsm_is_one_signed_step():
    model = linear_model(classes=2)
    y = predictions(model, IMAGES)
    kernel = model.layers[-1].get_weights()[0]
    ascent = np.sign(kernel[:, 1 - y] - kernel[:, y]).T.reshape(IMAGES.shape)
    x_adv = attacks.get("fgsm", epsilon=0.03)(model, IMAGES, y)
    np.testing.assert_allclose(x_adv, IMAGES + 0.03 * ascent, atol=1e-6)


def test_mim_accumulates_gradients_of_l1_norm_one(linear):
    y = predictions(linear, IMAGES)
    step, decay, epsilon = 0.01, 0.7, 0.04
    x_adv, velocity = tf.constant(IMAGES), np.zeros_like(IMAGES)
    for _ in range(5):
        with tf.GradientTape() as tape:
            tape.watch(x_adv)
            loss = keras.losses.sparse_categorical_crossentropy(y, linear(x_adv), from_logits=True)
        gradient = tape.gradient(loss, x_adv).numpy()
        velocity = decay * velocity + gradient / abs(gradient).sum((1, 2, 3), keepdims=True)
        stepped = x_adv.numpy() + step * np.sign(velocity)
        x_adv = tf.constant(np.clip(np.clip(stepped, IMAGES - epsilon, IMAGES + epsilon), 0, 1))
    attack = attacks.get("mim-5", epsilon=epsilon, step_size=step, decay=decay)
    np.testing.assert_allclose(attack(linear, IMAGES, y), x_adv, atol=1e-6)


def test_zero_steps_return_the_start(linear):
    y = predictions(linear, IMAGES)
    attack = attacks.PGD(0.1, steps=0)
    start = attack.threat.random_start(IMAGES, np.arange(60), 0)
    moved = attack(linear, IMAGES, y)
    assert abs(moved - IMAGES).numpy().max() > 0.09
    assert moved.shape == start.shape


@pytest.mark.parametrize(
    "name, norm",
    [(name, norm) for name in STEPPED for norm in EPSILON],
)
def test_images_stay_admissible_and_inputs_untouched(curved, name, norm):
    x = np.random.default_rng(3).uniform(size=(20, 6, 6, 1)).astype("float32")
    y = np.arange(20, dtype="int64") % 4
    kept, weights = x.copy(), [w.copy() for w in curved.get_weights()]
    attack = attacks.get(name, epsilon=EPSILON[norm], norm=norm)
    for x_adv in (attack(curved, x, y).numpy(), attack.run(curved, x, y).x_adv):
        assert x_adv.dtype == np.float32 and np.isfinite(x_adv).all()
        assert x_adv.min() >= -1e-6 and x_adv.max() <= 1 + 1e-6
        assert attack.threat.distance(x, x_adv).numpy().max() <= EPSILON[norm] + 2e-6
    np.testing.assert_array_equal(x, kept)
    for before, after in zip(weights, curved.get_weights(), strict=True):
        np.testing.assert_array_equal(before, after)


def test_a_failed_image_comes_back_clean_and_a_wrong_one_costs_nothing(linear):
    y = predictions(linear, IMAGES)
    y[:5] = (y[:5] + 1) % 5
    result = attacks.get("cw-linf-20", epsilon=0.03).run(linear, IMAGES, y)
    np.testing.assert_array_equal(result.x_adv[~result.success], IMAGES[~result.success])
    assert result.success[:5].all() and not result.norm[:5].any() and (result.queries[:5] == 1).all()
    assert np.isinf(result.norm[~result.success]).all()
    fooled = predictions(linear, result.x_adv) != y
    np.testing.assert_array_equal(fooled, result.success)


def test_costs_are_counted_per_image(linear):
    y = predictions(linear, IMAGES)
    result = attacks.get("cw-linf-10", epsilon=0.04, start="zero").run(linear, IMAGES, y)
    failed = ~result.success
    # One clean query, ten with a gradient, one for the last iterate.
    assert (result.queries[failed] == 12).all() and (result.gradients[failed] == 10).all()
    early = result.gradients[result.success]
    assert early.min() < 10 and (result.queries[result.success] >= early + 1).all()


def test_queries_equal_the_number_of_times_the_model_saw_each_image():
    kernel = np.random.default_rng(0).normal(size=(6, 3)).astype("float32")
    seen = {}

    def note(first_pixel):
        for value in first_pixel:
            key = round(float(value), 4)
            seen[key] = seen.get(key, 0) + 1
        return np.int32(0)

    def counted(x):
        # The first pixel names the image: the attack cannot move it, for its gradient is zero.
        with tf.control_dependencies([tf.numpy_function(note, [x[:, 0, 0, 0]], tf.int32)]):
            return tf.matmul(tf.reshape(x, [-1, 7])[:, 1:], kernel)

    x = np.random.default_rng(1).uniform(0.3, 0.7, (20, 1, 7, 1)).astype("float32")
    x[:, 0, 0, 0] = np.linspace(0.3, 0.7, 20)
    y = (x.reshape(20, 7)[:, 1:] @ kernel).argmax(1)
    result = attacks.get("cw-linf-6", epsilon=0.03, start="zero").run(counted, x, y, batch_size=20)
    counts = np.array([seen[round(float(v), 4)] for v in x[:, 0, 0, 0]])
    assert (counts >= result.queries).all()
    # Rows that are done stay in the batch until an eighth of it is free, and no longer.
    assert (counts - result.queries).max() <= 6
    np.testing.assert_array_equal(counts[~result.success], result.queries[~result.success])


@pytest.mark.parametrize("name", [*STEPPED, "fgsm"])
def test_neither_batch_size_nor_company_changes_an_image(curved, name):
    x = np.random.default_rng(3).uniform(size=(30, 6, 6, 1)).astype("float32")
    y = predictions(curved, x)
    attack = attacks.get(name, epsilon=0.05)
    whole = attack.run(curved, x, y, batch_size=30, seed=5)
    pieces = attack.run(curved, x, y, batch_size=7, seed=5)
    half = attack.run(curved, x[15:], y[15:], ids=np.arange(15, 30), seed=5)
    np.testing.assert_array_equal(whole.success, pieces.success)
    np.testing.assert_array_equal(whole.success[15:], half.success)
    np.testing.assert_allclose(whole.x_adv, pieces.x_adv, atol=1e-5)


def test_more_restarts_and_more_steps_never_help_the_model(curved):
    x = np.random.default_rng(4).uniform(size=(60, 6, 6, 1)).astype("float32")
    y = predictions(curved, x)
    few = attacks.get("pgd-3", epsilon=0.05, step_size=0.01)
    more_steps = attacks.get("pgd-9", epsilon=0.05, step_size=0.01)
    more_starts = attacks.get("pgd-3x4", epsilon=0.05, step_size=0.01)
    baseline = few.run(curved, x, y).success
    for stronger in (more_steps, more_starts):
        assert not (baseline & ~stronger.run(curved, x, y).success).any()


def test_any_iterate_is_at_least_as_strong_as_the_last(curved):
    x = np.random.default_rng(4).uniform(size=(60, 6, 6, 1)).astype("float32")
    y = predictions(curved, x)
    settings = {"epsilon": 0.05, "step_size": 0.05, "steps": 5}
    any_iterate = attacks.PGD(**settings, select="any").run(curved, x, y).success
    last = attacks.PGD(**settings, select="last").run(curved, x, y).success
    assert not (last & ~any_iterate).any()


@pytest.mark.parametrize("loss", ["margin", "dlr"])
def test_scale_free_losses_do_not_see_a_change_of_scale_and_shift(loss):
    model, scaled = linear_model(), linear_model(scale=30.0, shift=40.0)
    y = predictions(model, IMAGES)
    results = [attacks.get("pgd-10", epsilon=0.04, loss=loss).run(m, IMAGES, y) for m in (model, scaled)]
    np.testing.assert_array_equal(results[0].success, results[1].success)


def test_logit_scale_replaces_the_scale_of_a_hypersphere_head(curved):
    x = np.random.default_rng(5).uniform(size=(10, 6, 6, 1)).astype("float32")
    y = predictions(curved, x)
    body = athe_tf.victim(curved)
    raw = athe_tf.attacks.Victim(lambda v: body.logits(v) / 15.0, num_classes=4)
    as_published = attacks.get("pgd-5", epsilon=0.05, logit_scale=1)(curved, x, y)
    on_cosines = attacks.get("pgd-5", epsilon=0.05)(raw, x, y)
    np.testing.assert_allclose(as_published, on_cosines, atol=1e-5)


def test_a_targeted_attack_reaches_its_target(linear):
    y = predictions(linear, IMAGES)
    targets = (y + 1) % 5
    x_adv = attacks.get("pgd-40", epsilon=0.3, targeted=True)(linear, IMAGES, targets)
    assert (predictions(linear, x_adv) == targets).mean() > 0.95


def test_restarts_in_training_keep_the_highest_loss(curved):
    x = np.random.default_rng(6).uniform(size=(20, 6, 6, 1)).astype("float32")
    y = predictions(curved, x)

    def loss(x_adv):
        return keras.losses.sparse_categorical_crossentropy(y, curved(x_adv), from_logits=True).numpy()

    settings = {"epsilon": 0.1, "steps": 2, "step_size": 0.02}
    one = loss(attacks.PGD(**settings)(curved, x, y))
    four = loss(attacks.PGD(**settings, restarts=4)(curved, x, y))
    assert (four >= one - 1e-5).all() and (four > one + 1e-4).any()


def test_nan_gradients_count_as_zero_and_are_counted():
    kernel = tf.constant(np.random.default_rng(0).normal(size=(4, 3)), tf.float32)

    def model(x):
        flat = tf.reshape(x, [-1, 4])
        # sqrt at exactly zero: a finite value with an infinite slope, times zero.
        return tf.matmul(flat, kernel) + tf.sqrt(0.0 * flat[:, :1]) * [1.0, 0.0, 0.0]

    x = np.full((4, 2, 2, 1), 0.5, "float32")
    y = np.asarray(model(x)).argmax(1)
    result = attacks.get("pgd-3", epsilon=0.01).run(model, x, y)
    assert np.isfinite(result.x_adv).all()
    assert (result.nonfinite[~result.success] == 3).all()


def test_an_attack_is_traced_once_for_all_batch_sizes(linear):
    traces = []

    def model(x):
        traces.append(1)
        return linear(x)

    y = predictions(linear, IMAGES)
    attack = attacks.get("cw-linf-5", epsilon=0.05)
    target = athe_tf.victim(model)
    attack.run(target, IMAGES, y, batch_size=60)
    count = len(traces)
    for batch_size in (7, 13, 60):
        attack.run(target, IMAGES, y, batch_size=batch_size)
    assert len(traces) <= count + 1  # the clean pass may generalize its batch size once


@pytest.mark.parametrize(
    "name, message",
    [
        ("pgb-20", "Unknown attack 'pgb'. Did you mean 'pgd'"),
        ("fgsm-3", "Use 'bim-3' instead"),
    ],
)
def test_unknown_names_are_answered(name, message):
    with pytest.raises(InputError, match=message):
        attacks.get(name, epsilon=0.1)


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"steps": -1}, "steps must be finite and not negative"),
        ({"restarts": 0}, "`?restarts`? must be at least 1"),
        ({"start": "unifrom"}, "Unknown start 'unifrom'. Did you mean 'uniform'"),
        ({"select": "best"}, "Received: select='best'"),
        ({"logit_scale": 0}, "must be 'model' or a number larger than 0"),
        ({"loss": "cee"}, "Unknown attack loss 'cee'. Did you mean 'ce'"),
        ({"stepz": 3}, "Invalid arguments for the attack .*stepz"),
    ],
)
def test_impossible_arguments_are_refused(kwargs, message):
    with pytest.raises(InputError, match=message):
        attacks.get("pgd", epsilon=0.1, **kwargs)


@pytest.mark.parametrize(
    "x, y, message",
    [
        (IMAGES * 4 - 2, np.zeros(60, int), r"Images must lie in \[0, 1\].*min=-0\.\d+, max=0\.\d+"),
        (IMAGES * np.nan, np.zeros(60, int), "Images must lie in"),
        (IMAGES[0], np.zeros(60, int), "Images must have shape"),
        (IMAGES, np.zeros((60, 5)), r"Labels must be integers of shape \[60\]"),
        (IMAGES, np.full(60, 5), r"Labels must be integers in 0..4 with 5 classes. Received: min=5, max=5"),
        (IMAGES[:0], np.zeros(0, int), "There are no images"),
    ],
)
def test_bad_batches_are_refused(linear, x, y, message):
    with pytest.raises(InputError, match=message):
        attacks.get("pgd-2", epsilon=0.1).run(linear, x, y)


@pytest.mark.parametrize(
    "label, message",
    [
        (-1, "Labels must not be negative. Received: -1. Remove images without a label."),
        # Known after the clean pass.
        (5, "Labels must be integers in 0..4 with 5 classes. Received: min=0, max=5. "),
    ],
)
@pytest.mark.parametrize("whole", [False, True])
def test_labels_for_a_callable_whose_classes_are_not_known(linear, whole, label, message):
    labels = np.array([0] * 59 + [label])
    with pytest.raises(InputError, match=message):
        if whole:
            athe_tf.evaluate(lambda x: linear(x), (IMAGES, labels), attacks=["pgd-2"], epsilon=0.1)
        else:
            attacks.get("pgd-2", epsilon=0.1).run(lambda x: linear(x), IMAGES, labels)


def test_dlr_with_two_classes_is_refused_with_a_remedy():
    with pytest.raises(InputError, match="needs at least 3 classes. Received: num_classes=2. Use 'margin'"):
        attacks.get("pgd-2", epsilon=0.1, loss="dlr").run(linear_model(classes=2), IMAGES, np.zeros(60, int))


def test_only_an_attack_without_a_start_takes_a_framework_s_default():
    assert attacks.PGD(0.1).start == "uniform"
    assert attacks.PGD(0.1).with_default_start("gaussian").start == "gaussian"
    assert attacks.PGD(0.1, start="uniform").with_default_start("gaussian").start == "uniform"
    assert attacks.BIM(0.1).with_default_start("gaussian").start == "zero"


def test_a_changed_copy_keeps_all_else_and_the_name():
    attack = attacks.get("mim-7", epsilon=0.1, decay=0.5)
    changed = attack.with_loss("kl", start="gaussian")
    expected = attack.settings() | {"loss": "kl", "start": "gaussian"}
    assert changed.settings() == expected and changed.name == "mim-7"
    assert attack.with_epsilon(0.2).settings() == attack.settings() | {"epsilon": 0.2, "step_size": 0.05}
    with pytest.raises(InputError, match="'multitargeted' cannot be changed like this: .*loss"):
        attacks.MultiTargeted(0.1).with_loss("kl")


def test_epsilon_zero_returns_the_input(linear):
    y = predictions(linear, IMAGES)
    result = attacks.get("pgd-3", epsilon=0.0).run(linear, IMAGES, y)
    assert not result.success.any()
    np.testing.assert_array_equal(attacks.get("pgd-3", epsilon=0.0)(linear, IMAGES, y), IMAGES)


@pytest.mark.parametrize("step_size", [0.0, -0.01, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["pgd", "nes"])
def test_a_step_that_has_no_length_is_refused(name, step_size):
    with pytest.raises(InputError, match=r"step_size must .*\. Received: step_size="):
        attacks.get(name, epsilon=0.1, step_size=step_size)
    assert attacks.get(name, epsilon=0.0, step_size=0.0).step_size == 0
