"""Feature Attack, and PGD through normalized features."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import athe_tf
from athe_tf import attacks
from athe_tf.attacks.feature import Pool
from athe_tf.utils.errors import InputError, NotApplicable
from tests.linear_case import predictions

EPSILON = {"linf": 0.06, "l2": 0.25, "l1": 0.8}


@pytest.fixture(scope="module")
def net():
    """An untrained network with a standard head on images of one channel that are not square."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((6, 5, 1))
    h = keras.layers.Flatten()(keras.layers.Conv2D(8, 3, activation="relu")(inputs))
    h = keras.layers.Dense(12, activation="tanh")(h)
    model = keras.Model(inputs, keras.layers.Dense(4, name="head")(h))
    # A bias that makes the average logits equal, so that all classes are predicted.
    kernel, _ = model.get_layer("head").get_weights()
    model.get_layer("head").set_weights([kernel, -np.asarray(model(images_in_the_box())).mean(0)])
    return model


def images_in_the_box():
    return np.random.default_rng(0).uniform(size=(40, 6, 5, 1)).astype("float32")


@pytest.fixture(scope="module")
def images(net):
    x = images_in_the_box()
    return x, predictions(net, x)


@pytest.fixture(scope="module")
def attack():
    return attacks.get("feature-6", epsilon=0.06, n_targets=5)


def cosine(a, b):
    return (a * b).sum(-1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1)


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_features_turn_towards_a_target_and_images_stay_admissible(net, images, norm):
    x, y = images
    target_image = x[y != y[0]][:1]
    mine = y == y[0]
    attack = attacks.get(
        "feature-20", epsilon=EPSILON[norm], norm=norm, n_targets=1, pool=(target_image, y[y != y[0]][:1])
    )
    x_adv = attack(net, x[mine], y[mine]).numpy()
    features = athe_tf.victim(net).features
    target = features(target_image).numpy()
    before, after = cosine(features(x[mine]).numpy(), target), cosine(features(x_adv).numpy(), target)
    assert (after > before).all() and (after - before).mean() > 0.02
    assert attack.threat.distance(x[mine], x_adv).numpy().max() <= EPSILON[norm] + 1e-6
    assert x_adv.min() >= 0 and x_adv.max() <= 1


def test_success_is_any_misclassification_and_costs_are_counted(net, images, attack):
    x, y = images
    kept = x.copy()
    result = attack.run(net, x, y)
    np.testing.assert_array_equal(predictions(net, result.x_adv) != y, result.success)
    np.testing.assert_array_equal(x, kept)
    failed = ~result.success
    assert 0 < failed.sum() < 40
    # The clean pass, the features as a possible target, and five targets of six steps and a last point.
    assert (result.queries[failed] == 2 + 5 * 7).all() and (result.gradients[failed] == 30).all()


def test_more_targets_never_help_the_model_and_batches_do_not_matter(net, images, attack):
    fewer = attacks.get("feature-6", epsilon=0.06, n_targets=1).run(net, *images)
    more, pieces = attack.run(net, *images), attack.run(net, *images, batch_size=9)
    assert not (fewer.success & ~more.success).any()
    np.testing.assert_array_equal(more.success, pieces.success)
    np.testing.assert_allclose(more.x_adv, pieces.x_adv, atol=1e-5)


def test_another_pool_needs_no_other_trace(net, images):
    traces = []
    whole = athe_tf.victim(net)

    def features(x):
        traces.append(1)
        return whole.features(x)

    target = attacks.Victim(whole.logits, features=features, num_classes=4)
    attack = attacks.get("feature-2", epsilon=0.06, n_targets=2)
    attack.run(target, *images)
    count = len(traces)
    x, y = images
    result = attack.run(target, x[5:], y[5:], batch_size=8)
    assert len(traces) == count and len(result.success) == 35


def test_targets_are_uniform_over_the_images_of_other_classes(attack):
    labels = np.array([0, 0, 1, 2, 2, 2])
    features = tf.constant([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]])
    pool = Pool(features, tf.constant([0, 2, 3, 6]), tf.constant([2, 1, 3, 0]))
    for label in range(4):
        y = tf.fill([6000], label)
        drawn = attack.targets(pool, y, tf.range(6000), 0, 0).numpy()[:, 0].astype(int)
        expected = np.where(labels == label, 0, 6000 / (labels != label).sum())
        np.testing.assert_allclose(np.bincount(drawn, minlength=6), expected, atol=170)  # 5 sigma


def test_epsilon_zero_changes_nothing(net, images):
    attack = attacks.get("feature-2", epsilon=0.0, n_targets=1)
    assert not attack.run(net, *images).success.any()


def test_a_victim_without_features_is_not_attacked(net, images):
    for name, who in (("feature", "Feature Attack"), ("fn-pgd", "PGD through normalized features")):
        with pytest.raises(NotApplicable, match=f"{who} needs penultimate features"):
            attacks.get(name, epsilon=0.1).run(lambda x: net(x), *images)


def test_a_pool_without_other_classes_is_refused(net, images):
    x, y = images
    mine = y == y[0]
    with pytest.raises(InputError, match="needs target images of another class"):
        attacks.get("feature", epsilon=0.1).run(net, x[mine], y[mine])
    with pytest.raises(InputError, match="`n_targets` must be at least 1"):
        attacks.get("feature", epsilon=0.1, n_targets=0)


# -- fn-pgd: the loss sees normalized features ------------------------------------------------------------


@pytest.mark.parametrize("logit_scale, length", [("model", 1.0), (10, 10.0)])
def test_fn_pgd_climbs_the_loss_of_unit_features(net, images, logit_scale, length):
    x, y = images
    kernel, bias = net.get_layer("head").get_weights()
    features = athe_tf.victim(net).features
    point = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(point)
        z = features(point)
        logits = length * z / tf.norm(z, axis=1, keepdims=True) @ kernel + bias
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)
    gradient = tape.gradient(loss, point).numpy()
    attack = attacks.get("fn-pgd-1", epsilon=0.03, step_size=0.03, start="zero", logit_scale=logit_scale)
    expected = np.clip(x + 0.03 * np.sign(gradient), 0, 1)
    sure = abs(gradient) > 1e-6  # the sign of less is a matter of rounding
    np.testing.assert_allclose(attack(net, x, y).numpy()[sure], expected[sure], atol=1e-6)


def test_fn_pgd_counts_success_by_the_real_logits(net, images):
    result = attacks.get("fn-pgd-5", epsilon=0.06).run(net, *images)
    np.testing.assert_array_equal(predictions(net, result.x_adv) != images[1], result.success)
    assert 0 < result.success.sum() < 40


def test_fn_pgd_on_a_hypersphere_head_is_pgd(images):
    keras.utils.set_random_seed(1)
    inputs = keras.Input((6, 5, 1))
    h = keras.layers.Dense(8, activation="tanh")(keras.layers.Flatten()(inputs))
    model = keras.Model(inputs, athe_tf.CosineDense(3, scale=15.0)(h))
    y = predictions(model, images[0])
    x_adv = [attacks.get(f"{n}pgd-3", epsilon=0.02, logit_scale=5)(model, images[0], y) for n in ("", "fn-")]
    assert np.isclose(*x_adv, atol=1e-5).mean() > 0.99


def test_fn_pgd_needs_a_linear_head(net, images):
    sigmoid = keras.Model(net.inputs, keras.layers.Dense(4, activation="sigmoid")(net.layers[-1].input))
    with pytest.raises(NotApplicable, match="needs a last layer that is a linear Dense or a CosineDense"):
        attacks.get("fn-pgd", epsilon=0.1).run(sigmoid, *images)
