"""`npz:PATH`: what is read, what is held out, and every way in which a file can be wrong."""

import numpy as np
import pytest

from athe_tf import data
from athe_tf.data import names
from athe_tf.utils.errors import InputError
from benchmarks.malformed import archives


def good(train=60, test=20, **changes):
    random = np.random.RandomState(0)
    arrays = {
        "x_train": random.randint(0, 256, [train, 6, 5, 3]).astype(np.uint8),
        "y_train": np.arange(train) % 3,
        "x_test": random.randint(0, 256, [test, 6, 5, 3]).astype(np.uint8),
        "y_test": np.arange(test) % 3,
    }
    return {key: value for key, value in {**arrays, **changes}.items() if value is not None}


def save(tmp_path, arrays, function=np.savez):
    path = tmp_path / "data.npz"
    function(path, **arrays)
    return f"npz:{path}"


def rows(images):
    return {image.tobytes() for image in images}


def test_validation_is_held_out_of_train_and_nothing_is_lost(tmp_path):
    arrays = good()
    splits = data.load(save(tmp_path, arrays))
    assert (len(splits.train), len(splits.validation), len(splits.test)) == (54, 6, 20)
    train, validation = rows(splits.train.images), rows(splits.validation.images)
    assert not train & validation
    assert train | validation == rows(arrays["x_train"])
    labels = {
        image.tobytes(): label for image, label in zip(arrays["x_train"], arrays["y_train"], strict=True)
    }
    for part in (splits.train, splits.validation):
        assert [labels[image.tobytes()] for image in part.images] == part.labels.tolist()
    np.testing.assert_array_equal(splits.test.images, arrays["x_test"])
    assert splits.num_classes == 3 and splits.class_names is None and splits.image_shape == (6, 5, 3)


def test_the_held_out_images_are_always_the_same(tmp_path):
    name = save(tmp_path, good())
    first, second = data.load(name), data.load(name)
    np.testing.assert_array_equal(first.validation.images, second.validation.images)
    np.testing.assert_array_equal(first.train.images, second.train.images)


@pytest.mark.parametrize("asked, received", [(None, 1000), (7, 7), (10_999, 10_999)])
def test_size_of_the_validation_set(tmp_path, asked, received):
    images = np.zeros([11_000, 1, 1, 1], np.uint8)
    name = save(
        tmp_path,
        good(x_train=images, y_train=np.arange(11_000) % 3, x_test=images, y_test=np.arange(11_000) % 3),
    )
    splits = data.load(name, validation_size=asked)
    assert len(splits.validation) == received and len(splits.train) == 11_000 - received


def test_a_small_set_still_has_a_validation_image(tmp_path):
    assert len(data.load(save(tmp_path, good(train=6))).validation) == 1


def test_validation_size_zero_holds_nothing_out(tmp_path):
    splits = data.load(save(tmp_path, good()), validation_size=0)
    assert splits.validation is None and len(splits.train) == 60


def test_own_validation_images_are_used(tmp_path):
    own = np.full([4, 6, 5, 3], 9, np.uint8)
    name = save(tmp_path, good(x_validation=own, y_validation=np.array([0, 1, 2, 0])), np.savez_compressed)
    splits = data.load(name)
    np.testing.assert_array_equal(splits.validation.images, own)
    assert len(splits.train) == 60


def test_gray_images_get_a_channel_and_columns_of_labels_are_flattened(tmp_path):
    arrays = good(
        x_train=np.linspace(0, 1, 60 * 20).reshape(60, 5, 4),
        y_train=np.arange(60).reshape(60, 1) % 3,
        x_test=np.zeros([20, 5, 4]),
    )
    splits = data.load(save(tmp_path, arrays))
    assert splits.image_shape == (5, 4, 1)
    assert splits.train.images.dtype == np.float32 and splits.train.labels.shape == (54,)


def test_test_images_are_enough_and_classes_may_have_names(tmp_path):
    alone = good(x_train=None, y_train=None, y_test=np.arange(20) % 4 + 1)
    splits = data.load(save(tmp_path, alone))
    assert splits.train is None and splits.validation is None and len(splits.test) == 20
    assert splits.num_classes == 5 and splits.class_names is None
    named = {**alone, "class_names": np.array(list("abcdefg"))}
    splits = data.load(save(tmp_path, named))
    assert splits.num_classes == 7 and splits.class_names == tuple("abcdefg")
    with pytest.raises(InputError, match=r"3 `class_names`|Labels must be integers in 0..2 with 3 classes"):
        data.load(save(tmp_path, {**alone, "class_names": np.array(list("abc"))}))
    with pytest.raises(InputError, match="has 2 `class_names` for 3 classes. Save one name per class"):
        data.load(save(tmp_path, good(class_names=np.array(["a", "b"]))))


IMAGES = np.zeros([60, 6, 5, 3], np.uint8)


@pytest.mark.parametrize(
    "changes, message",
    [
        (
            {"y_test": None},
            r"lacks \['y_test'\]. Expected the keys .* Received: \['x_test', 'x_train', 'y_train'\]",
        ),
        ({"x_validation": IMAGES}, r"lacks \['y_validation'\]"),
        ({"x_train": IMAGES[0, 0]}, r"Invalid shape of `x_train`. Expected \[N, H, W\] or .* shape=\(5, 3\)"),
        ({"y_train": np.eye(60, 3, dtype=int)}, r"`y_train`. .*shape=\(60, 3\). For one-hot labels, save"),
        ({"y_train": np.arange(59) % 3}, r"differ in number. Expected 60 labels. Received: 59 in `y_train`"),
        (
            {"y_train": (np.arange(60) % 3).astype("timedelta64[s]")},
            r"Labels must be integers. Received: dtype=timedelta64\[s\] in `y_train`",
        ),
        ({"x_train": IMAGES.astype(int)}, r"Invalid dtype of `x_train`. Expected uint8"),
        (
            {"x_train": IMAGES - 2.12},
            r"Images must lie in \[0, 1\]. Received: min=-2.12, max=-2.12 in `x_train`. Put the",
        ),
        ({"x_train": IMAGES + np.nan}, r"Images must lie in \[0, 1\]. Received: min=nan"),
        ({"y_train": np.arange(60) % 3 - 1}, r"Labels must not be negative. Received: -1 in `y_train`"),
        (
            {"y_train": np.arange(60) % 3 * 1.0},
            r"Labels must be integers. Received: dtype=float64 in `y_train`",
        ),
        (
            {"y_test": np.arange(20) % 4},
            r"must be integers in 0..2 with 3 classes. Received: min=0, max=3 in `y_test`",
        ),
        (
            {"y_train": np.arange(60) % 3 + 1},
            r"0..L-1 without a gap. Received: 0..3 without \[0\] in `y_train`",
        ),
        ({"y_train": np.zeros(60, int)}, r"needs at least 2 classes"),
        ({"y_train": np.array([None] * 60)}, r"`y_train` of .* cannot be read: it contains Python objects"),
        (
            {"x_test": np.zeros([20, 5, 5, 3], np.uint8)},
            r"the same shape. Expected \(5, 5, 3\).*Received: \(6, 5, 3\) in `x_train`",
        ),
        ({"x_test": IMAGES[:0], "y_test": np.zeros(0, int)}, r"The set `x_test` is empty"),
    ],
)
def test_a_wrong_file_is_explained(tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        data.load(save(tmp_path, good(**changes)))


@pytest.mark.parametrize("shape", [(20, 3, 32, 32), (20, 1, 28, 28), (20, 1, 8, 8)])
def test_channels_first_are_refused_with_the_transpose(tmp_path, shape):
    arrays = {"x_train": np.full(shape, 7, "uint8"), "x_test": np.full(shape, 7, "uint8")}
    with pytest.raises(InputError, match=r"channels first.*transpose\(0, 2, 3, 1\)"):
        data.load(save(tmp_path, good(20, 20, **arrays)))


def test_floats_that_were_cast_to_uint8_are_refused(tmp_path):
    images = np.random.RandomState(0).uniform(0, 2, [60, 6, 5, 3]).astype("uint8")
    with pytest.raises(InputError, match="nothing but 0 and 1.*save the floats"):
        data.load(save(tmp_path, good(x_train=images)))


@pytest.mark.parametrize("label", [10**10, 10**14, 2**63 - 1])
def test_a_huge_label_takes_no_memory(tmp_path, label):
    labels = np.arange(60) % 3
    labels[7] = label
    with pytest.raises(InputError, match=rf"Received: 0..{label} without \[3, 4, 5"):
        data.load(save(tmp_path, good(y_train=labels)))


def test_missing_file():
    with pytest.raises(InputError, match=r"No such data file. Expected a NumPy archive .* '/nowhere/a.npz'"):
        names.check_name("npz:/nowhere/a.npz")


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(InputError, match="No such data file"):
        names.check_name(f"npz:{tmp_path}")


@pytest.mark.parametrize("content", [b"", b"not an archive", "truncated", "npy"])
def test_files_that_are_no_archive(tmp_path, content):
    path = tmp_path / "data.npz"
    if content == "truncated":
        save(tmp_path, good())
        content = path.read_bytes()[:-500]
    if content == "npy":
        with open(path, "wb") as file:
            np.save(file, np.zeros(3))
    else:
        path.write_bytes(content)
    with pytest.raises(InputError, match="is not a NumPy archive, or it is truncated"):
        names.check_name(f"npz:{path}")


def test_a_damaged_archive_is_explained(tmp_path):
    name = save(tmp_path, good())
    path = tmp_path / "data.npz"
    content = bytearray(path.read_bytes())
    # In the middle of the first array: only its checksum can tell.
    content[500] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(InputError, match="is not a NumPy archive, or it is truncated"):
        data.load(name)


@pytest.mark.parametrize("size", [60, 61])
def test_validation_must_leave_something_to_train_on(tmp_path, size):
    with pytest.raises(InputError, match=rf"less than the 60 training images .* validation_size={size}"):
        data.load(save(tmp_path, good()), validation_size=size)


def test_every_malformed_archive_is_refused_with_its_name(tmp_path):
    path = tmp_path / "data.npz"
    written = [
        (name, lambda changes=changes: save(tmp_path, good_arrays_but(changes)))
        for name, changes in archives.malformed_arrays()
    ]
    # Four gigabytes of zeros take seconds to compress; the next test has fewer.
    written += [(name, write) for name, write in archives.damaged(path) if name != "bomb"]
    for name, write in written:
        write()
        with pytest.raises(InputError) as caught:
            data.load(f"npz:{path}")
        assert "data.npz" in str(caught.value) or "`" in str(caught.value), name


def good_arrays_but(changes):
    return {key: value for key, value in {**archives.good_arrays(), **changes}.items() if value is not None}


def test_an_archive_that_would_fill_the_memory_is_not_read(tmp_path, monkeypatch):
    name = save(tmp_path, good(x_train=np.zeros([60, 64, 64, 3], "uint8")), np.savez_compressed)
    monkeypatch.setattr("athe_tf.data.npz.BELIEVED_BYTES", 1000)
    with pytest.raises(InputError, match="grows from .* to 737,280 bytes"):
        data.load(name)
    monkeypatch.setattr("athe_tf.data.npz.available_memory", lambda: 700_000)
    with pytest.raises(InputError, match="`x_train` of .* does not fit in memory"):
        data.load(name)
