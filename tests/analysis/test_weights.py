"""Curvature in the weights, against closed forms and finite differences."""

import keras
import numpy as np
import pytest

import athe_tf
from athe_tf.analysis.weights import WeightLoss, top_eigenpairs
from tests.small_runs import tiny_batch, tiny_net


def smooth_model():
    """Without kinks, so that finite differences have a limit."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((8, 8, 1))
    h = keras.layers.Conv2D(2, 3, strides=3, activation="tanh")(inputs)
    return keras.Model(inputs, athe_tf.CosineDense(4, name="head")(keras.layers.Flatten()(h)))


def logistic_model(kernel):
    """Softmax regression without a bias, whose Hessian has a closed form."""
    inputs = keras.Input((1, 1, len(kernel)))
    model = keras.Model(
        inputs, keras.layers.Dense(kernel.shape[1], use_bias=False)(keras.layers.Flatten()(inputs))
    )
    model.layers[-1].set_weights([kernel])
    return model


def test_lanczos_recovers_the_top_eigenvalues_of_a_quadratic():
    rng = np.random.default_rng(0)
    basis, _ = np.linalg.qr(rng.normal(size=(200, 200)))
    # The fourth is of the largest magnitude, and not among the largest.
    known = np.concatenate([[9.0, 7.0, 5.0, -20.0], rng.uniform(-1, 1, 196)])
    matrix = basis * known @ basis.T
    values, vectors = top_eigenpairs(lambda v: matrix @ v, 200, 3)
    np.testing.assert_allclose(values, [9.0, 7.0, 5.0], atol=1e-3)
    np.testing.assert_allclose(np.abs(np.sum(vectors * basis[:, :3], axis=0)), 1.0, atol=1e-3)


def test_hessian_products_equal_finite_differences_of_gradients():
    x, y = tiny_batch(8)
    loss = WeightLoss(smooth_model(), x, y, batch_size=5)
    vector = np.random.default_rng(1).normal(size=loss.size)
    step = 1e-2 / np.linalg.norm(vector)
    with loss.moved(step * vector):
        there = loss.gradient()
    with loss.moved(-step * vector):
        back = loss.gradient()
    expected = (there - back) / (2 * step)
    found = loss.hessian_product(vector)
    # Central differences in float32 with this step are good to about 1e-3 of the length.
    assert np.linalg.norm(found - expected) < 3e-3 * np.linalg.norm(expected)


def test_the_hessian_of_softmax_regression_has_its_closed_form_eigenvalues():
    rng = np.random.default_rng(2)
    kernel = rng.normal(size=(6, 3))
    x, y = rng.uniform(size=(20, 1, 1, 6)).astype("float32"), rng.integers(0, 3, 20)
    rows = x.reshape(20, 6).astype("float64")
    logits = rows @ kernel
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    blocks = np.einsum("nk,kl->nkl", p, np.eye(3)) - np.einsum("nk,nl->nkl", p, p)
    dense = np.einsum("ni,nj,nkl->ikjl", rows, rows, blocks).reshape(18, 18) / 20
    expected = np.sort(np.linalg.eigvalsh(dense))[::-1][:3]
    # An attack without steps from the image itself leaves the images clean.
    still = athe_tf.attacks.PGD(0.1, steps=0, start="zero")
    result = athe_tf.analysis.hessian(logistic_model(kernel), (x, y), still, top=3)
    np.testing.assert_allclose(result.eigenvalues, expected, rtol=1e-3)


def test_moved_weights_are_restored_exactly_even_after_an_error():
    x, y = tiny_batch(4)
    net = tiny_net()
    loss = WeightLoss(net, x, y, batch_size=4)

    def weights():
        return np.concatenate([v.numpy().ravel() for v in net.trainable_variables])

    before = weights()
    with pytest.raises(RuntimeError), loss.moved(np.ones(loss.size)):
        assert np.allclose(weights(), before + 1.0, atol=1e-5)
        raise RuntimeError
    assert np.array_equal(weights(), before)


def test_filters_of_a_random_direction_are_as_long_as_those_of_the_model():
    x, y = tiny_batch(4)
    net = tiny_net()
    loss = WeightLoss(net, x, y, batch_size=4)
    parts = loss.split(loss.filter_normalized(0))
    for variable, part in zip(net.trainable_variables, parts, strict=True):
        if len(variable.shape) < 2:
            assert not np.any(part)
        else:
            filters = [np.asarray(v).reshape(-1, v.shape[-1]) for v in (variable, part)]
            np.testing.assert_allclose(*(np.linalg.norm(f, axis=0) for f in filters), rtol=1e-5)


def test_the_batch_size_does_not_change_gradients():
    x, y = tiny_batch(7)
    gradients = [WeightLoss(tiny_net(), x, y, size).gradient() for size in (3, 7)]
    np.testing.assert_allclose(*gradients, atol=1e-6)


def test_scattering_vanishes_with_the_distance_of_the_weights():
    x, y = tiny_batch(6)
    net = tiny_net()
    attack = athe_tf.attacks.PGD(0.1, steps=2)
    near, far = (
        athe_tf.analysis.gradient_scattering(net, (x, y), attack, epsilons=(0.0, 0.1), distance=distance)
        for distance in (1e-6, 0.1)
    )
    assert np.all(near.gradient_differences < 0.01 * far.gradient_differences)
    assert near.perturbation_cosines[1] > 0.99
    assert np.isnan(near.perturbation_cosines[0])
