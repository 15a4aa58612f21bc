"""On a linear model, the analyses have closed forms."""

import matplotlib
import numpy as np
import pytest

import athe_tf
from athe_tf.analysis import AnalysisOptions
from tests.linear_case import gray_images, linear_model, predictions, radii

matplotlib.use("Agg")
ATTACK = athe_tf.attacks.PGD(0.05, steps=3, start="zero")


@pytest.fixture(scope="module")
def linear():
    """Two classes: the margin is an exactly linear function of the image."""
    model = linear_model(classes=2)
    x = gray_images(6)
    return model, (x, predictions(model, x))


def test_gamma_is_zero(linear):
    result = athe_tf.analysis.linearity(*linear, ATTACK, epsilons=(0.02, 0.1), loss="margin")
    # Logits are of order 10 in float32.
    np.testing.assert_allclose(result.gamma, 0.0, atol=2e-5)
    np.testing.assert_allclose(result.along_attack, 0.0, atol=2e-5)


def test_gamma_of_a_curved_loss_is_not_zero(linear):
    result = athe_tf.analysis.linearity(*linear, ATTACK, epsilons=(0.02, 0.1))
    assert result.gamma[1] > 10 * result.gamma[0] > 0
    assert np.all(result.gamma >= result.along_attack)


@pytest.mark.parametrize("directions", ["attack", "random"])
def test_the_landscape_in_pixels_is_a_plane(linear, directions):
    result = athe_tf.analysis.landscape(
        *linear, ATTACK, space="pixels", directions=directions, points=5, loss="margin"
    )
    rows, columns = np.meshgrid(result.steps, result.steps, indexing="ij")
    design = np.stack([np.ones(25), columns.ravel(), rows.ravel()], axis=1)
    fitted = design @ np.linalg.lstsq(design, result.losses.ravel(), rcond=None)[0]
    np.testing.assert_allclose(result.losses.ravel(), fitted, atol=1e-5)
    assert np.ptp(result.losses) > 0.01


def test_the_landscape_in_pixels_rises_along_the_attack_by_epsilon_times_the_dual_norm(linear):
    model, (x, y) = linear
    result = athe_tf.analysis.landscape(
        model, (x, y), ATTACK, space="pixels", points=3, radius=0.05, loss="margin"
    )
    kernel = np.asarray(model.layers[-1].kernel)
    rise = 0.05 * np.abs(kernel[:, 0] - kernel[:, 1]).sum()
    np.testing.assert_allclose(result.losses[1, 2] - result.losses[1, 1], rise, rtol=1e-4)


def test_the_decision_map_is_cut_by_the_known_boundary(linear):
    """Along the attack, the class changes at the distance of the image from the boundary."""
    model, (x, y) = linear
    kernel, bias = (w.astype("float64") for w in model.layers[-1].get_weights())
    gap = np.abs((x[0].ravel() @ kernel + bias) @ [1, -1])
    radius = gap / np.abs(kernel[:, 0] - kernel[:, 1]).sum()
    result = athe_tf.analysis.decision_map(model, (x, y), ATTACK, points=41, radius=2.1 * radius)
    middle = result.classes[20]
    np.testing.assert_array_equal(middle != y[0], result.steps > radius + 1e-9)


def test_the_ball_on_the_decision_map_of_an_l2_attack_is_where_the_known_boundary_cuts_it(linear):
    """Along the attack, the class changes at the l2 distance from the boundary, which is the radius here."""
    model, (x, y) = linear
    kernel, bias = (w.astype("float64") for w in model.layers[-1].get_weights())
    distance = np.abs((x[0].ravel() @ kernel + bias) @ [1, -1]) / np.linalg.norm(kernel[:, 0] - kernel[:, 1])
    attack = athe_tf.attacks.PGD(distance, "l2", steps=3, start="zero")
    result = athe_tf.analysis.decision_map(model, (x, y), attack, points=41, radius=2.05 * distance)
    np.testing.assert_array_equal(result.classes[20] != y[0], result.steps > distance)
    np.testing.assert_allclose(result.lengths[20], np.abs(result.steps), atol=1e-6)
    np.testing.assert_allclose(result.lengths[:, 20], np.abs(result.steps), atol=1e-6)


def test_the_landscape_in_pixels_of_an_l2_attack_rises_by_epsilon_times_the_l2_norm(linear):
    model, (x, y) = linear
    attack = athe_tf.attacks.PGD(0.05, "l2", steps=3, start="zero")
    result = athe_tf.analysis.landscape(
        model, (x, y), attack, space="pixels", points=3, radius=0.05, loss="margin"
    )
    kernel = np.asarray(model.layers[-1].kernel)
    rise = 0.05 * np.linalg.norm(kernel[:, 0] - kernel[:, 1])
    np.testing.assert_allclose(result.losses[1, 2] - result.losses[1, 1], rise, rtol=1e-3)


def test_a_decision_map_without_the_true_class_can_be_drawn(linear):
    model, (x, y) = linear
    result = athe_tf.analysis.decision_map(model, (x, 1 - y), ATTACK, points=3, radius=1e-6)
    assert result.key_numbers == {"share of the ball with the true class (%)": 0.0}
    result.plot()


@pytest.mark.parametrize("norm, bound", [("l1", 1), ("l2", 2), ("linf", np.inf)])
def test_directions_of_figure_1_equal_the_closed_forms(norm, bound):
    point, weights = np.array([2.0, 1.0]), np.array([0.35, 1.0])
    unit, length = weights / np.linalg.norm(weights), np.linalg.norm(point)
    of_cosine = unit / length - (unit @ point) * point / length**3
    found = athe_tf.analysis.plane_directions(point, weights)
    for gradient, direction in ((unit, found.plain[norm]), (of_cosine, found.normalized[norm])):
        closed = {
            "l1": np.sign(gradient) * (np.abs(gradient) == np.abs(gradient).max()),
            "l2": gradient / np.linalg.norm(gradient),
            "linf": np.sign(gradient),
        }[norm]
        np.testing.assert_allclose(direction, -closed, atol=1e-9)
        # And they are what they should be: the best of the unit ball, found by search.
        angles = np.linspace(0, 2 * np.pi, 20001)
        circle = np.stack([np.cos(angles), np.sin(angles)])
        best = (gradient @ (circle / np.linalg.norm(circle, bound, axis=0))).max()
        np.testing.assert_allclose(-direction @ gradient, best, atol=1e-6)


def test_cosines_of_gradients_equal_their_closed_form():
    """Features are the image itself, so the gradient of their length is the image, and all is known."""
    model = linear_model(classes=3)
    x = gray_images(4)
    y = predictions(model, x)
    result = athe_tf.analysis.fn_direction(model, (x, y))
    kernel, bias = (w.astype("float64") for w in model.layers[-1].get_weights())
    for i, z in enumerate(x.reshape(4, -1).astype("float64")):
        logits = z @ kernel + bias
        logits[y[i]] = -np.inf
        w = kernel[:, y[i]] - kernel[:, logits.argmax()]
        w, length = w / np.linalg.norm(w), np.linalg.norm(z)
        of_cosine = w / length - (w @ z) * z / length**3
        expected = w @ of_cosine / np.linalg.norm(of_cosine)
        np.testing.assert_allclose(result.product_and_cosine[i], expected, atol=1e-5)
        np.testing.assert_allclose(result.length_and_cosine[i], 0.0, atol=1e-5)


def test_equal_class_weights_have_no_bias_and_long_ones_are_measured():
    model = linear_model(classes=3)
    kernel, bias = model.layers[-1].get_weights()
    kernel = kernel / np.linalg.norm(kernel, axis=0) * [1.0, 2.0, 4.0]
    model.layers[-1].set_weights([kernel, bias])
    x = gray_images(12)
    result = athe_tf.analysis.class_bias(model, (x, predictions(model, x)), ATTACK)
    np.testing.assert_allclose(result.norms, [1.0, 2.0, 4.0], rtol=1e-5)
    assert result.key_numbers["longest / shortest weights"] == pytest.approx(4.0, rel=1e-5)


def test_accuracy_against_steps_falls_to_that_of_the_exact_worst_case(linear):
    model, (x, y) = linear
    exact = radii(model, x, y, "linf")
    epsilon = float(np.median(exact))
    attack = athe_tf.attacks.PGD(epsilon, start="zero", step_size=epsilon / 2)
    result = athe_tf.analysis.attack_steps(model, (x, y), attack, AnalysisOptions(batch_size=4), steps=(1, 4))
    assert result.accuracies[1] == pytest.approx(np.mean(exact > epsilon))
    assert result.accuracies[0] == pytest.approx(np.mean(exact > epsilon / 2))
