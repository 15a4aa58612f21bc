"""Square: the windows and tiles themselves, then what it finds on a linear model."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import athe_tf
from athe_tf import attacks
from athe_tf.attacks.square import Hills, Patches, hill_and_valley
from athe_tf.utils.errors import InputError
from tests.linear_case import gray_images, linear_model, predictions, radii

IMAGES = gray_images()
EPSILON = {"linf": 0.05, "l2": 0.25, "l1": 0.8}
NORMS = list(EPSILON)
IDS = tf.range(400, dtype=tf.int64)


@pytest.fixture(scope="module")
def linear():
    return linear_model()


def moves(shape, norm="linf", epsilon=0.1, **kwargs):
    attack = attacks.Square(epsilon, norm, **kwargs)
    return (Patches if norm == "linf" else Hills)(attack, shape)


def test_the_sides_of_windows_are_those_of_autoattack():
    assert moves((32, 32, 3)).sides == [29, 20, 14, 10, 7, 5, 4, 3, 2, 1]
    assert moves((32, 32, 3), "l2").sides == [29, 21, 15, 11, 7, 5, 5, 3, 3, 3]


def test_windows_are_halved_on_schedule():
    absolute, stretched = attacks.Square(0.1), attacks.Square(0.1, n_queries=1000, rescale_schedule=True)
    assert [int(absolute.stage(i)) for i in (0, 10, 11, 50, 51, 4999, 8001)] == [0, 0, 1, 1, 2, 7, 9]
    assert [int(stretched.stage(i)) for i in (0, 1, 2, 5, 6, 999)] == [0, 0, 1, 1, 2, 9]


@pytest.mark.parametrize("shared", [False, True])
def test_windows_reach_every_edge_unless_shared(shared):
    window = moves((9, 6, 1), shared_window=shared)
    inside = np.stack([window.draw(IDS[:1], seed, 4, 0)[0][0, :, :, 0] for seed in range(100)])
    assert (inside.sum((1, 2)) == 16).all()
    reached = inside.any(0)
    assert reached[:-1, :-1].all() and reached[-1].any() == reached[:, -1].any() == (not shared)


def test_every_image_has_its_own_window_unless_shared():
    own = moves((9, 6, 1)).draw(IDS, 3, 4, 0)[0].numpy().reshape(400, -1)
    shared = moves((9, 6, 1), shared_window=True).draw(IDS, 3, 4, 0)[0].numpy().reshape(400, -1)
    assert len(np.unique(own, axis=0)) == 18 and len(np.unique(shared, axis=0)) == 1
    # All of the 6 x 3 places are as likely: 22 of 400 each, and six standard deviations are 28.
    assert np.unique(own, axis=0, return_counts=True)[1].max() < 50


def test_in_linf_a_start_is_stripes_and_a_proposal_one_more_window():
    patches = moves((9, 6, 2))
    x = tf.constant(gray_images(30, shape=(9, 6, 2)))
    start = patches.start(x, IDS[:30], 0)
    np.testing.assert_allclose(abs(start - x), 0.1, atol=1e-6)
    stripes = np.sign(start - x)
    assert (stripes == stripes[:, :1]).all() and len(np.unique(stripes[:, 0].reshape(30, -1), axis=0)) == 30
    proposal = patches.propose(x, start, IDS[:30], 1, tf.constant(2)).numpy()
    np.testing.assert_allclose(abs(proposal - x), 0.1, atol=1e-6)
    changed = (proposal != start.numpy()).any((1, 2, 3))
    assert changed.mean() > 0.9
    sides = abs(proposal - start).numpy().max(3) > 0
    assert sides.any(2).sum(1).max() <= patches.sides[2] >= sides.any(1).sum(1).max()


@pytest.mark.parametrize("order", [2, 1])
@pytest.mark.parametrize("side", [1, 2, 3, 6, 8, 29])
def test_a_hill_and_its_valley_have_length_one_and_opposite_signs(order, side):
    shape = hill_and_valley(side, order)
    assert np.linalg.norm(shape.ravel(), order) == pytest.approx(1, abs=1e-5)
    assert (shape[: side // 2] > 0).all() and (shape[side // 2 :] < 0).all()
    assert abs(shape[side // 2 :]).argmax() == side * ((side - side // 2) // 2) + side // 2


@pytest.mark.parametrize("norm", ["l2", "l1"])
@pytest.mark.parametrize("shape", [(32, 32, 3), (9, 6, 2), (8, 8, 1), (4, 5, 2), (2, 7, 1)])
def test_in_l2_and_l1_all_moves_use_the_whole_radius(norm, shape):
    hills = moves(shape, norm, epsilon=0.5)
    x = tf.constant(gray_images(20, shape=shape))
    point = hills.start(x, IDS[:20], 0)
    for seed in range(3):
        length = hills.threat.distance(x, point).numpy()
        np.testing.assert_allclose(length, 0.5, rtol=1e-4)
        assert (length <= 0.5 + 1e-6).all()
        point = hills.propose(x, point, IDS[:20], seed, tf.constant(3))


def test_in_l2_a_proposal_changes_two_windows_and_empties_one():
    hills = moves((16, 16, 1), "l2", epsilon=0.5)
    x = tf.constant(gray_images(20, shape=(16, 16, 1)))
    start = hills.start(x, IDS[:20], 0)
    side = hills.sides[3]
    target, _, _ = hills.draw(IDS[:20], 9, side, 0)
    source, _, _ = hills.draw(IDS[:20], 9, side, 1)
    delta = (hills.propose(x, start, IDS[:20], 9, tf.constant(3)) - x).numpy()
    before = (start - x).numpy()
    emptied, untouched = (source & ~target).numpy(), ~(source | target).numpy()
    assert abs(delta[emptied]).max() < 1e-6 < abs(before[emptied]).max()
    seen = untouched & (abs(before) > 1e-3)
    ratio = delta[seen] / before[seen]
    assert abs(ratio - 1).max() < 0.2  # all but the common rescaling to epsilon


@pytest.mark.parametrize("norm", NORMS)
def test_most_images_within_the_radius_fall_and_none_beyond(linear, norm):
    y = predictions(linear, IMAGES)
    radius = radii(linear, IMAGES, y, norm)
    epsilon = float(np.median(radius))
    result = attacks.get("square-500", epsilon=epsilon, norm=norm).run(linear, IMAGES, y)
    assert not result.success[radius > epsilon * (1 + 1e-4)].any()
    # In linf, after 200 iterations windows are single pixels: 300 draws among 20 pixels and 4 pairs of
    # signs see nearly all of them, so the end is an optimum by pixels, if not always of the nearest class.
    # In l2 and l1 windows have 3 x 3 pixels at least, and cannot take the shape of the optimum.
    bound = 1.0 if norm == "linf" else 0.85
    assert result.success[1.5 * radius <= epsilon].mean() >= bound


@pytest.mark.parametrize(
    "norm, shared",
    [("linf", True), ("l2", False), ("l2", True), ("l1", False)],
)
def test_the_contract_holds_in_every_norm(norm, shared):
    keras.utils.set_random_seed(0)
    inputs = keras.Input((7, 5, 1))
    h = keras.layers.Conv2D(8, 3, activation="relu")(inputs)
    model = keras.Model(inputs, athe_tf.CosineDense(4)(keras.layers.Flatten()(h)))
    x = np.random.default_rng(3).uniform(size=(30, 7, 5, 1)).astype("float32")
    x[:, :2] = np.round(x[:, :2])
    y = predictions(model, x)
    attack = attacks.get("square-50", epsilon=EPSILON[norm], norm=norm, shared_window=shared)
    whole = attack.run(model, x, y, batch_size=30, seed=5)
    pieces = attack.run(model, x, y, batch_size=7, seed=5)
    np.testing.assert_array_equal(whole.success, pieces.success)
    np.testing.assert_array_equal(whole.queries, pieces.queries)
    assert whole.queries.max() <= 50 + 2 and whole.success.any()
    x_adv = np.concatenate([whole.x_adv, attack(model, x, y)])
    assert np.isfinite(x_adv).all() and x_adv.min() >= 0 and x_adv.max() <= 1
    distance = attack.threat.distance(np.concatenate([x, x]), x_adv).numpy()
    assert distance.max() <= EPSILON[norm] + 1e-6 and distance[30:].min() > 0.5 * EPSILON[norm]


def test_scale_and_shift_of_the_logits_do_not_matter(linear):
    y = predictions(linear, IMAGES)
    # Powers of two, so that only the shift rounds.
    scaled = linear_model(scale=32.0, shift=16.0)
    results = [attacks.get("square-100", epsilon=0.008).run(m, IMAGES, y) for m in (linear, scaled)]
    np.testing.assert_array_equal(results[0].success, results[1].success)
    np.testing.assert_array_equal(results[0].queries, results[1].queries)


def test_more_queries_and_restarts_never_help_the_model(linear):
    y = predictions(linear, IMAGES)
    few, more, again = (
        attacks.get(name, epsilon=0.006).run(linear, IMAGES, y)
        for name in ("square-12", "square-40", "square-12x4")
    )
    for stronger in (more, again):
        assert not (few.success & ~stronger.success).any() and stronger.success.sum() > few.success.sum()
    assert again.queries.max() <= 4 * (12 + 2)


def test_the_number_of_proposals_is_that_of_autoattack(linear):
    # The clean image and the start come on top.
    result = attacks.get("square-9", epsilon=1e-6).run(linear, IMAGES, predictions(linear, IMAGES))
    assert not result.success.any() and (result.queries == 9 + 2).all()


def test_the_call_gives_the_best_point_of_an_image_that_stands(linear):
    y = predictions(linear, IMAGES)
    attack = attacks.get("square-40", epsilon=0.005)
    result, x_adv = attack.run(linear, IMAGES, y), attack(linear, IMAGES, y).numpy()
    np.testing.assert_array_equal(predictions(linear, x_adv) != y, result.success)

    def lead(x):
        logits = np.array(linear(x))
        own = logits[np.arange(60), y].copy()
        logits[np.arange(60), y] = -np.inf
        return own - logits.max(1)

    assert (lead(x_adv) < lead(IMAGES)).all()


def test_a_trailing_number_is_the_budget():
    assert attacks.get("square", epsilon=0.1).n_queries == 5000
    assert attacks.get("square-300x2", epsilon=0.1).settings() == {
        "norm": "linf",
        "epsilon": 0.1,
        "n_queries": 300,
        "p_init": 0.8,
        "rescale_schedule": False,
        "restarts": 2,
        "shared_window": False,
        "targeted": False,
    }


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"p_init": 0.0}, r"`p_init` must lie in \(0, 1\]"),
        ({"restarts": 0}, "`?restarts`? must be at least 1"),
        ({"n_queries": 0}, "at least 1 quer"),
    ],
)
def test_impossible_arguments_are_refused(kwargs, message):
    with pytest.raises(InputError, match=message):
        attacks.Square(0.1, **kwargs)
