"""What is measured is what the object computes now, and gradients or logits that fail are named."""

import copy
import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import athe_tf
from athe_tf.models.victim import victim_of
from athe_tf.utils.errors import InputError
from tests.linear_case import SHAPE, gray_images, linear_model, predictions
from tests.small_runs import tiny_net

IMAGES = gray_images(40)


def measured(model, labels, **options):
    options = {"attacks": ["cw-linf-5"], "epsilon": 0.02, "checks": False, **options}
    return athe_tf.evaluate(model, IMAGES, labels, **options)


@pytest.fixture(scope="module")
def net():
    return linear_model()


@pytest.fixture(scope="module")
def labels(net):
    return predictions(net, IMAGES)


class Signed:
    """A callable with a Python attribute."""

    def __init__(self, net):
        self.net, self.sign = net, 1.0

    def __call__(self, x):
        return self.sign * self.net(x)


def wrapped(net):
    def plain(x):
        return net(x)

    measured(plain, predictions(net, IMAGES))
    return functools.wraps(plain)(lambda x: -plain(x))


def changed(net):
    model = Signed(net)
    measured(model, predictions(net, IMAGES))
    model.sign = -1.0
    return model


def copied(net):
    model = Signed(net)
    measured(model, predictions(net, IMAGES))
    model = copy.copy(model)
    model.sign = -1.0
    return model


@pytest.mark.parametrize("make", [wrapped, changed, copied])
def test_a_function_that_changed_is_measured_as_it_is_now(make, net, labels):
    # The largest logit is the smallest one of the negated model: no prediction is right.
    assert measured(make(net), labels).clean_accuracy == 0.0


def with_layer(net, layer):
    return keras.Sequential([keras.Input(SHAPE), net, layer])


class Temperature(keras.layers.Layer):
    """Reads a Python attribute, and an array."""

    def __init__(self):
        super().__init__()
        self.factor, self.shift = 1.0, np.zeros(5, "float32")

    def call(self, x):
        return self.factor * x + self.shift


def attribute(layer):
    layer.factor = -1.0


def array(layer):
    layer.shift[2] = 1e4


@pytest.mark.parametrize("change", [attribute, array])
def test_a_layer_of_ones_own_that_changed_is_measured_as_it_is_now(change, net, labels):
    layer = Temperature()
    model = with_layer(net, layer)
    assert measured(model, labels).clean_accuracy == 1.0
    change(layer)
    expected = np.mean(np.asarray(model(IMAGES)).argmax(1) == labels)
    assert measured(model, labels).clean_accuracy == pytest.approx(expected) and expected < 0.5


def rescaled(model):
    model.layers[-1].scale = -1.0


def replaced(model):
    model.pop()
    model.add(keras.layers.Rescaling(-1.0))


def called(model):
    model.layers[-1].call = lambda x: -x


@pytest.mark.parametrize("change", [rescaled, replaced, called])
def test_a_keras_model_that_changed_is_measured_as_it_is_now(change, net, labels):
    model = with_layer(net, keras.layers.Rescaling(1.0))
    assert measured(model, labels).clean_accuracy == 1.0
    change(model)
    assert measured(model, labels).clean_accuracy == 0.0


def test_a_trainer_is_measured_as_what_it_ships_now():
    net = tiny_net("linear")
    trainer = athe_tf.training.PGDAT(net, "pgd-2", epsilon=0.1)
    assert victim_of(trainer) is not victim_of(trainer)


def test_the_scale_of_a_head_that_changed_is_seen():
    model = tiny_net("he")
    assert victim_of(model).scale == 15.0
    model.get_layer("head").scale = 3.0
    assert victim_of(model).scale == 3.0


def test_a_model_of_known_layers_keeps_its_victim_while_only_weights_change():
    model = tiny_net("he")
    kept = victim_of(model)
    model.compile("sgd", "mse")
    model.set_weights([weight + 1 for weight in model.get_weights()])
    model.predict(np.zeros((2, 8, 8, 1), "float32"), verbose=0)
    assert victim_of(model) is kept
    assert victim_of(lambda x: x) is not victim_of(lambda x: x)


def nan_gradients(net, part=slice(None)):
    """The same function, whose gradient is NaN for images with a bright first pixel."""

    def logits(x):
        bright = x[:, :1, :1, :1] > (0.5 if part == "bright" else -1.0)
        return net(tf.where(bright, tf.where(x < 1e9, x, x * np.nan), x))

    return logits


def no_gradients(net):
    return lambda x: net(tf.where(x[:, :1, :1, :1] > 0.5, tf.stop_gradient(x), x))


@pytest.mark.parametrize(
    ("make", "id", "word"),
    [(nan_gradients, "nonfinite-gradients", "NaN"), (no_gradients, "zero-gradients", "zero")],
)
def test_gradients_without_a_direction_are_named_everywhere(make, id, word, net, labels):
    model = make(net)
    result = measured(model, labels)
    (warning,) = (one for one in result.warnings if one.id == id)
    bright = 1.0 if make is nan_gradients else np.mean(IMAGES[:, 0, 0, 0] > 0.5)
    assert word in warning and f"{bright:.1%} of 40 attacked images" in warning
    assert warning.partition(". ")[0] in result.verdict and f"Warning: {warning}" in repr(result)
    run = athe_tf.attacks.get("cw-linf-5", epsilon=0.02).run(model, IMAGES, labels)
    assert [one.id for one in run.notes] == [id]


def test_a_healthy_model_gets_no_warning(net, labels):
    result = measured(net, labels, attacks=["pgd-5", "apgd-ce-5", "fab-5", "deepfool", "cw-linf-5"])
    assert result.warnings == [] and all(one.gradient_faults["zero"] == 0 for one in result.attacks)


def test_zero_gradients_are_counted_per_image(net, labels):
    run = athe_tf.attacks.get("pgd-4", epsilon=1e-4).run(no_gradients(net), IMAGES, labels)
    flat = IMAGES[:, 0, 0, 0] > 0.501
    assert (run.zero_gradients[flat] == 4).all() and (
        run.zero_gradients[IMAGES[:, 0, 0, 0] < 0.499] == 0
    ).all()


def test_images_with_logits_that_are_not_numbers_are_wrong_and_counted(net, labels):
    def model(x):
        odd = x[:, 0, 0, 0] > 0.5
        return tf.where(odd[:, tf.newaxis], np.nan, net(x))

    odd = IMAGES[:, 0, 0, 0] > 0.5
    result = measured(model, labels)
    assert result.clean_accuracy == pytest.approx(1 - odd.mean())
    (warning, *_) = [one for one in result.warnings if one.id == "nan-logits"]
    assert warning.startswith(f"{odd.sum()} clean images have logits that are NaN")
    assert "randomized-model" not in {one.id for one in result.warnings}


def test_adversarial_examples_whose_logits_are_not_numbers_are_counted(net, labels):
    def model(x):
        logits = net(x)
        first, second = tf.unstack(tf.math.top_k(logits, 2).values, axis=1)
        return tf.where((first - second < 0.2)[:, tf.newaxis], np.nan, logits)

    result = measured(model, labels, epsilon=0.1, attacks=["cw-linf-20"])
    assert result["cw-linf-20"].nan_logits > 0
    assert any("adversarial examples have logits that are NaN" in one for one in result.warnings)


def test_logits_that_depend_on_the_batch_are_named_without_checks_too(net, labels):
    result = measured(lambda x: net(x) - tf.reduce_mean(net(x), axis=0), labels)
    assert "batch-dependent" in {one.id for one in result.warnings}


def test_an_attack_cannot_change_once_it_was_used_and_a_copy_runs_what_it_says():
    x, y = np.full((2, 4, 4, 1), 0.5, "float32"), np.array([0, 0])
    attack = athe_tf.attacks.PGD(0.01, steps=2)
    other = copy.copy(attack)
    other.steps = 3
    found = [
        one.run(lambda z: tf.reshape(z, [-1, 16])[:, :2] * [[2.0, 1.0]], x, y) for one in (attack, other)
    ]
    assert [one.gradients.tolist() for one in found] == [[2, 2], [3, 3]]
    for used in (attack, copy.copy(attack)):
        with pytest.raises(InputError, match=r"cannot change after its first use.*steps=5 for PGD\("):
            used.steps = 5


def nested():
    inner = keras.Sequential([keras.Input((4, 4, 1)), keras.layers.Flatten(), keras.layers.Dense(3)])
    return keras.Sequential([keras.Input((4, 4, 1)), inner]), inner


@pytest.mark.parametrize("of_inner", [False, True], ids=["model", "nested model"])
def test_a_method_of_a_model_that_was_replaced_is_followed(of_inner):
    net, inner = nested()
    x = np.random.default_rng(0).uniform(size=(3, 4, 4, 1)).astype("float32")
    before = athe_tf.victim(net).logits(x).numpy()
    changed = inner if of_inner else net
    plain = changed.call
    changed.call = lambda *args, **kwargs: -plain(*args, **kwargs)
    np.testing.assert_allclose(athe_tf.victim(net).compiled_logits(x), -before, rtol=1e-6)


def test_the_precision_of_a_layer_that_changed_is_followed():
    net, inner = nested()
    x = np.random.default_rng(0).uniform(size=(3, 4, 4, 1)).astype("float32")
    before = athe_tf.victim(net).compiled_logits(x).numpy()
    inner.layers[-1].dtype_policy = keras.DTypePolicy("bfloat16")
    found = athe_tf.victim(net).compiled_logits(x).numpy()
    np.testing.assert_allclose(found, tf.cast(net(x), tf.float32), atol=0.01)
    assert 1e-4 < np.abs(found - before).max() < 0.05


def test_a_victim_that_was_kept_by_the_user_is_refused_once_its_model_changed():
    net, inner = nested()
    victim = athe_tf.victim(net)
    inner.layers[-1].set_weights([w + 1 for w in inner.layers[-1].get_weights()])
    assert athe_tf.victim(victim) is victim
    inner.layers[-1].activation = keras.activations.tanh
    with pytest.raises(InputError, match=r"has changed since the victim was made.*athe_tf.victim\(model\)"):
        athe_tf.evaluate(victim, np.full((2, 4, 4, 1), 0.5, "float32"), np.array([0, 1]), attacks=["fgsm"])
