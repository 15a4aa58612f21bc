"""Losses against closed forms: the floors of the normalized softmax, its gradient, KL."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from athe_tf import CosineDense, InputError, MarginCrossentropy
from athe_tf.losses import kl_divergence, logit_pairing, margin_crossentropy, prediction_crossentropy

# log(1 + (L-1) exp(-s (L/(L-1) - m))): the least loss that unit vectors allow (NormFace's bound),
# reached by the simplex. Values of spec/training.md 2.4.
FLOORS = [
    (10, 1.0, 0.0, 1.37693),
    (10, 5.0, 0.0, 0.0342017),
    (10, 10.0, 0.2, 9.93394e-4),
    (10, 15.0, 0.2, 1.04444e-5),
    (100, 15.0, 0.0, 2.60262e-5),
    (1000, 10.0, 0.2, 0.286523),
    (1000, 15.0, 0.2, 6.02839e-3),
]


@pytest.mark.parametrize("classes, scale, margin, floor", FLOORS)
def test_loss_floor_of_the_simplex(classes, scale, margin, floor):
    # The centered identity is a regular simplex; its columns point to the corners.
    simplex = np.eye(classes) - 1 / classes
    layer = CosineDense(classes, scale=scale, dtype="float64")
    layer.build((None, classes))
    layer.kernel.assign(simplex)
    labels = np.arange(classes)
    loss = MarginCrossentropy(margin=margin, scale=scale, dtype="float64")(labels, layer(simplex))
    exact = np.log1p((classes - 1) * np.exp(-scale * (classes / (classes - 1) - margin)))
    np.testing.assert_allclose(float(loss), exact, rtol=1e-6)
    np.testing.assert_allclose(exact, floor, rtol=1e-5)


def test_gradient_with_respect_to_the_cosines_is_scale_times_p_minus_onehot():
    rng = np.random.default_rng(1)
    cosines = tf.constant(rng.uniform(-1, 1, (5, 7)))
    labels, scale, margin = np.array([0, 3, 6, 2, 2]), 15.0, 0.2
    with tf.GradientTape() as tape:
        tape.watch(cosines)
        loss = tf.reduce_sum(margin_crossentropy(labels, scale * cosines, scale * margin))
    onehot = np.eye(7)[labels]
    shifted = scale * (cosines.numpy() - margin * onehot)
    p = np.exp(shifted) / np.exp(shifted).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(tape.gradient(loss, cosines), scale * (p - onehot), rtol=1e-8, atol=1e-12)


def test_without_margin_and_smoothing_it_is_plain_cross_entropy():
    logits = np.random.default_rng(2).normal(size=(8, 5)).astype("float32") * 4
    labels = np.arange(8) % 5
    plain = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(labels, logits)
    np.testing.assert_allclose(MarginCrossentropy(0.0, 1.0)(labels, logits), plain, rtol=1e-6)


def test_label_smoothing_is_the_keras_convention():
    logits = np.random.default_rng(3).normal(size=(8, 5)).astype("float32")
    labels = np.arange(8) % 5
    keras_loss = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1)
    ours = MarginCrossentropy(0.0, 1.0, label_smoothing=0.1)
    np.testing.assert_allclose(ours(labels, logits), keras_loss(np.eye(5)[labels], logits), rtol=1e-6)


def test_labels_of_shape_n_1_are_labels():
    logits = np.random.default_rng(3).normal(size=(4, 5)).astype("float32")
    loss = MarginCrossentropy()
    np.testing.assert_array_equal(loss(np.array([[0], [1], [2], [3]]), logits), loss(np.arange(4), logits))


def test_kl_equals_numpy_and_vanishes_for_equal_predictions():
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(2, 6, 5)) * 3
    p, q = (np.exp(v) / np.exp(v).sum(1, keepdims=True) for v in (a, b))
    np.testing.assert_allclose(kl_divergence(a, b), (p * np.log(p / q)).sum(1), rtol=1e-10)
    np.testing.assert_allclose(kl_divergence(a, a), 0.0, atol=1e-14)


def test_cross_entropy_of_predictions_is_kl_plus_the_entropy_of_the_reference():
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=(2, 5, 4))
    p = np.exp(one) / np.exp(one).sum(1, keepdims=True)
    entropy = -(p * np.log(p)).sum(1)
    found = prediction_crossentropy(one, other)
    np.testing.assert_allclose(found, kl_divergence(one, other) + entropy, rtol=1e-12)


def test_kl_and_its_gradients_are_finite_when_the_softmax_underflows():
    reference = tf.constant([[500.0, 0.0, -500.0]])
    logits = tf.constant([[-500.0, 0.0, 500.0]])
    with tf.GradientTape() as tape:
        tape.watch([reference, logits])
        value = tf.reduce_sum(kl_divergence(reference, logits))
    assert float(value) == 1000.0
    assert all(np.isfinite(g).all() for g in tape.gradient(value, [reference, logits]))


def test_pairing_is_the_mean_square_or_the_length_of_the_difference():
    one, other = np.random.default_rng(5).normal(size=(2, 6, 5))
    difference = one - other
    np.testing.assert_allclose(logit_pairing(one, other), (difference**2).mean(1), rtol=1e-12)
    np.testing.assert_allclose(
        logit_pairing(one, other, "l2"), np.linalg.norm(difference, axis=1), rtol=1e-12
    )


def test_pairing_equal_predictions_has_a_finite_gradient():
    one = tf.constant([[1.0, 2.0]])
    with tf.GradientTape() as tape:
        tape.watch(one)
        value = logit_pairing(one, tf.constant([[1.0, 2.0]]), "l2")
    np.testing.assert_array_equal(tape.gradient(value, one), [[0.0, 0.0]])


def test_defaults_are_those_of_the_paper():
    loss = MarginCrossentropy()
    assert (loss.margin, loss.scale, loss.label_smoothing, loss.form) == (0.2, 15.0, 0.0, "cosine")
    # Smoothing 0 is allowed, and 1 would leave nothing of the label.
    assert MarginCrossentropy(0.0, label_smoothing=0.999).margin == 0.0


def test_loss_round_trips_through_its_config():
    loss = MarginCrossentropy(0.3, 20.0, 0.1)
    again = keras.losses.deserialize(keras.losses.serialize(loss))
    assert again.get_config() == loss.get_config()


@pytest.mark.parametrize("kwargs", [{"margin": -0.1}, {"scale": 0.0}, {"label_smoothing": 1.0}])
def test_impossible_arguments_are_refused(kwargs):
    with pytest.raises(InputError, match=next(iter(kwargs))):
        MarginCrossentropy(**kwargs)


@pytest.mark.parametrize("label", [3.0, -1.0, np.nan, 0.5])
@pytest.mark.parametrize("eager", [True, False])
def test_a_label_outside_the_classes_is_an_error(label, eager):
    loss = MarginCrossentropy()
    call = loss if eager else tf.function(loss)
    with pytest.raises((InputError, tf.errors.InvalidArgumentError), match="integers in 0..2 with 3 classes"):
        call(tf.constant([0.0, label]), tf.zeros([2, 3]))


def test_where_xla_drops_assertions_the_loss_of_a_wrong_label_is_not_a_number():
    loss = tf.function(margin_crossentropy, jit_compile=True)
    values = loss(tf.constant([1, 3, -1]), tf.zeros([3, 3])).numpy()
    np.testing.assert_allclose(values, [np.log(3), np.nan, np.nan], rtol=1e-6)
