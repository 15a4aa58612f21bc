"""Names of data sets, the digits, and what happens before TensorFlow starts."""

import hashlib
import subprocess
import sys

import numpy as np
import pytest

from athe_tf import data
from athe_tf.data import names, npz
from athe_tf.data.loading import DIGITS
from athe_tf.data.splits import channel_statistics
from athe_tf.utils.errors import InputError


@pytest.mark.parametrize(
    "name",
    [
        "digits",
        "cifar10",
        "cifar10:3.0.2",
        "cifar10:3.*.*",
        "cifar10_corrupted/fog_3",
        "plant_village",
        "my_own_set",
    ],
)
def test_names_that_may_exist_are_accepted(name):
    names.check_name(name)


@pytest.mark.parametrize(
    "name, nearest",
    [
        ("cifra10", "cifar10"),
        ("cifar1", "cifar10"),
        ("CIFAR-10", "cifar10"),
        ("Cifar100", "cifar100"),
        ("mnits", "mnist"),
        ("digit", "digits"),
        ("dogits", "digits"),
        ("fashion-mnist", "fashion_mnist"),
        ("cifar10_corupted/fog_3", "cifar10_corrupted"),
    ],
)
def test_a_slip_is_answered_with_the_nearest_name(name, nearest):
    with pytest.raises(
        InputError, match=rf"Unknown data set '{name}'. Did you mean '{nearest}'\? Available: digits"
    ):
        names.check_name(name)


@pytest.mark.parametrize("name", ["", "cifar10:1.0:2", "cifar10/a/b", "two words"])
def test_malformed_names_are_refused(name):
    with pytest.raises(InputError, match="Unknown data set"):
        names.check_name(name)


def test_a_prepared_set_is_accepted_even_if_it_looks_like_a_slip(tmp_path):
    (tmp_path / "cifar11").mkdir()
    names.check_name("cifar11", data_dir=tmp_path)
    with pytest.raises(InputError, match="Did you mean 'cifar10'"):
        names.check_name("cifar11")


def test_a_name_is_a_string():
    with pytest.raises(InputError, match="Received: name=10"):
        names.check_name(10)


def test_names_are_checked_without_tensorflow(tmp_path):
    x, y = np.full([4, 2, 2, 1], 9, "uint8"), np.arange(4) % 2
    np.savez(tmp_path / "a.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    code = f"""
import sys, athe_tf.data.names
for name in ("digits", "cifar10", "some_other_set", "npz:{tmp_path}/a.npz"):
    athe_tf.data.names.check_name(name)
athe_tf.data.AUGMENTATIONS.check("pad_crop")
for name in ("cifra10", "npz:/nowhere.npz"):
    try:
        athe_tf.data.names.check_name(name)
        raise AssertionError(name)
    except athe_tf.InputError:
        pass
for module in ("tensorflow", "keras"):
    assert module not in sys.modules
assert "tensorflow_datasets" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_digits_are_the_published_ones():
    parts = npz.read(DIGITS)[0]
    labels = np.concatenate([labels for _, labels in parts.values()])
    # Per class, as the description of the UCI repository counts them.
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert {part: len(labels) for part, (_, labels) in parts.items()} == {
        "train": 1197,
        "validation": 200,
        "test": 400,
    }
    levels = np.unique(np.concatenate([images.ravel() for images, _ in parts.values()]))
    np.testing.assert_array_equal(levels, np.round(np.arange(17) * 255 / 16))
    with np.load(DIGITS) as archive:
        digest = hashlib.sha256(b"".join(archive[key].tobytes() for key in sorted(archive.files)))
    assert digest.hexdigest() == "9afe381ae5c64265ef4583851b3d87c0bb33280ae12dbb327d7539722169eff0"


def test_digits_are_stratified_and_always_the_same():
    first, second = data.load("digits"), data.load("digits")
    for part in ("train", "validation", "test"):
        for a, b in zip(getattr(first, part).arrays(), getattr(second, part).arrays(), strict=True):
            np.testing.assert_array_equal(a, b)
    assert np.bincount(first.validation.labels).tolist() == [20] * 10
    assert np.bincount(first.test.labels).tolist() == [40] * 10
    assert first.image_shape == (8, 8, 1) and first.num_classes == 10
    assert first.class_names == tuple("0123456789")


def test_statistics_are_those_of_the_training_images():
    splits = data.load("digits")
    images = splits.train.arrays()[0].astype(np.float64)
    np.testing.assert_allclose(splits.mean, [images.mean()], rtol=1e-6)
    np.testing.assert_allclose(splits.std, [images.std()], rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_statistics_are_taken_for_each_channel_and_never_zero(dtype):
    images = np.random.RandomState(0).randint(0, 256, [20, 4, 4, 3]).astype(np.uint8)
    images[..., 2] = 51
    scaled = images / 255
    mean, std = channel_statistics(images if dtype == np.uint8 else scaled.astype(np.float32))
    np.testing.assert_allclose(mean, scaled.mean(axis=(0, 1, 2)), rtol=1e-5)
    np.testing.assert_allclose(std[:2], scaled.std(axis=(0, 1, 2))[:2], rtol=1e-5)
    assert std[2] == 1 / 255


def test_digits_keep_their_own_validation_images():
    data.load("digits", validation_size=200)
    with pytest.raises(
        InputError, match=r"'digits' has its own 200 validation images. .*validation_size=100"
    ):
        data.load("digits", validation_size=100)


def test_image_size_resizes_every_part():
    splits = data.load("digits", image_size=16)
    assert splits.image_shape == splits.train.image_shape == splits.test.image_shape == (16, 16, 1)
    assert splits.train.images.dtype == np.uint8


@pytest.mark.parametrize("arguments", [{"validation_size": -1}, {"validation_size": 0.1}, {"image_size": 0}])
def test_sizes_are_checked(arguments):
    (name,) = arguments
    with pytest.raises(InputError, match=f"Invalid value for argument `{name}`. Expected an integer"):
        data.load("digits", **arguments)


def test_unknown_attributes_are_refused():
    with pytest.raises(AttributeError, match="lod"):
        _ = data.lod
