"""The threat model: starts, projections and directions of each norm."""

import numpy as np
import pytest
import tensorflow as tf
from scipy.optimize import minimize

from athe_tf.threat import LEVELS, nearest_level, project_l1_box, threat_model
from athe_tf.utils.choices import NORMS
from athe_tf.utils.errors import InputError

RNG = np.random.default_rng(0)
IMAGES = RNG.uniform(size=(50, 6, 5, 3)).astype("float32")
EPSILON = {"linf": 0.1, "l2": 1.0, "l1": 8.0}


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("start", ["uniform", "gaussian", "zero"])
def test_starts_are_admissible_and_belong_to_the_example(norm, start):
    threat = threat_model(norm, EPSILON[norm])
    noisy = np.asarray(threat.random_start(IMAGES, np.arange(50), 3, start))
    assert noisy.min() >= 0 and noisy.max() <= 1
    assert threat.distance(IMAGES, noisy).numpy().max() <= EPSILON[norm] + 1e-5
    alone = np.asarray(threat.random_start(IMAGES[7:8], np.array([7]), 3, start))
    np.testing.assert_allclose(alone[0], noisy[7], atol=1e-7)
    assert (start == "zero") == np.array_equal(noisy, IMAGES)


@pytest.mark.parametrize("norm", NORMS)
def test_uniform_start_fills_the_ball(norm):
    # In d dimensions the norm of a uniform point exceeds 0.9 epsilon with chance 1 - 0.9^d: all but surely
    # for l2 and l1 in 90 dimensions, and for the largest of 90 linf coordinates.
    gray = np.full_like(IMAGES, 0.5)
    epsilon = {"linf": 0.1, "l2": 0.3, "l1": 0.4}[norm]
    threat = threat_model(norm, epsilon)
    lengths = threat.distance(gray, threat.random_start(gray, np.arange(50), 0)).numpy()
    assert 0.9 * epsilon < lengths.min() and lengths.max() <= epsilon * (1 + 1e-5)


@pytest.mark.parametrize("norm", NORMS)
def test_projection_is_admissible_and_keeps_admissible_points(norm):
    threat = threat_model(norm, EPSILON[norm])
    wild = IMAGES + RNG.normal(size=IMAGES.shape).astype("float32")
    projected = threat.project(IMAGES, wild).numpy()
    assert projected.min() >= -1e-6 and projected.max() <= 1 + 1e-6
    assert threat.distance(IMAGES, projected).numpy().max() <= EPSILON[norm] + 1e-5
    np.testing.assert_allclose(threat.project(IMAGES, projected), projected, atol=2e-6)


def test_l1_projection_is_the_nearest_point_of_ball_and_box():
    # scipy's SLSQP solves the same quadratic programme, with v = p - n, independently.
    size = 8
    for trial in range(8):
        x = RNG.uniform(size=size)
        target = RNG.normal(size=size) * 0.7
        epsilon = RNG.uniform(0.2, 1.5)
        solution = minimize(
            lambda u, t=target: ((u[:size] - u[size:] - t) ** 2).sum(),
            np.zeros(2 * size),
            jac=lambda u, t=target: np.tile(2 * (u[:size] - u[size:] - t), 2) * np.repeat([1, -1], size),
            bounds=[(0, 1 - v) for v in x] + [(0, v) for v in x],
            constraints={"type": "ineq", "fun": lambda u, e=epsilon: e - u.sum()},
            method="SLSQP",
            options={"maxiter": 500, "ftol": 1e-14},
        )
        shape = (1, size, 1, 1)
        ours = project_l1_box(
            tf.constant(x.reshape(shape)),
            tf.constant(target.reshape(shape)),
            tf.constant(epsilon, tf.float64),
        )
        expected = solution.x[:size] - solution.x[size:]
        np.testing.assert_allclose(ours.numpy().ravel(), expected, atol=1e-5, err_msg=f"trial {trial}")


@pytest.mark.parametrize("scale", [0.003, 0.03, 0.3, 3.0, 100.0])
def test_l1_projection_of_large_images_is_exact(scale):
    # In float64, the threshold by bisection. Far points leave the box nearly everywhere.
    x = RNG.uniform(size=(6, 16, 16, 3)).astype("float32")
    delta = (scale * RNG.laplace(size=x.shape)).astype("float32")
    delta[0] = 0.0
    delta[1] = np.round(delta[1] / scale) * scale  # many ties
    delta[2, ..., 1:] = 0.0
    epsilon = 5.0
    wanted, start = delta.astype("float64"), x.astype("float64")
    excess = np.maximum(np.maximum(start + wanted - 1, -(start + wanted)), 0)

    def shrunk(threshold):
        return np.sign(wanted) * (np.abs(wanted) - np.clip(threshold, excess, np.abs(wanted)))

    low, high = np.zeros((6, 1, 1, 1)), np.abs(wanted).max(axis=(1, 2, 3), keepdims=True)
    for _ in range(80):
        middle = (low + high) / 2
        long = np.abs(shrunk(middle)).sum(axis=(1, 2, 3), keepdims=True) > epsilon
        low, high = np.where(long, middle, low), np.where(long, high, middle)
    fits = np.abs(shrunk(0.0)).sum(axis=(1, 2, 3), keepdims=True) <= epsilon
    expected = np.where(fits, shrunk(0.0), shrunk(high))
    found = project_l1_box(x, delta, epsilon).numpy()
    np.testing.assert_allclose(found, expected, atol=2e-5 * max(1.0, scale))
    assert np.abs(found).sum(axis=(1, 2, 3)).max() <= epsilon * (1 + 1e-5)


def test_an_l1_projection_of_nothing_finite_ends():
    delta = np.full((2, 4, 4, 1), np.nan, "float32")
    delta[1] = 1.0
    found = threat_model("l1", 2.0).project(np.zeros((2, 4, 4, 1), "float32"), delta).numpy()
    np.testing.assert_allclose(found[1], 2.0 / 16, rtol=1e-6)


@pytest.mark.parametrize("norm, dual", [("linf", 1), ("l2", 2), ("l1", np.inf)])
def test_ascent_reaches_the_dual_norm(norm, dual):
    # The largest <g, v> over ||v||_p <= 1 is ||g||_q (Eq. 7 of the HE paper).
    gradient = RNG.normal(size=IMAGES.shape).astype("float32")
    threat = threat_model(norm, 1.0)
    direction = threat.ascent(gradient).numpy()
    np.testing.assert_allclose(threat.distance(0 * direction, direction), 1.0, rtol=1e-5)
    gain = (gradient * direction).reshape(50, -1).sum(1)
    np.testing.assert_allclose(gain, np.linalg.norm(gradient.reshape(50, -1), dual, axis=1), rtol=1e-5)


@pytest.mark.parametrize("norm", NORMS)
def test_a_zero_gradient_gives_a_zero_direction(norm):
    assert not threat_model(norm, 1.0).ascent(tf.zeros((2, 3, 3, 1))).numpy().any()


@pytest.mark.parametrize(
    "norm, epsilon, message",
    [
        ("l3", 0.1, r"Expected one of \['l1', 'l2', 'linf'\]. Received: norm='l3'"),
        ("linf", -1, "must be finite and not negative. Received: epsilon=-1"),
        ("linf", 8, "Pixels lie in .* Received: epsilon=8. Did you mean epsilon=8/255"),
        ("l2", float("nan"), "Received: epsilon=nan"),
    ],
)
def test_impossible_threats_are_refused(norm, epsilon, message):
    with pytest.raises(InputError, match=message):
        threat_model(norm, epsilon)


@pytest.mark.parametrize("norm", NORMS)
def test_lengths_are_the_norm_and_its_dual(norm):
    delta = RNG.normal(size=(50, 6, 5, 3)).astype("float32")
    threat, rows = threat_model(norm, 0.5), delta.reshape(50, -1)
    order, dual = {"linf": (np.inf, 1), "l2": (2, 2), "l1": (1, np.inf)}[norm]
    np.testing.assert_allclose(threat.length(delta), np.linalg.norm(rows, order, axis=1), rtol=1e-5)
    np.testing.assert_allclose(threat.dual_length(delta), np.linalg.norm(rows, dual, axis=1), rtol=1e-5)
    channels = np.linalg.norm(delta.reshape(50, 30, 3), order, axis=1).reshape(50, 1, 1, 3)
    np.testing.assert_allclose(threat.length(delta, [1, 2]), channels, rtol=1e-5)
    assert threat.order == order


@pytest.mark.parametrize("norm", NORMS)
def test_a_projected_perturbation_is_the_nearest_in_the_ball(norm):
    threat = threat_model(norm, EPSILON[norm])
    delta = RNG.normal(size=(50, 6, 5, 3)).astype("float32")
    projected = threat.project_perturbation(delta).numpy()
    np.testing.assert_allclose(threat.length(projected), EPSILON[norm], rtol=1e-5)
    # The residual of a projection onto a convex set is normal to it: along no direction of the ball is
    # <residual, v> larger than at the projection, where it is epsilon times the dual length of the residual.
    residual = delta - projected
    at_projection = (residual * projected).reshape(50, -1).sum(1)
    np.testing.assert_allclose(at_projection, EPSILON[norm] * threat.dual_length(residual).numpy(), rtol=1e-3)
    inside = 1e-3 * delta
    np.testing.assert_array_equal(threat.project_perturbation(inside), inside)
    other = threat.project_perturbation(delta, epsilon=0.05)
    np.testing.assert_allclose(threat.length(other), 0.05, rtol=1e-3)  # far points round


@pytest.mark.parametrize("norm", NORMS)
def test_a_stretched_perturbation_has_the_length_of_the_radius(norm):
    gray = np.full_like(IMAGES, 0.5)
    threat = threat_model(norm, {"linf": 0.1, "l2": 1.0, "l1": 0.3}[norm])
    moved = threat.stretch(gray, RNG.choice([-0.3, 0.3], size=gray.shape).astype("float32"))
    np.testing.assert_allclose(threat.distance(gray, moved), threat.epsilon, rtol=1e-4)


# 8/255 is a whole number of levels, the others are not.
@pytest.mark.parametrize(
    ("norm", "epsilon"),
    [("linf", 8 / 255), ("linf", 0.031), ("l2", 0.3), ("l2", 0.05), ("l1", 2.0), ("l1", 0.5)],
)
@pytest.mark.parametrize("on_grid", [True, False])
def test_eight_bit_images_are_levels_in_the_ball_around_the_eight_bit_image(norm, epsilon, on_grid):
    threat = threat_model(norm, epsilon)
    clean = nearest_level(IMAGES).numpy() / np.float32(LEVELS)
    x = clean if on_grid else IMAGES
    x_adv = threat.random_start(x, np.arange(50), 3)
    stored = threat.eight_bit(x, x_adv).numpy()
    np.testing.assert_array_equal(np.round(stored * 255).astype(np.uint8) / np.float32(255), stored)
    assert threat.within(threat.distance(clean, stored)).numpy().all()
    # The perturbation loses less than a level, and a clean image off the grid moves by half a level.
    assert np.abs(stored - x_adv).max() <= (1.0 if on_grid else 1.5) / 255 + 1e-6


def test_eight_bit_images_are_the_nearest_levels_where_the_radius_is_a_whole_number_of_levels():
    clean = nearest_level(IMAGES).numpy() / np.float32(LEVELS)
    threat = threat_model("linf", 8 / 255)
    x_adv = threat.random_start(clean, np.arange(50), 3).numpy()
    levels = np.floor(255 * x_adv.astype("float64") + 0.5).astype("float32")
    np.testing.assert_array_equal(threat.eight_bit(clean, x_adv), levels / np.float32(255))


def test_pixels_that_are_equally_steep_share_a_step_in_l1():
    gradient = tf.reshape(tf.constant([3.0, -3.0, 1.0, 3.0]), [1, 2, 2, 1])
    direction = tf.reshape(threat_model("l1", 1.0).ascent(gradient), [-1])
    np.testing.assert_allclose(direction, [1 / 3, -1 / 3, 0, 1 / 3], rtol=1e-6)


def test_a_gaussian_start_deviates_by_a_thousandth():
    # 60,000 pixels: the deviation is known to 0.3%, four standard errors to 1.2%.
    gray = np.full((200, 10, 10, 3), 0.5, "float32")
    noise = threat_model("linf", 0.1).random_start(gray, np.arange(200), 0, "gaussian").numpy() - 0.5
    np.testing.assert_allclose(noise.std(), 0.001, rtol=0.012)
    np.testing.assert_allclose(noise.mean(), 0.0, atol=2e-5)


# The noise of image 7 of four pixels with the seed 3: published numbers depend on it.
NOISE = {
    ("linf", "uniform"): (0.04, [0.031104, -0.027111, 0.015338, -0.026703]),
    ("l2", "uniform"): (0.2, [0.130457, -0.061431, 0.111890, -0.026779]),
    ("l1", "uniform"): (0.3, [-0.147629, 0.011808, -0.079093, -0.012218]),
    ("linf", "gaussian"): (0.04, [0.001182, -0.000557, 0.001014, -0.000243]),
}


@pytest.mark.parametrize("norm, kind", NOISE)
def test_starts_are_the_same_in_every_version(norm, kind):
    epsilon, expected = NOISE[norm, kind]
    gray = np.full((1, 2, 2, 1), 0.5, "float32")
    start = threat_model(norm, epsilon).random_start(gray, np.array([7]), 3, kind)
    np.testing.assert_allclose(np.ravel(start - gray), expected, atol=1e-6)


@pytest.mark.parametrize("norm", NORMS)
def test_random_directions_are_the_same_in_every_version(norm):
    expected = [0.777603, -0.677783, 0.383445, -0.667572]
    expected = expected if norm == "linf" else [1.182337, -0.556748, 1.014064, -0.242698]
    direction = threat_model(norm, 0.1).random_direction(3, np.array([7]), (2, 2, 1))
    np.testing.assert_allclose(np.ravel(direction), expected, atol=1e-5)


def test_an_image_counts_up_to_a_millionth_of_the_radius_and_never_more_than_a_millionth():
    for epsilon, slack in ((0.0, 0.0), (0.01, 1e-8), (1.0, 1e-6), (10.0, 1e-6)):
        threat = threat_model("l2", tf.constant(epsilon, tf.float32))
        norms = np.float32(epsilon) + np.array([0.0, 0.3, 4.0]) * (slack or 1e-8)
        # Numbers around 10 are 1e-6 apart in float32.
        expected = [True, epsilon > 0, False]
        np.testing.assert_array_equal(threat.within(norms.astype("float32")), expected, err_msg=f"{epsilon}")


def test_a_pixel_halfway_between_two_levels_goes_to_the_higher_one():
    # 255 * 0.3 is 76.5 in float32: `tf.round` would go to the even level.
    assert nearest_level(tf.constant(0.3)).numpy() == 77


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_a_stretched_perturbation_stays_in_the_box(norm):
    edges = np.tile(np.array([0.0, 1.0, 0.05, 0.95], "float32"), (3, 2)).reshape(3, 4, 2, 1)
    delta = RNG.normal(size=edges.shape).astype("float32")
    moved = threat_model(norm, {"linf": 0.1, "l2": 1.0, "l1": 3.0}[norm]).stretch(edges, delta).numpy()
    assert moved.min() >= 0 and moved.max() <= 1


def test_only_l1_moves_few_pixels():
    assert [threat_model(norm, 0.5).sparse for norm in ("linf", "l2", "l1")] == [False, False, True]


def test_one_radius_per_example_is_a_vector_and_projects_each_by_its_own():
    epsilon = tf.reshape(tf.constant([0.1, 0.4]), [2, 1, 1, 1])
    delta = np.full((2, 2, 2, 1), 0.5, "float32")  # of length 1 in l2 and 2 in l1
    for norm, lengths in (("linf", [0.1, 0.4]), ("l2", [0.1, 0.4]), ("l1", [0.1, 0.4])):
        threat = threat_model(norm, epsilon)
        np.testing.assert_array_equal(threat.radii, [np.float32(0.1), np.float32(0.4)])
        np.testing.assert_allclose(threat.length(threat.project_perturbation(delta)), lengths, rtol=1e-5)
        gray = np.full_like(delta, 0.3)
        np.testing.assert_allclose(
            threat.distance(gray, threat.project(gray, gray + delta)), lengths, rtol=1e-5
        )


@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_perturbations_that_leave_the_ball_by_rounding_to_levels_are_shortened_on_both_sides(norm):
    # 1.9 levels each way; to the nearest level, 2, the image would leave the ball.
    delta = np.array([1.9, -1.9], "float32").reshape(1, 2, 1, 1) / 255
    gray = np.full((1, 2, 1, 1), 100 / 255, "float32")
    threat = threat_model(norm, float(np.linalg.norm(np.ravel(delta), 2 if norm == "l2" else 1)))
    np.testing.assert_allclose(255 * np.ravel(threat.eight_bit(gray, gray + delta)), [101, 99], rtol=1e-6)
