"""RayS: its blocks, the distances it finds on a linear model, and its queries."""

import numpy as np
import pytest
import tensorflow as tf

from athe_tf import attacks
from athe_tf.attacks.rays import Blocks
from athe_tf.utils.errors import InputError
from tests.linear_case import SHAPE, gray_images, linear_model, predictions, radii

IMAGES = gray_images()


@pytest.fixture(scope="module")
def binary():
    return linear_model(classes=2)


def all_blocks(shape, levels):
    """The flipped entries of each block in turn, in the order of the walk, channels first."""
    blocks, level, block = Blocks(shape), tf.constant([0]), tf.constant([0])
    ones, found = tf.ones((1, *shape), tf.int8), []
    while int(level[0]) < levels:
        flipped = blocks.flip(ones, level, block).numpy()[0] < 0
        found.append((int(level[0]), np.flatnonzero(flipped.transpose(2, 0, 1))))
        level, block = blocks.next(level, block, tf.constant([True]))
    return found


@pytest.mark.parametrize("shape", [(4, 4, 3), (5, 3, 1), (1, 7, 1)])
def test_the_blocks_of_a_level_divide_the_image_channel_by_channel(shape):
    size = int(np.prod(shape))
    found = all_blocks(shape, levels=(size - 1).bit_length())
    for level in range((size - 1).bit_length()):
        blocks = [entries for at, entries in found if at == level]
        assert len(blocks) <= 2**level
        assert {len(b) for b in blocks[:-1]} <= {-(-size // 2**level)}
        np.testing.assert_array_equal(np.concatenate(blocks), np.arange(size))


def test_after_single_entries_the_walk_begins_again_with_them():
    blocks = Blocks((1, 5, 1))
    level, block = tf.constant([3]), tf.constant([0])
    for _ in range(7):
        level, block = blocks.next(level, block, tf.constant([True]))
    assert (int(level[0]), int(block[0])) == (3, 2)
    stays = blocks.next(level, block, tf.constant([False]))
    assert (int(stays[0][0]), int(stays[1][0])) == (3, 2)


def test_it_reaches_the_true_radius(binary):
    y = predictions(binary, IMAGES)
    radius = radii(binary, IMAGES, y, "linf")
    attack = attacks.get("rays-1500", epsilon=0.5, stop_on_success=False, tolerance=1e-4)
    result = attack.run(binary, IMAGES, y)
    assert (result.norm >= radius * (1 - 1e-3)).all()
    resolved = radius > 20 * 1e-4 / np.sqrt(np.prod(SHAPE))  # 5% of it are above the tolerance
    assert resolved.mean() > 0.9
    assert (result.norm[resolved] <= 1.05 * radius[resolved]).all()
    np.testing.assert_allclose(abs(result.x_adv - IMAGES).max((1, 2, 3)), result.norm, atol=1e-6)
    np.testing.assert_array_equal(predictions(binary, result.x_adv) != y, True)


def test_with_more_classes_it_reaches_the_radius_of_the_class_where_it_ends():
    """It descends to one class; that this is the nearest one nobody promises, but mostly it is."""
    model = linear_model()
    y = predictions(model, IMAGES)
    attack = attacks.get("rays-2000", epsilon=0.5, stop_on_success=False, tolerance=1e-4)
    result = attack.run(model, IMAGES, y)
    kernel, bias = (np.asarray(w, "float64") for w in model.layers[-1].get_weights())
    ended, rows = predictions(model, result.x_adv), np.arange(60)
    logits = IMAGES.reshape(60, -1) @ kernel + bias
    gap = logits[rows, y] - logits[rows, ended]
    own = gap / abs(kernel[:, ended] - kernel[:, y]).sum(0)
    radius = radii(model, IMAGES, y, "linf")
    resolved = radius > 20 * 1e-4 / np.sqrt(np.prod(SHAPE))
    assert (result.norm[resolved] <= 1.05 * own[resolved]).all()
    assert (result.norm >= radius * (1 - 1e-3)).all()
    assert np.median(result.norm / radius) < 1.05


def test_with_success_it_stops_and_without_it_spends_the_budget(binary):
    y = predictions(binary, IMAGES)
    radius = radii(binary, IMAGES, y, "linf")
    epsilon = float(np.median(radius))
    stopped = attacks.get("rays-900", epsilon=epsilon).run(binary, IMAGES, y)
    whole = attacks.get("rays-900", epsilon=epsilon, stop_on_success=False).run(binary, IMAGES, y)
    assert stopped.success[1.05 * radius < epsilon].all()
    assert not stopped.success[radius > epsilon * (1 + 1e-4)].any()
    np.testing.assert_array_equal(stopped.success, whole.success)
    assert (stopped.queries[stopped.success] < 900).all() and (whole.queries == 900).all()
    assert (stopped.norm >= whole.norm).all()
    # Distances above epsilon are known too, and the images that belong to them are not shown.
    assert np.isfinite(stopped.norm).all() and (stopped.norm[~stopped.success] > epsilon).all()
    np.testing.assert_array_equal(stopped.x_adv[~stopped.success], IMAGES[~stopped.success])


def test_more_queries_are_never_worse(binary):
    y = predictions(binary, IMAGES)
    norms = [
        attacks.get(f"rays-{n}", epsilon=0.5, stop_on_success=False).run(binary, IMAGES, y).norm
        for n in (3, 20, 200)
    ]
    assert (norms[0] >= norms[1]).all() and (norms[1] >= norms[2]).all()


def test_only_labels_matter(binary):
    y = predictions(binary, IMAGES)
    # Powers of two, and no shift: with one, rounding decides at the boundary itself.
    scaled = linear_model(classes=2, scale=32.0)

    def labels_only(x):
        return tf.one_hot(tf.argmax(binary(x), axis=1), 2)

    results = [attacks.get("rays-200", epsilon=0.01).run(m, IMAGES, y) for m in (binary, scaled, labels_only)]
    for other in results[1:]:
        np.testing.assert_array_equal(results[0].success, other.success)
        np.testing.assert_array_equal(results[0].queries, other.queries)
        np.testing.assert_allclose(results[0].norm, other.norm, rtol=1e-6)


def test_a_shift_of_the_logits_does_not_matter(binary):
    y = predictions(binary, IMAGES)
    results = [
        attacks.get("rays-400", epsilon=0.01).run(model, IMAGES, y)
        for model in (binary, linear_model(classes=2, scale=30.0, shift=40.0))
    ]
    np.testing.assert_array_equal(results[0].success, results[1].success)


def test_an_image_that_no_corner_fools_has_no_norm():
    def constant(x):
        return tf.tile([[1.0, 0.0]], [tf.shape(x)[0], 1])

    result = attacks.get("rays-30", epsilon=0.1).run(constant, IMAGES, np.zeros(60, int))
    assert not result.success.any() and np.isinf(result.norm).all() and (result.queries == 30).all()
    np.testing.assert_array_equal(result.x_adv, IMAGES)


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"norm": "l2"}, "supports only norm='linf'. "),
        ({"n_queries": 1}, "at least 2 queries"),
        ({"tolerance": 0.0}, "`tolerance` must be positive"),
    ],
)
def test_impossible_arguments_are_refused(kwargs, message):
    with pytest.raises(InputError, match=message):
        attacks.get("rays", epsilon=0.1, **kwargs)


def test_settings_say_how_it_was_run():
    assert attacks.get("rays", epsilon=0.1).settings() == {
        "norm": "linf",
        "epsilon": 0.1,
        "n_queries": 10_000,
        "stop_on_success": True,
        "tolerance": 1e-3,
    }
