"""RandAugment, random erasing and Cutout: against Pillow and NumPy, and functions of (seed, id) alone."""

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageEnhance, ImageOps

from athe_tf.data import ImageSet, augment, photometric
from athe_tf.data.options import AugmentationOptions
from athe_tf.utils.errors import InputError

IMAGES = np.random.default_rng(0).integers(20, 220, (6, 12, 10, 3), dtype="uint8")
IMAGE = Image.fromarray(IMAGES[0])
BY_PILLOW = {
    0: lambda m, s: ImageOps.autocontrast(IMAGE),
    1: lambda m, s: ImageOps.equalize(IMAGE),
    2: lambda m, s: ImageOps.invert(IMAGE),
    4: lambda m, s: ImageOps.posterize(IMAGE, 4 - int(4 * m)),
    5: lambda m, s: ImageOps.solarize(IMAGE, 256 - int(256 * m)),
    7: lambda m, s: ImageEnhance.Color(IMAGE).enhance(1 + s * 0.9 * m),
    8: lambda m, s: ImageEnhance.Contrast(IMAGE).enhance(1 + s * 0.9 * m),
    9: lambda m, s: ImageEnhance.Brightness(IMAGE).enhance(1 + s * 0.9 * m),
    10: lambda m, s: ImageEnhance.Sharpness(IMAGE).enhance(1 + s * 0.9 * m),
}


@pytest.mark.parametrize("number", BY_PILLOW)
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_colors_change_as_in_pillow(number, side):
    found = photometric.OPERATIONS[number](tf.constant(IMAGES[0], tf.float32), 0.5, side)
    expected = np.array(BY_PILLOW[number](0.5, side), float)
    # Pillow rounds in between.
    np.testing.assert_allclose(np.clip(found, 0, 255), expected, atol=2.1)


def test_images_move_as_arrays_do():
    square = tf.constant(IMAGES[0, :10], tf.float32)
    np.testing.assert_array_equal(photometric.rotated(square, 90.0), np.rot90(square))
    moved = photometric.warped(square, x=3.0).numpy()
    np.testing.assert_array_equal(moved[:, :-3], square[:, 3:])
    assert (moved[:, -3:] == 128).all()
    sheared = photometric.warped(square, b=2.0 / 9).numpy()  # rows move by -1, 0 or 1 pixel
    np.testing.assert_array_equal(sheared[0, 1:], square[0, :-1])
    np.testing.assert_array_equal(sheared[-1, :-1], square[-1, 1:])


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("name, value", [("rand_augment", 9.0), ("random_erasing", 0.5), ("cutout", 4)])
def test_what_happens_to_an_image_depends_on_seed_and_id_alone(name, value, dtype):
    images = IMAGES if dtype == "uint8" else (IMAGES / 255).astype("float32")
    images, ids = np.tile(images, (5, 1, 1, 1)), np.arange(30)
    function = getattr(photometric, name)
    whole = function(tf.constant(images), 3, ids, value).numpy()
    assert whole.dtype == dtype and whole.shape == images.shape
    assert whole.min() >= 0 and whole.max() <= (255 if dtype == "uint8" else 1)
    np.testing.assert_array_equal(function(tf.constant(images[[7, 2]]), 3, ids[[7, 2]], value), whole[[7, 2]])
    changed = (whole != images).any(axis=(1, 2, 3)).mean()
    assert changed == 1 if name == "cutout" else 0.3 < changed < 0.95
    assert (function(tf.constant(images), 4, ids, value).numpy() != whole).any()


def test_cutout_is_a_square_that_the_border_cuts_off():
    found = photometric.cutout(tf.constant(IMAGES), 0, np.arange(6), 4).numpy()
    for image, before in zip(found, IMAGES, strict=True):
        rows, columns = np.where((image == 128).all(axis=-1) & (image != before).any(axis=-1))
        assert 2 <= np.ptp(rows) + 1 <= 4 and 2 <= np.ptp(columns) + 1 <= 4
        inside = np.zeros([12, 10], bool)
        inside[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1] = True
        np.testing.assert_array_equal(image[~inside], before[~inside])
        assert (image[inside] == 128).all()


def test_erased_boxes_have_the_published_areas():
    images = np.zeros([400, 32, 32, 1], "float32")
    found = photometric.random_erasing(tf.constant(images), 0, np.arange(400), 0.25).numpy()[..., 0]
    shares = (found > 0).mean(axis=(1, 2))
    erased = shares > 0
    assert 0.17 < erased.mean() < 0.33  # binomial: 0.25, standard deviation 0.022
    assert shares[erased].min() > 0.01 and shares.max() < 0.36 and 0.12 < shares[erased].mean() < 0.24


def test_they_follow_the_augmentation_in_a_stream():
    source = ImageSet(IMAGES, np.arange(6))
    images, _ = next(iter(source.stream(6, seed=0, augmentation="flip", cutout=4)))
    plain, _ = next(iter(source.stream(6, seed=0, augmentation="flip")))
    changed = (images.numpy() != plain.numpy()).any(axis=-1)
    assert changed.any() and not changed.all()
    crop = photometric.extended(augment.random_resized_crop_flip, AugmentationOptions(cutout=4))
    assert isinstance(crop, augment.RandomResizedCrop)
    assert (crop(tf.constant(IMAGES), 0, np.arange(6)).numpy() == 128).any()
    assert photometric.extended(augment.flip, AugmentationOptions(mixup=1.0)) is augment.flip


@pytest.mark.parametrize("options", [{"randaugment": 11.0}, {"erasing": 1.5}, {"cutout": -1}], ids=str)
def test_bad_values_are_refused(options):
    with pytest.raises(InputError, match=f"{next(iter(options))} must"):
        AugmentationOptions(**options)


def test_a_square_that_covers_images_is_refused():
    with pytest.raises(InputError, match="whose shorter side is 10. Received: cutout=10. Use a smaller"):
        ImageSet(IMAGES, np.zeros(6, int)).stream(6, seed=0, cutout=10)
