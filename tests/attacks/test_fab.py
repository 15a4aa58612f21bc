"""FAB: its projections against scipy's solvers, the exact radius on linear models, costs and rounds."""

import numpy as np
import pytest
from scipy import optimize

from athe_tf import attacks
from athe_tf.attacks.box_projection import to_hyperplane
from tests.linear_case import gray_images, linear_model, predictions, radii

IMAGES = gray_images()
NORMS = ["linf", "l2", "l1"]
ORDER = {"linf": np.inf, "l2": 2, "l1": 1}


@pytest.fixture(scope="module")
def linear():
    return linear_model()


def problems(count=40, size=9):
    """Boxes and hyperplanes, some on a face of the box, some with coordinates that do not matter."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(count, size))
    x[::4, :3] = rng.integers(0, 2, (len(x[::4]), 3))
    normal = rng.normal(size=(count, size)) * 10.0 ** rng.uniform(-3, 3, (count, 1))
    normal[::3, -2:] = 0
    side = rng.choice([-1.0, 1.0], count)
    reach = (abs(normal) * np.where(side[:, None] * normal > 0, x, 1 - x)).sum(1)
    return x, normal, side * reach * rng.uniform(0, 0.95, count), side * reach


def shortest(x, normal, gap, norm):
    """The least norm by scipy: linear programs for linf and l1, a quadratic one for l2."""
    size = len(x)
    if norm == "l2":
        scale = abs(normal).max()
        solution = optimize.minimize(
            lambda d: d @ d,
            np.zeros(size),
            jac=lambda d: 2 * d,
            bounds=list(zip(-x, 1 - x, strict=True)),
            constraints={"type": "eq", "fun": lambda d: (normal @ d + gap) / scale},
            method="SLSQP",
            options={"ftol": 1e-12, "maxiter": 500},
        )
        return np.sqrt(solution.fun)
    # d, and what bounds its entries: one t for linf, one for each coordinate for l1.
    bounds = np.ones((size, 1)) if norm == "linf" else np.eye(size)
    count = bounds.shape[1]
    solution = optimize.linprog(
        np.r_[np.zeros(size), np.ones(count)],
        A_ub=np.r_[np.c_[np.eye(size), -bounds], np.c_[-np.eye(size), -bounds]],
        b_ub=np.zeros(2 * size),
        A_eq=np.r_[normal, np.zeros(count)][None],
        b_eq=[-gap],
        bounds=[*zip(-x, 1 - x, strict=True), *[(0, None)] * count],
    )
    return solution.fun


def project(x, normal, gap, norm):
    return to_hyperplane(*(v.astype("float32") for v in (x, normal, gap)), norm).numpy().astype("float64")


@pytest.mark.parametrize("norm", NORMS)
def test_projections_are_as_short_as_those_of_a_solver(norm):
    x, normal, gap, _ = problems()
    moves = project(x, normal, gap, norm)
    expected = [shortest(*problem, norm) for problem in zip(x, normal, gap, strict=True)]
    np.testing.assert_allclose(np.linalg.norm(moves, ORDER[norm], axis=1), expected, rtol=1e-3, atol=1e-5)
    reached = (normal * moves).sum(1) + gap
    np.testing.assert_allclose(reached / abs(normal).max(1), 0, atol=1e-5)
    assert (x + moves >= -1e-6).all() and (x + moves <= 1 + 1e-6).all()


@pytest.mark.parametrize("norm", NORMS)
def test_out_of_reach_every_coordinate_goes_as_far_as_it_can(norm):
    x, normal, _, reach = problems()
    moves = project(x, normal, 1.5 * reach, norm)
    corner = np.where(reach[:, None] * normal > 0, 0.0, 1.0)
    np.testing.assert_allclose(x + moves, np.where(normal == 0, x, corner), atol=1e-6)


@pytest.mark.parametrize("norm", NORMS)
def test_a_flat_function_or_a_point_on_the_plane_does_not_move(norm):
    x, normal, gap, _ = problems(5)
    assert not project(x, 0 * normal, gap, norm).any()
    assert not project(x, normal, 0 * gap, norm).any()


@pytest.mark.parametrize("norm", NORMS)
def test_the_radius_is_found_and_success_is_exact(linear, norm):
    y = predictions(linear, IMAGES)
    radius = radii(linear, IMAGES, y, norm)
    epsilon = float(np.median(radius))
    result = attacks.get("fab-20", epsilon=epsilon, norm=norm).run(linear, IMAGES, y)
    np.testing.assert_array_less(result.norm, radius * 1.02)
    assert (result.norm >= radius * 0.999).all()
    clear = abs(radius / epsilon - 1) > 0.03
    np.testing.assert_array_equal(result.success[clear], (radius < epsilon)[clear])


@pytest.mark.parametrize("norm", NORMS)
def test_all_targets_together_find_the_radius(linear, norm):
    y = predictions(linear, IMAGES)
    # At epsilon 0 nobody succeeds, so all images see all targets.
    result = attacks.get("fab-t-20", epsilon=0.0, norm=norm).run(linear, IMAGES, y)
    np.testing.assert_array_less(result.norm, radii(linear, IMAGES, y, norm) * 1.02)
    # The clean pass; for each of four targets one to rank them, two in each of 20 steps, one for the end.
    assert (result.queries == 1 + 4 * 42).all() and (result.gradients == 4 * 20).all()


def test_the_box_is_respected_where_it_binds():
    model = linear_model(classes=2)
    kernel = model.layers[-1].get_weights()[0]
    corner = (kernel[:, 0] > kernel[:, 1]).astype("float32")
    x = np.tile(np.where(np.arange(40) % 2, 0.5, 1 - corner), (3, 1)).astype("float32")
    logits = x @ (kernel[:, 0] - kernel[:, 1])
    shift = np.array([0.0, -(logits[0] - 6.0)], "float32")
    model.layers[-1].set_weights([kernel, -shift])
    x = x.reshape(3, 4, 5, 2)
    y = predictions(model, x)
    gap = float(np.ptp(np.asarray(model(x[:1]))))
    direction = (kernel[:, 1] - kernel[:, 0]) * (1 if y[0] == 0 else -1)
    exact = shortest(x[0].ravel().astype("float64"), direction.astype("float64"), -gap, "linf")
    result = attacks.get("fab-20", epsilon=1.0).run(model, x, y)
    np.testing.assert_allclose(result.norm, exact, rtol=0.02)


def test_scale_and_shift_of_the_logits_do_not_matter(linear):
    y = predictions(linear, IMAGES)
    attack = attacks.get("fab-10", epsilon=0.03)
    plain, other = (attack.run(m, IMAGES, y) for m in (linear, linear_model(scale=30.0, shift=40.0)))
    np.testing.assert_allclose(plain.norm, other.norm, rtol=2e-3)


def test_stopping_at_epsilon_saves_passes_and_keeps_the_verdict(linear):
    y = predictions(linear, IMAGES)
    reusing = {"epsilon": 0.03, "reuse_passes": True}
    full = attacks.get("fab-20", **reusing).run(linear, IMAGES, y)
    stopped = attacks.get("fab-20", **reusing, stop_on_success=True).run(linear, IMAGES, y)
    np.testing.assert_array_equal(full.success, stopped.success)
    # One clean pass, twenty with the slopes of the four other classes, one for the last iterate.
    assert (full.queries == 22).all() and (full.gradients == 80).all()
    np.testing.assert_array_equal(stopped.queries[~full.success], 22)
    # On a linear model the first step crosses the boundary.
    assert stopped.queries[full.success].min() == 3 and stopped.gradients[full.success].min() == 8


def test_restarts_begin_at_half_of_epsilon_and_only_survivors_see_them(linear):
    y = predictions(linear, IMAGES)
    for norm in NORMS:
        attack = attacks.get("fab-3x2", epsilon=0.03, norm=norm)
        start = attack._start(IMAGES, np.arange(60), 0, 1)
        np.testing.assert_allclose(attack.threat.distance(IMAGES, start), 0.015, rtol=1e-3)
        np.testing.assert_array_equal(attack._start(IMAGES, np.arange(60), 0, 0), IMAGES)
    attack = attacks.get("fab-3x2", epsilon=0.03)
    once, twice = attacks.get("fab-3", epsilon=0.03).run(linear, IMAGES, y), attack.run(linear, IMAGES, y)
    assert not (once.success & ~twice.success).any() and (twice.norm <= once.norm).all()
    np.testing.assert_array_equal(twice.queries, np.where(once.success, 8, 15))


def test_targets_are_the_likeliest_other_classes(linear):
    y = predictions(linear, IMAGES)
    order = np.argsort(-np.asarray(linear(IMAGES)), axis=1)
    attack = attacks.get("fab-t", epsilon=0.03, n_targets=2, restarts=2)
    victim = attacks.victim(linear)
    assert attack.rounds(victim) == 4
    for round_index, rank in enumerate([1, 2, 1, 2]):
        target = attack.round_inputs(victim, attack.clean_inputs(victim, IMAGES, y), y, None, 0, round_index)[
            0
        ]
        np.testing.assert_array_equal(target, order[:, rank])
    assert attacks.get("fab-t", epsilon=0.03).rounds(victim) == 4
