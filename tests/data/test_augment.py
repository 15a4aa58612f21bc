"""Augmentation: against a slow NumPy loop, and a pure function of (seed, id)."""

import numpy as np
import pytest
import tensorflow as tf

from athe_tf.data import AUGMENTATIONS, ImageSet, augment
from athe_tf.data.names import BATCHWISE
from athe_tf.utils import rng
from athe_tf.utils.errors import InputError


def some_images(count=40, height=8, width=6, channels=3):
    return np.random.RandomState(1).randint(0, 256, [count, height, width, channels]).astype(np.uint8)


def crop_in_numpy(images, corners, padding, mode):
    """One image and one pixel at a time."""
    count, height, width, _ = images.shape
    out = np.zeros_like(images)
    for n in range(count):
        for i in range(height):
            for j in range(width):
                y, x = corners[n, 0] + i - padding, corners[n, 1] + j - padding
                if mode == "reflect":
                    y = abs(y) if y < height else 2 * (height - 1) - y
                    x = abs(x) if x < width else 2 * (width - 1) - x
                if 0 <= y < height and 0 <= x < width:
                    out[n, i, j] = images[n, y, x]
    return out


@pytest.mark.parametrize("mode", ["zero", "reflect"])
@pytest.mark.parametrize("padding", [0, 1, 3])
def test_pad_crop_flip_equals_a_slow_loop(mode, padding):
    images, ids, seed = some_images(), np.arange(100, 140), 7
    corners = rng.integers(seed, ids, (2,), 2 * padding + 1, stream=1).numpy()
    coins = rng.integers(seed, ids, (1,), 2, stream=2).numpy()[:, 0]
    expected = crop_in_numpy(images, corners, padding, mode)
    for n in range(len(expected)):
        if coins[n]:
            expected[n] = np.fliplr(expected[n])
    result = augment.pad_crop_flip(tf.constant(images), seed, ids, padding=padding, mode=mode)
    assert result.dtype == tf.uint8
    np.testing.assert_array_equal(result, expected)


def test_reflect_crop_flip_reflects_at_the_border():
    images, ids = tf.constant(some_images()), np.arange(40)
    found = augment.reflect_crop_flip(images, 7, ids)
    np.testing.assert_array_equal(found, augment.pad_crop_flip(images, 7, ids, mode="reflect"))
    assert not np.array_equal(found, augment.pad_crop_flip(images, 7, ids))


def test_every_offset_and_both_sides_of_the_coin_occur_equally_often():
    count = 9000
    # A single bright pixel in the middle tells where the window was: 9 places with padding 1.
    images = np.zeros([count, 3, 3, 1], np.uint8)
    images[:, 1, 1] = 1
    places = (
        augment.pad_crop(tf.constant(images), 0, np.arange(count), padding=1).numpy().sum(axis=0, dtype=int)
    )
    # Binomial(9000, 1/9): mean 1000, standard deviation 30.
    assert np.all(np.abs(places - 1000) < 5 * 30)
    images = np.zeros([count, 1, 2, 1], np.uint8)
    images[:, :, 0] = 1
    mirrored = augment.flip(tf.constant(images), 0, np.arange(count)).numpy()[:, 0, 1, 0].sum(dtype=int)
    assert abs(mirrored - 4500) < 5 * 47


@pytest.mark.parametrize("name", sorted(set(AUGMENTATIONS) - set(BATCHWISE)))
def test_an_image_is_augmented_alike_in_any_batch(name):
    images, ids = some_images(), np.arange(40)
    whole = AUGMENTATIONS.get(name)(tf.constant(images), 3, ids)
    for some in (np.array([17, 3, 39]), *np.arange(6)[:, np.newaxis]):
        part = AUGMENTATIONS.get(name)(tf.constant(images[some]), 3, some)
        np.testing.assert_array_equal(part, whole.numpy()[some])


def test_a_batch_is_moved_by_one_crop():
    # Every column differs, so that the window can be read off the first row of an image, flipped or not.
    row = np.arange(12, dtype=np.uint8)
    images = np.tile(row[:, np.newaxis], (40, 12, 1, 1))
    starts = set()
    for seed in range(30):
        rows = augment.batch_crop_flip(tf.constant(images), seed, np.arange(40), padding=2).numpy()[
            :, 0, :, 0
        ]
        flipped = rows[:, 4] > rows[:, 6]
        assert 5 < flipped.sum() < 35
        straight = np.where(flipped[:, np.newaxis], rows[:, ::-1], rows)
        assert len({tuple(row) for row in straight}) == 1
        starts.add(tuple(straight[0]))
    assert len(starts) == 5


@pytest.mark.parametrize("name", ["batch_crop_flip", "flip", "pad_crop", "pad_crop_flip"])
def test_another_seed_augments_otherwise(name):
    images, ids = tf.constant(some_images()), np.arange(40)
    function = AUGMENTATIONS.get(name)
    assert np.any(function(images, 0, ids).numpy() != function(images, 1, ids).numpy())


def test_none_changes_nothing():
    images = some_images()
    np.testing.assert_array_equal(augment.none(tf.constant(images), 0, np.arange(40)), images)


@pytest.mark.parametrize("height, padding", [(8, 1), (28, 3), (32, 4), (4, 1)])
def test_default_padding_is_an_eighth_of_the_height(height, padding):
    images = tf.constant(some_images(height=height, width=height))
    expected = augment.pad_crop(images, 0, np.arange(40), padding=padding)
    np.testing.assert_array_equal(augment.pad_crop(images, 0, np.arange(40)), expected)


def test_errors_say_what_is_wrong():
    images, ids = tf.constant(some_images()), np.arange(40)
    with pytest.raises(InputError, match=r"argument `mode`. Expected one of \['reflect', 'zero'\]"):
        augment.pad_crop(images, 0, ids, mode="wrap")
    with pytest.raises(InputError, match=r"to reflect, at most 5. Received: padding=6"):
        augment.pad_crop(images, 0, ids, padding=6, mode="reflect")
    with pytest.raises(InputError, match=r"Received: padding=-1"):
        augment.pad_crop(images, 0, ids, padding=-1)
    with pytest.raises(
        InputError, match=r"Unknown augmentation 'pad_crop_flp'. Did you mean 'pad_crop_flip'\?"
    ):
        AUGMENTATIONS.check("pad_crop_flp")


def inverted(images, seed, ids):
    return 255 - images


def test_a_function_of_the_users_own_augments_a_stream():
    images = np.full([4, 2, 2, 1], 55, "uint8")
    stream = ImageSet(images, np.zeros([4], int)).stream(4, seed=0, augmentation=f"{__name__}:inverted")
    np.testing.assert_allclose(next(iter(stream))[0], 200 / 255, rtol=1e-6)
