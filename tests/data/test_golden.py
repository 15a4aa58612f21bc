"""Values that must never change: which images are held out, their order, augmentations and corruptions.

Another version of the library that draws other numbers would train on other images and report other
accuracies under the same names. So these are literals, computed once by version 0.1.
"""

import hashlib

import numpy as np
import pytest
import tensorflow as tf

from athe_tf import data
from athe_tf.data import augment, corruptions, folder
from athe_tf.data.augment import RandomResizedCrop
from athe_tf.data.corruptions import names
from athe_tf.data.corruptions.apply import Draws
from athe_tf.data.images import chosen_part, part_of
from athe_tf.data.resize import resize_and_center_crop
from athe_tf.data.splits import channel_statistics, held_out_size, hold_out
from athe_tf.utils.errors import InputError
from tests.data.jpeg_folder import write_jpeg_folder
from tests.data.test_part import streamed

NUMBERS = np.arange(20)
# The first of numpy.random.RandomState(0).permutation(20): 18, 1, 19, 8, 10.
HELD_OUT = [1, 8, 10, 18, 19]


def numbered(count, first=0):
    """Images whose label is their number."""
    images = np.zeros([count, 4, 4, 1], np.uint8)
    images[:] = first + np.arange(count).reshape(-1, 1, 1, 1)
    return data.ImageSet(images, first + np.arange(count))


def labels_of(dataset):
    return [labels.numpy().tolist() for _, labels in dataset]


def test_the_held_out_images_are_those_of_the_first_version():
    parts = hold_out("mine", {"train": (NUMBERS, 100 + NUMBERS), "test": (NUMBERS, NUMBERS)}, 5)
    images, labels = parts["validation"]
    assert images.tolist() == HELD_OUT and labels.tolist() == [100 + number for number in HELD_OUT]
    images, labels = parts["train"]
    assert images.tolist() == sorted(set(range(20)) - set(HELD_OUT)) and labels.tolist() == [
        100 + number for number in images
    ]


# A tenth, at most 1,000, at least one, and never all.
@pytest.mark.parametrize(
    "train, held",
    [
        (2, 1),
        (9, 1),
        (19, 1),
        (20, 2),
        (9_999, 999),
        (10_000, 1_000),
        (10_010, 1_000),
        (60_000, 1_000),
        (1, 0),
    ],
)
def test_a_tenth_is_held_out_and_at_most_a_thousand(train, held):
    assert held_out_size("mine", train, None) == held


def test_as_many_images_as_asked_for_are_held_out_unless_none_would_be_left():
    assert held_out_size("mine", 10, 9) == 9 and held_out_size("mine", 10, 0) == 0
    with pytest.raises(InputError, match="Expected less than the 10 training images"):
        held_out_size("mine", 10, 10)
    assert held_out_size("mine", 10, 7, own=7) == 0
    with pytest.raises(InputError, match="has its own 7 validation images"):
        held_out_size("mine", 10, 6, own=7)


def test_the_part_that_a_recipe_is_tried_on_is_that_of_the_first_version():
    assert chosen_part(20, 5).tolist() == HELD_OUT
    assert numbered(20).part(5).labels.tolist() == HELD_OUT


def test_the_files_of_a_streamed_folder_are_in_the_order_of_the_first_version(tmp_path):
    write_jpeg_folder(tmp_path, train=3, test=2)
    splits = folder.load(
        f"folder:{tmp_path}",
        validation_size=2,
        image_size=8,
        resize_size=None,
        streamed=True,
        skip_corrupt=False,
    )
    found = {
        part: ["/".join(path.split("/")[-2:]).removesuffix(".JPEG") for path in getattr(splits, part).paths]
        for part in ("train", "validation", "test")
    }
    # Of six training files, RandomState(0) holds out 5 and 2; each part is shuffled by RandomState(0) again.
    assert found == {
        "train": ["n1/0", "n1/1", "n0/1", "n0/0"],
        "validation": ["n1/2", "n0/2"],
        "test": ["n1/0", "n1/1", "n0/1", "n0/0"],
    }
    assert splits.train.labels.tolist() == [1, 1, 0, 0]


def test_the_first_images_of_imagenet_c_are_those_of_the_first_version():
    for count, expected in ((5, HELD_OUT), (20, list(range(20))), (None, list(range(20)))):
        assert list(chosen_part(20, count)) == expected


def test_an_epoch_has_the_order_of_the_first_version():
    assert labels_of(numbered(10).stream(5, seed=7, epochs=2)) == [
        [7, 3, 1, 5, 8], [4, 2, 9, 0, 6], [4, 3, 1, 5, 0], [9, 8, 2, 7, 6]
    ]  # fmt: skip


def test_a_mixed_epoch_has_the_order_of_the_first_version():
    mixed = data.MixedSet(numbered(10), numbered(10, first=10), 0.4)
    assert labels_of(mixed.stream(5, seed=7, epochs=2)) == [
        [7, 18, 3, 13, 1], [5, 10, 8, 12, 4], [2, 16, 9, 11, 0], [4, 14, 3, 19, 1]
    ]  # fmt: skip


def test_the_parts_of_a_batch_are_its_rows_in_order():
    assert [part_of(NUMBERS, (part, 4)).tolist() for part in (0, 3)] == [
        [0, 1, 2, 3, 4],
        [15, 16, 17, 18, 19],
    ]
    assert part_of(NUMBERS, (0, 1)) is NUMBERS


def test_augmentations_are_those_of_the_first_version():
    # Pixel (row, column) has the value 1 + 8 row + column in all six.
    images = tf.constant(np.tile(np.arange(1, 65, dtype=np.uint8).reshape(1, 8, 8, 1), (6, 1, 1, 1)))
    ids = tf.range(6)
    assert augment.flip(images, 3, ids).numpy()[:, 0, 0, 0].tolist() == [8, 1, 1, 1, 8, 1]
    # Pixel (3, 3) shows where the window is: 28 in the center.
    cropped = augment.pad_crop(images, 3, ids, padding=2).numpy()[:, 3, 3, 0]
    assert cropped.tolist() == [22, 34, 28, 20, 11, 30]
    moved = augment.batch_crop_flip(images, 3, ids, padding=2).numpy()[:, 3, 3, 0]
    assert moved.tolist() == [23, 22, 22, 22, 23, 22]


def test_the_boxes_of_random_crops_are_those_of_the_first_version():
    boxes = RandomResizedCrop().boxes(3, tf.range(4), tf.fill([4], 60), tf.fill([4], 80))
    assert boxes.numpy().tolist() == [[12, 19, 47, 51], [4, 11, 42, 49], [24, 23, 31, 32], [19, 9, 25, 31]]


# Two pixels of each corruption at severity 3, of an image whose pixels there are (64, 196, 25) and
# (226, 158, 145).
CORRUPTED = {
    "gaussian_noise": [[101, 177, 37], [244, 157, 156]],
    "shot_noise": [[59, 230, 26], [201, 143, 110]],
    "impulse_noise": [[64, 196, 25], [226, 158, 145]],
    "defocus_blur": [[90, 154, 71], [176, 131, 169]],
    "glass_blur": [[60, 180, 30], [189, 183, 194]],
    "motion_blur": [[77, 181, 128], [130, 131, 124]],
    "zoom_blur": [[63, 175, 28], [201, 157, 158]],
    "snow": [[97, 216, 62], [243, 181, 170]],
    "frost": [[84, 231, 84], [229, 196, 191]],
    "fog": [[125, 200, 103], [161, 123, 115]],
    "brightness": [[76, 234, 30], [255, 178, 164]],
    "contrast": [[104, 156, 88], [169, 140, 136]],
    "elastic_transform": [[67, 148, 61], [164, 132, 173]],
    "pixelate": [[135, 136, 68], [235, 88, 198]],
    "jpeg_compression": [[148, 128, 130], [170, 180, 179]],
    "speckle_noise": [[56, 178, 30], [255, 169, 157]],
    "gaussian_blur": [[98, 143, 83], [163, 129, 168]],
    "spatter": [[73, 208, 37], [226, 158, 145]],
    "saturate": [[45, 196, 0], [226, 124, 105]],
}


def test_corrupted_images_are_those_of_the_first_version():
    photo = np.random.RandomState(1).randint(0, 256, [1, 12, 12, 3]).astype(np.uint8)
    assert set(CORRUPTED) == set(corruptions.CORRUPTIONS)
    for name, expected in CORRUPTED.items():
        corrupted = corruptions.corrupt(photo, name, 3, seed=4, ids=[11])[0].astype(int)
        found = np.stack([corrupted[2, 3], corrupted[9, 7]])
        # A level of rounding; builds of the JPEG library differ by more.
        assert np.abs(found - expected).max() <= (4 if name == "jpeg_compression" else 1), (name, found)


def test_the_random_numbers_of_corruptions_are_those_of_the_first_version():
    draws = Draws(0, "fog", 2, [0, 5])
    np.testing.assert_allclose(draws.uniform((2,)), [[0.33071637, 0.69044876], [0.74899387, 0.86627907]])
    np.testing.assert_allclose(
        draws.normal((2,)), [[0.1175018, -1.1125356], [0.9714380, -0.4397449]], rtol=1e-4
    )
    assert draws.integers((3,), -2, 3).tolist() == [[1, 1, 2], [-1, 0, -2]]


def test_every_severity_corruption_seed_and_call_has_numbers_of_its_own():
    first = Draws(0, "fog", 1, [0])
    drawn = [first.uniform((8,)), first.uniform((8,))]
    drawn += [
        Draws(*other).uniform((8,)) for other in ((0, "fog", 2, [0]), (0, "snow", 1, [0]), (1, "fog", 1, [0]))
    ]
    for index, one in enumerate(drawn):
        for other in drawn[:index]:
            assert not np.isclose(one, other).any()


def test_the_constants_of_corruptions_are_the_published_ones():
    """Digests of tables that were compared with the released scripts."""
    digests = [
        hashlib.sha256(repr(sorted(table.items())).encode()).hexdigest()[:16]
        for table in (names.CIFAR_10_C, names.IMAGENET_C)
    ]
    assert digests == ["52334c8c8c199526", "1cb834664f32f56a"]


def test_images_are_rounded_to_the_nearest_level_and_clipped():
    black_and_white = np.array([0.0, 1.0], np.float32).reshape(2, 1, 1, 1)
    brighter = corruptions.corrupt(black_and_white, "brightness", 1)
    # 0.05 is 12.75 of 255.
    np.testing.assert_allclose(brighter.ravel(), [13 / 255, 1.0])


def test_statistics_are_those_of_all_pixels_of_a_channel():
    images = np.zeros([2, 1, 2, 2], np.uint8)
    images[..., 0] = [[[0, 51]], [[102, 255]]]
    mean, std = channel_statistics(images)
    # (0 + 0.2 + 0.4 + 1) / 4, and the deviation with n, not n - 1; the empty channel has one level.
    assert mean == pytest.approx((0.4, 0.0)) and std == pytest.approx((0.14**0.5, 1 / 255))
    np.testing.assert_allclose(channel_statistics(images / np.float32(255)), (mean, std), rtol=1e-5)


def test_a_streamed_epoch_has_the_order_of_the_first_version(tmp_path):
    train = streamed(tmp_path)
    train.window, train.readers = 4, 1
    assert labels_of(train.stream(3, seed=7, epochs=2)) == [[3, 5, 0], [4, 1, 2], [5, 0, 4], [3, 2, 1]]


# Half to even, as Python's `round` in torchvision: 0.5 is 0, 1.5 is 2, 2.5 is 2.
@pytest.mark.parametrize("crop, corner", [(8, 0), (7, 0), (6, 1), (5, 2), (4, 2), (3, 2)])
def test_the_corner_of_a_central_crop_is_rounded_half_to_even(crop, corner):
    image = np.arange(64, dtype=np.uint8).reshape(8, 8, 1)
    found = resize_and_center_crop(tf.constant(image), 8, crop).numpy()
    np.testing.assert_array_equal(found, image[corner : corner + crop, corner : corner + crop])
