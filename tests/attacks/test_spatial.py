"""Spatial: the transform against numpy, then the searches."""

import numpy as np
import pytest
import tensorflow as tf

from athe_tf import attacks
from athe_tf.attacks.spatial import transformed
from athe_tf.utils.errors import InputError
from tests.linear_case import gray_images, linear_model, predictions

IMAGES = np.random.default_rng(0).uniform(size=(12, 8, 6, 2)).astype("float32")


def move(down, right, degrees, images=IMAGES):
    full = [tf.fill([len(images)], float(v)) for v in (down, right, degrees)]
    return transformed(tf.constant(images), *full).numpy()


@pytest.fixture(scope="module")
def model():
    """Logits near a tie, so that small moves matter."""
    return linear_model(classes=3, shape=(8, 6, 2))


def test_no_move_is_the_image_to_the_bit():
    np.testing.assert_array_equal(move(0, 0, 0), IMAGES)


def test_whole_pixels_move_with_black_behind_them():
    expected = np.zeros_like(IMAGES)
    expected[:, 2:, :-1] = IMAGES[:, :-2, 1:]
    np.testing.assert_allclose(move(2, -1, 0), expected, atol=1e-6)


def test_half_a_pixel_is_the_mean_of_two():
    expected = np.zeros_like(IMAGES)
    expected[:, 1:] = IMAGES[:, :-1] / 2
    expected += IMAGES / 2
    np.testing.assert_allclose(move(0.5, 0, 0), expected, atol=1e-6)


@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_right_angles_are_exact(quarters):
    square = np.random.default_rng(1).uniform(size=(3, 7, 7, 1)).astype("float32")
    expected = np.rot90(square, quarters, axes=(1, 2))
    np.testing.assert_allclose(move(0, 0, 90 * quarters, square), expected, atol=1e-5)


def test_rotation_comes_before_translation():
    square = np.random.default_rng(1).uniform(size=(1, 7, 7, 1)).astype("float32")
    expected = np.zeros_like(square)
    expected[:, 1:] = np.rot90(square, 1, axes=(1, 2))[:, :-1]
    np.testing.assert_allclose(move(1, 0, 90, square), expected, atol=1e-5)


def test_the_grid_covers_the_limits_and_holds_the_image_itself():
    attack = attacks.get("spatial", epsilon=0.0)
    moves = attack.moves()
    assert moves.shape == (775, 3) and len(np.unique(moves, axis=0)) == 775
    assert abs(moves[0]).min() == 1 and not moves[-1].any()
    np.testing.assert_allclose(attack.limits((None, 32, 64, 3)), [3, 6, 30])
    assert attacks.Spatial(translation=2).limits((None, 32, 64, 3))[:2].tolist() == [2, 2]


def test_a_move_that_fools_is_found_and_named(model):
    y = predictions(model, IMAGES)
    attack = attacks.get("spatial", epsilon=0.03, translation=0.05, rotation=0.5, grid=(3, 3, 3))
    result = attack.run(model, IMAGES, y)
    assert 0 < result.success.mean() < 1
    np.testing.assert_array_equal(predictions(model, result.x_adv) != y, result.success)
    assert (result.queries[~result.success] == 1 + 27).all()
    assert (result.queries[result.success] <= 1 + 27).all()
    assert ((result.norm[result.success] > 0) & (result.norm[result.success] <= 1)).all()
    assert result.x_adv.min() >= 0 and result.x_adv.max() <= 1
    every = np.stack([move(*(m * [0.05, 0.05, 0.5])) for m in attack.moves()])
    fooled = np.stack([predictions(model, x) != y for x in every]).any(0)
    np.testing.assert_array_equal(fooled, result.success)


def test_more_random_moves_are_never_weaker_and_batches_do_not_matter(model):
    x = np.random.default_rng(2).uniform(size=(60, 8, 6, 2)).astype("float32")
    y = predictions(model, x)
    limits = {"epsilon": 0.0, "translation": 0.6, "rotation": 4.0}
    few = attacks.get("spatial-2", **limits).run(model, x, y)
    attack = attacks.get("spatial-10", **limits)
    many, pieces = attack.run(model, x, y), attack.run(model, x, y, batch_size=7)
    assert not (few.success & ~many.success).any() and few.success.sum() < many.success.sum() < 60
    np.testing.assert_array_equal(many.x_adv, pieces.x_adv)
    np.testing.assert_array_equal(many.queries, pieces.queries)
    assert len(np.unique(many.norm[many.success])) > 5  # each image has its own moves


def test_the_call_gives_the_move_with_the_largest_margin(model):
    y = predictions(model, IMAGES)
    attack = attacks.get("spatial", epsilon=0.0, translation=0.3, rotation=2.0, grid=(3, 3, 3))
    x_adv = attack(model, IMAGES, y).numpy()

    def margin(x):
        logits = np.array(model(x))
        own = logits[np.arange(12), y].copy()
        logits[np.arange(12), y] = -np.inf
        return logits.max(1) - own

    every = np.stack([margin(move(*(m * [0.3, 0.3, 2]))) for m in attack.moves()]).max(0)
    stands = predictions(model, x_adv) == y
    assert stands.any()
    np.testing.assert_allclose(margin(x_adv)[stands], every[stands], atol=1e-4)


def test_no_room_to_move_means_no_success():
    model, x = linear_model(shape=(7, 5, 1)), gray_images(10, shape=(7, 5, 1))
    y = predictions(model, x)
    result = attacks.get("spatial", epsilon=0.0, translation=0.0, rotation=0.0, grid=(3, 1, 3)).run(
        model, x, y
    )
    assert not result.success.any()
    np.testing.assert_array_equal(result.x_adv, x)


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"steps": 0}, "`steps` must be at least 1"),
        ({"rotation": 200}, r"`rotation` must lie in \[0, 180\]"),
        ({"translation": -1}, "`translation` must be at least 0"),
        ({"grid": (5, 5, 0)}, "`grid` must be three positive numbers"),
    ],
)
def test_impossible_arguments_are_refused(kwargs, message):
    with pytest.raises(InputError, match=message):
        attacks.get("spatial", epsilon=0.0, **kwargs)
