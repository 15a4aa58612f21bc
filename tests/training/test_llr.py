"""LLR, CURE and the search for gamma: closed forms, and an independent computation in NumPy."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from athe_tf import attacks, training
from athe_tf.attacks.local_linearity import LocalLinearity, linear_gap
from athe_tf.models.victim import Victim
from athe_tf.utils.errors import InputError
from tests.training.test_frameworks import (
    MARGIN,
    SCALE,
    batch,
    crossentropy,
    double_net,
    finite_differences,
    numpy_logits,
)

EPSILON = 0.1


def make_llr(net, **kwargs):
    trainer = training.LLR(net, attacks.PGD(EPSILON, steps=3), **kwargs)
    trainer.compile(training.TorchSGD(0.01, momentum=0.0))
    return trainer


# -- the search for gamma -----------------------------------------------------------------------------------


def first_logit(logits, labels, reference=None):
    return logits[:, 0]


def quadratic(matrix):
    """A victim whose first logit is `0.5 x^T A x + b . x`, for images of four pixels."""
    slope = tf.constant([0.3, -0.2, 0.1, 0.4])

    def logits(x):
        flat = tf.reshape(x, [-1, 4])
        value = 0.5 * tf.reduce_sum(flat * (flat @ tf.constant(matrix, tf.float32)), axis=1)
        return tf.stack([value + tf.linalg.matvec(flat, slope), tf.zeros_like(value)], axis=1)

    return Victim(logits, num_classes=2)


MATRIX = np.ones((4, 4)) + np.diag([0.5, 1.0, 1.5, 2.0])
POINTS = np.random.default_rng(0).uniform(0.4, 0.6, (5, 2, 2, 1)).astype("float32")
LABELS = np.zeros(5, "int32")


def test_gamma_of_a_quadratic_is_half_of_d_a_d_at_the_worst_corner():
    # Other corners are maxima as well, but lower ones: of several starts, the best is taken.
    search = LocalLinearity(EPSILON, steps=10, loss=first_logit, restarts=8)
    moved = search(quadratic(MATRIX), POINTS, LABELS).numpy()
    d = (moved - POINTS).reshape(5, 4).astype("float64")
    corners = EPSILON * np.array(list(itertools.product([-1, 1], repeat=4)))
    # Convex in d, so the maximum is at a corner of the ball.
    gamma = max(0.5 * abs(c @ MATRIX @ c) for c in corners)
    np.testing.assert_allclose([0.5 * abs(v @ MATRIX @ v) for v in d], gamma, rtol=1e-4)
    tangent = search.clean_inputs(quadratic(MATRIX), tf.constant(POINTS), tf.constant(LABELS))
    objective = search.objective(quadratic(MATRIX), tf.constant(LABELS), tangent)
    np.testing.assert_allclose(objective(tf.constant(moved))[0], gamma, rtol=1e-3)


def test_gamma_of_a_linear_function_is_zero():
    search = LocalLinearity(EPSILON, steps=5, loss=first_logit)
    linear = quadratic(np.zeros((4, 4)))
    moved = search(linear, POINTS, LABELS)
    tangent = search.clean_inputs(linear, tf.constant(POINTS), tf.constant(LABELS))
    objective = search.objective(linear, tf.constant(LABELS), tangent)
    np.testing.assert_allclose(objective(moved)[0], 0.0, atol=1e-7)
    assert np.abs(moved - POINTS).max() > 0.01  # and that is not because nothing moved


@pytest.mark.parametrize("tangent_gradient", [True, False])
@pytest.mark.parametrize("rule", ["sign", "adam"])
def test_the_search_takes_the_steps_it_is_told_to(rule, tangent_gradient):
    options = {"steps": 3, "step_size": 0.02, "loss": first_logit}
    search = LocalLinearity(EPSILON, rule=rule, tangent_gradient=tangent_gradient, **options)
    start = attacks.PGD(EPSILON, steps=0)(quadratic(MATRIX), POINTS, LABELS, seed=3).numpy()
    slope = np.array([0.3, -0.2, 0.1, 0.4])
    x, d = POINTS.reshape(5, 4).astype("float64"), (start - POINTS).reshape(5, 4).astype("float64")
    mean, square = np.zeros_like(d), np.zeros_like(d)
    for step in (1, 2, 3):
        # |gap| with gap = 0.5 d^T A d > 0: its gradient is A d, or that of the function itself.
        gradient = d @ MATRIX if tangent_gradient else (x + d) @ MATRIX + slope
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        adam = mean / (1 - 0.9**step) / (np.sqrt(square / (1 - 0.999**step)) + 1e-9)
        d = np.clip(d + 0.02 * (np.sign(gradient) if rule == "sign" else adam), -EPSILON, EPSILON)
    moved = search(quadratic(MATRIX), POINTS, LABELS, seed=3).numpy()
    np.testing.assert_allclose((moved - POINTS).reshape(5, 4), d, atol=1e-5)


def test_the_search_needs_gradient_ascent():
    with pytest.raises(InputError, match="searched for by gradient ascent. Expected .*PGD"):
        LocalLinearity.like(attacks.get("square", epsilon=0.1))


# -- the objectives -----------------------------------------------------------------------------------------


def fixed_statistics_losses(head, weights, statistics, x, y):
    """Cross-entropy of `double_net` with given statistics; complex numbers pass through."""
    kernel, bias, gamma, beta, *last = weights
    mean, variance = statistics
    h = (x.reshape(len(x), -1) @ kernel + bias - mean) / np.sqrt(variance + 1e-5) * gamma + beta
    z = np.tanh(h)
    if head == "linear":
        logits = z @ last[0] + last[1]
    else:
        z = z / np.sqrt((z * z).sum(1, keepdims=True))
        logits = SCALE * (z @ (last[0] / np.linalg.norm(last[0], axis=0)))
    return np.log(np.exp(logits).sum(1)) - logits[np.arange(len(x)), y]


def numpy_gradient(head, weights, statistics, x, y):
    """The input gradient, exact to rounding, by a complex step."""
    gradient = np.zeros_like(x)
    for place in np.ndindex(x.shape[1:]):
        moved = x.astype(complex)
        moved[(slice(None), *place)] += 1e-30j
        gradient[(slice(None), *place)] = (
            fixed_statistics_losses(head, weights, statistics, moved, y).imag / 1e-30
        )
    return gradient


def batch_statistics(weights, x):
    h = x.reshape(len(x), -1) @ weights[0] + weights[1]
    return h.mean(0), h.var(0)


def numpy_llr(head, weights, x, x_adv, y, terms=(1.0, 4.0, 3.0), variant="llr"):
    shift = 0.0 if head == "linear" else SCALE * MARGIN
    statistics = batch_statistics(weights, x)
    gradient = numpy_gradient(head, weights, statistics, x, y)
    here = fixed_statistics_losses(head, weights, statistics, x, y)
    there = fixed_statistics_losses(head, weights, statistics, x_adv, y)
    slope = ((x_adv - x) * gradient).reshape(len(x), -1).sum(1)
    last = {
        "llr": np.abs(slope),
        "gamma_only": np.zeros(len(x)),
        "grad_norm": np.linalg.norm(gradient.reshape(len(x), -1), axis=1),
    }[variant]
    nominal = crossentropy(numpy_logits(head, weights, x), y, shift)
    return terms[0] * nominal + np.mean(terms[1] * np.abs(there - here - slope) + terms[2] * last)


def numpy_cure(head, weights, x, x_adv, y):
    shift = 0.0 if head == "linear" else SCALE * MARGIN
    statistics = batch_statistics(weights, x)
    gradient = numpy_gradient(head, weights, statistics, x, y)
    # A constant to the weights: where they are moved, z is not.
    moved = x + CURE_STEP * numpy_cure.directions
    change = numpy_gradient(head, weights, statistics, moved, y) - gradient
    return crossentropy(numpy_logits(head, weights, x), y, shift) + 4 * np.square(change).sum() / len(x)


CURE_STEP = 0.5


def check_loss_and_gradients(trainer, formula, x, x_adv, y):
    net = trainer.net
    weights = [np.array(w) for w in net.trainable_variables]
    _, loss, gradients = trainer.gradients(x, x_adv, y)
    np.testing.assert_allclose(float(loss), formula(weights), rtol=1e-9)
    differences = finite_differences(formula, weights)
    largest = max(np.abs(expected).max() for expected in differences)
    for gradient, expected in zip(gradients, differences, strict=True):
        np.testing.assert_allclose(gradient, expected, rtol=1e-3, atol=1e-6 * largest)


@pytest.mark.parametrize(
    "head, variant", [("linear", "llr"), ("he", "llr"), ("he", "gamma_only"), ("he", "grad_norm")]
)
def test_llr_and_its_second_order_gradient_equal_the_formula(head, variant):
    x, x_adv, y = batch()
    trainer = make_llr(double_net(head), variant=variant, margin=0.0 if head == "linear" else MARGIN)

    def formula(weights):
        return numpy_llr(head, weights, x, x_adv, y, variant=variant)

    check_loss_and_gradients(trainer, formula, x, x_adv, y)


def test_the_preset_of_the_code_weighs_2_4_and_a_third_of_4_and_searches_by_adam():
    x, x_adv, y = batch()
    net = double_net("linear")
    trainer = make_llr(net, preset="code")
    loss = tf.reduce_mean(trainer.training_loss(x, x_adv, y).losses)
    weights = [np.array(w) for w in net.trainable_variables]
    np.testing.assert_allclose(loss, numpy_llr("linear", weights, x, x_adv, y, (2.0, 4.0, 1.2)), rtol=1e-9)
    assert (trainer.attack.rule, trainer.attack.tangent_gradient) == ("adam", False)
    paper = make_llr(net, gamma_weight=1.0)
    assert (paper.attack.rule, paper.attack.tangent_gradient) == ("sign", True)
    weights = ("nominal_weight", "gamma_weight", "slope_weight")
    assert [paper.options.resolved(weight) for weight in weights] == [1.0, 1.0, 3.0]


@pytest.mark.parametrize("head", ["linear", "he"])
def test_cure_and_its_second_order_gradient_equal_the_formula(head):
    x, _, y = batch()
    net = double_net(head)
    trainer = training.CURE(net, curvature_step=CURE_STEP, margin=0.0 if head == "linear" else MARGIN)
    trainer.compile(training.TorchSGD(0.01))
    weights = [np.array(w) for w in net.trainable_variables]
    signs = np.sign(numpy_gradient(head, weights, batch_statistics(weights, x), x, y))
    numpy_cure.directions = signs / np.sqrt(np.square(signs).sum((1, 2, 3), keepdims=True))
    check_loss_and_gradients(trainer, lambda w: numpy_cure(head, w, x, x, y), x, x, y)


def linear_loss_net():
    """Two classes, the first of them so wrong that its cross-entropy is a linear function of the image."""
    inputs = keras.Input((2, 2, 1))
    head = keras.layers.Dense(2)
    net = keras.Model(inputs, head(keras.layers.Flatten()(inputs)))
    head.kernel.assign(np.random.default_rng(0).normal(size=(4, 2)))
    head.bias.assign([-40.0, 40.0])
    return net


def test_where_the_loss_is_linear_gamma_and_curvature_vanish_and_the_slope_does_not():
    net = linear_loss_net()
    trainer = make_llr(net)
    moved = trainer.craft(tf.constant(POINTS), tf.constant(LABELS))
    with_gamma = make_llr(net, nominal_weight=0.0, gamma_weight=100.0, slope_weight=0.0)
    np.testing.assert_allclose(with_gamma.training_loss(POINTS, moved, LABELS).losses, 0.0, atol=2e-3)
    slope = make_llr(net, nominal_weight=0.0, gamma_weight=0.0, slope_weight=1.0)
    kernel = np.array(net.layers[-1].kernel)
    expected = np.abs((moved - POINTS).numpy().reshape(5, 4) @ (kernel[:, 1] - kernel[:, 0]))
    np.testing.assert_allclose(slope.training_loss(POINTS, moved, LABELS).losses, expected, rtol=1e-4)
    cure = training.CURE(net, curvature_weight=1000.0)
    plain = -tf.nn.log_softmax(net(POINTS))[:, 0]
    np.testing.assert_allclose(cure.training_loss(POINTS, POINTS, LABELS).losses, plain, rtol=1e-5)


def test_the_gap_is_no_less_at_the_point_found_than_at_random():
    x, _, y = batch("float32")
    trainer = make_llr(double_net("linear"))
    losses = {}
    for steps in (0, 20):
        trainer.attack = LocalLinearity.like(attacks.PGD(EPSILON, steps=steps))
        moved = trainer.craft(tf.constant(x), tf.constant(y))
        assert np.abs(moved - x).max() <= EPSILON + 1e-6
        only_gamma = make_llr(trainer.net, nominal_weight=0.0, gamma_weight=1.0, slope_weight=0.0)
        doubles = [tf.cast(images, tf.float64) for images in (x, moved)]
        losses[steps] = only_gamma.training_loss(*doubles, y).losses.numpy()
    assert losses[20].mean() > 1.5 * losses[0].mean()


def test_the_gap_has_an_absolute_value_for_each_example():
    gap = linear_gap(tf.constant([3.0, 1.0]), tf.constant([1.0, 1.0]), tf.constant([0.5, 2.0]))
    np.testing.assert_allclose(gap, [1.5, 2.0])


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda net: make_llr(net, variant="gama"), "Unknown variant 'gama'. Did you mean 'gamma_only'"),
        (lambda net: make_llr(net, preset="rebuttal"), "Unknown preset 'rebuttal'"),
        (lambda net: make_llr(net, gamma_weight=-1.0), "gamma_weight must be finite and not negative"),
        (lambda net: make_llr(net, bn_mode="eval"), "crafts with bn_mode='frozen_clean'.*Leave it out"),
        (lambda net: training.CURE(net, bn_mode="train"), "crafts with bn_mode='frozen_clean'"),
        (
            lambda net: training.CURE(net, curvature_step=0.0),
            "curvature_step must be a finite number",
        ),
        (
            lambda net: training.CURE(net, curvature_weight=-1.0),
            "curvature_weight must be finite",
        ),
    ],
)
def test_impossible_arguments_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make(double_net("linear"))
