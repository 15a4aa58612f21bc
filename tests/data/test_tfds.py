"""TensorFlow Datasets by name: in memory and streamed, from files that these tests write, and mocked."""

import io
import json
import shutil
import socket

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from tensorflow.python.eager import context

from athe_tf import data
from athe_tf.data import tfds as tfds_loader
from athe_tf.utils.errors import InputError
from athe_tf.utils.graph_checks import readable_errors
from benchmarks.malformed.tfds_sets import DAMAGE, write_set


def numbered(count, first=0):
    """Images that show their own number in the first pixel, the rest random."""
    images = np.random.RandomState(first).randint(0, 256, [count, 8, 8, 3]).astype(np.uint8)
    images[:, 0, 0, 0] = np.arange(first, first + count)
    return images, [int(i % 3) for i in range(first, first + count)]


def numbers(batches):
    return np.concatenate([np.round(x.numpy()[:, 0, 0, 0] * 255) for x, _ in batches]).astype(int)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("tfds")
    write_set(root, "three_insects", {"train": numbered(100), "test": numbered(30, first=200)})
    return root


@pytest.fixture
def streamed(root, monkeypatch):
    monkeypatch.setattr(tfds_loader, "IN_MEMORY_BYTES", 0)
    splits = data.load("three_insects", data_dir=root, validation_size=10)
    # Small enough that an epoch needs several windows and several rounds of readers.
    splits.train.window, splits.train.readers = 32, 2
    return splits


def test_a_prepared_set_is_loaded_into_memory(root):
    splits = data.load("three_insects", data_dir=root)
    assert isinstance(splits.train, data.ImageSet)
    assert (len(splits.train), len(splits.validation), len(splits.test)) == (90, 10, 30)
    assert splits.class_names == ("ant", "bee", "cow") and splits.num_classes == 3
    images, labels = numbered(30, first=200)
    np.testing.assert_array_equal(splits.test.images, images)
    assert splits.test.labels.tolist() == labels
    held = {*splits.validation.images[:, 0, 0, 0]}
    assert not held & {*splits.train.images[:, 0, 0, 0]} and len(held) == 10


def test_versions_are_part_of_the_name(root):
    assert len(data.load("three_insects:1.0.0", data_dir=root).test) == 30


@pytest.fixture(scope="module")
def memory(root):
    return data.load("three_insects", data_dir=root)


def test_streamed_and_in_memory_sets_hold_the_same_images(memory, streamed):
    assert isinstance(streamed.test, data.StreamedSet) and len(streamed.test) == 30
    batches = list(streamed.test.batches(16))
    assert [len(y) for _, y in batches] == [16, 14]
    expected_images, expected_labels = memory.test.arrays()
    np.testing.assert_array_equal(np.concatenate([x for x, _ in batches]), expected_images)
    np.testing.assert_array_equal(np.concatenate([y for _, y in batches]), expected_labels)
    images, labels = streamed.test.arrays(max_examples=7)
    np.testing.assert_array_equal(images, expected_images[:7])
    assert labels.dtype == np.int64 and labels.tolist() == expected_labels[:7].tolist()
    np.testing.assert_allclose(streamed.mean, memory.mean, atol=0.02)


def test_streamed_validation_is_disjoint_from_train(streamed):
    train, validation = numbers(streamed.train.batches(32)), numbers(streamed.validation.batches(32))
    assert (len(train), len(validation)) == (90, 10)
    assert sorted([*train, *validation]) == list(range(100))


def test_streamed_epoch_is_a_permutation_that_depends_on_seed_and_epoch(streamed):
    orders = [
        tuple(numbers(streamed.train.stream(15, seed=seed, start_step=6 * epoch, epochs=epoch + 1)))
        for seed in (0, 1)
        for epoch in (0, 1)
    ]
    assert all(sorted(order) == sorted(orders[0]) and len(set(order)) == 90 for order in orders)
    assert len(set(orders)) == 4


def test_streamed_set_started_anywhere_equals_the_uninterrupted_one(streamed, monkeypatch):
    options = {"batch_size": 16, "seed": 2, "augmentation": "pad_crop_flip", "epochs": 3}
    whole = list(streamed.train.stream(**options))
    assert len(whole) == 15
    monkeypatch.setattr(context.context(), "_seed", 99)
    # 5 steps an epoch: inside the first, at its border, inside the second.
    for start_step in (3, 5, 7):
        rest = list(streamed.train.stream(**options, start_step=start_step))
        for (x, y), (expected_x, expected_y) in zip(rest, whole[start_step:], strict=True):
            np.testing.assert_array_equal(x, expected_x)
            np.testing.assert_array_equal(y, expected_y)


def test_the_fingerprint_of_a_streamed_set_has_names_sizes_and_record_counts(root, streamed, tmp_path):
    own = streamed.test.fingerprint()
    assert own.startswith("30 images in 4 files, digest ") and own != streamed.train.fingerprint()
    shutil.copytree(root, tmp_path / "copy")
    name = "three_insects-test.tfrecord-00001-of-00004"
    with open(tmp_path / "copy" / "three_insects" / "1.0.0" / name, "ab") as file:
        file.write(b"more")
    moved = data.load("three_insects", data_dir=tmp_path / "copy", validation_size=10)
    assert moved.train.fingerprint() == streamed.train.fingerprint()
    assert moved.test.fingerprint() != own


def test_streamed_batches_are_static_and_arrays_need_memory(streamed, monkeypatch):
    images, labels = streamed.train.stream(16, seed=0).element_spec
    assert images.shape == (16, 8, 8, 3) and images.dtype == tf.float32
    assert labels.shape == (16,) and labels.dtype == tf.int32
    assert len(streamed.train.arrays()[0]) == 90
    monkeypatch.setattr("athe_tf.data.encoded.available_memory", lambda: 89 * 8 * 8 * 3)
    with pytest.raises(InputError, match=r"do not fit in memory: .*Give `max_examples`"):
        streamed.train.arrays()


def test_images_of_several_sizes_need_an_image_size(tmp_path, monkeypatch):
    images = [np.full([8 + i, 12, 3], 10 * i, np.uint8) for i in range(12)]
    image = tfds.features.Image(shape=(None, None, 3), encoding_format="png")
    write_set(tmp_path, "ragged", {"train": (images, [0, 1, 2] * 4), "test": (images, [0, 1, 2] * 4)}, image)
    with pytest.raises(InputError, match=r"The images of 'ragged' differ in size. Expected `image_size`"):
        data.load("ragged", data_dir=tmp_path)
    memory = data.load("ragged", data_dir=tmp_path, image_size=6)
    assert memory.image_shape == (6, 6, 3)
    np.testing.assert_array_equal(memory.test.images[:, 0, 0, 0], 10 * np.arange(12))
    monkeypatch.setattr(tfds_loader, "IN_MEMORY_BYTES", 0)
    streamed = data.load("ragged", data_dir=tmp_path, image_size=6)
    np.testing.assert_array_equal(streamed.test.arrays(12)[0], memory.test.arrays()[0])


def test_validation_serves_as_test_where_test_has_no_labels(tmp_path):
    images, labels = numbered(12)
    write_set(
        tmp_path,
        "like_imagenet",
        {"train": numbered(40), "validation": (images, labels), "test": (images[:8], [-1] * 8)},
        label=tfds.features.ClassLabel(num_classes=3),
    )
    splits = data.load("like_imagenet", data_dir=tmp_path)
    assert (len(splits.train), len(splits.validation), len(splits.test)) == (36, 4, 12)


def test_a_set_with_its_own_validation_split_keeps_it(tmp_path):
    write_set(tmp_path, "complete", {"train": numbered(40), "validation": numbered(9), "test": numbered(12)})
    splits = data.load("complete", data_dir=tmp_path)
    assert (len(splits.train), len(splits.validation), len(splits.test)) == (40, 9, 12)


def test_a_set_without_training_images_can_be_tested_on(tmp_path):
    write_set(tmp_path, "only_test", {"test": numbered(12)})
    splits = data.load("only_test", data_dir=tmp_path)
    assert splits.train is None and splits.validation is None and len(splits.test) == 12


def test_a_set_without_test_images_is_refused(tmp_path):
    write_set(tmp_path, "only_train", {"train": numbered(12)})
    with pytest.raises(InputError, match=r"has no test images. .* Received: \['train'\]"):
        data.load("only_train", data_dir=tmp_path)


def test_labels_out_of_range_are_refused(tmp_path, monkeypatch):
    images, _ = numbered(12)
    label = tfds.features.ClassLabel(num_classes=3)
    write_set(tmp_path, "bad_labels", {"test": (images, [0] * 11 + [-1])}, label=label)
    with pytest.raises(InputError, match=r"Labels must not be negative. Received: -1 in `y_test`"):
        data.load("bad_labels", data_dir=tmp_path)
    monkeypatch.setattr(tfds_loader, "IN_MEMORY_BYTES", 0)
    with pytest.raises(InputError, match=r"Labels must not be negative. Received: -1"):
        data.load("bad_labels", data_dir=tmp_path)


def test_labels_out_of_range_stop_a_streamed_set(tmp_path, monkeypatch):
    images, _ = numbered(12)
    label = tfds.features.ClassLabel(num_classes=3)
    write_set(tmp_path, "bad_stream", {"test": (images, [0] * 11 + [-1])}, label=label)
    monkeypatch.setattr(tfds_loader, "IN_MEMORY_BYTES", 0)
    # With known statistics, loading reads no image.
    monkeypatch.setitem(tfds_loader.STATISTICS, "bad_stream", ((0.5,) * 3, (0.2,) * 3))
    test = data.load("bad_stream", data_dir=tmp_path).test
    for dataset in (test.batches(4), test.stream(4, seed=0, epochs=1)):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"integers in 0..2"):
            list(dataset)


FEATURE = '"tensorflow_datasets.core.features.class_label_feature.ClassLabel"'


@pytest.mark.parametrize("where", ["pythonClassName", "text"])
def test_a_module_that_features_json_names_is_not_imported(tmp_path, monkeypatch, where):
    write_set(tmp_path, "strange", {"test": numbered(6)})
    (tmp_path / "harmful.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w')")
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "strange" / "1.0.0" / "features.json"
    if where == "text":
        # Content that TFDS parses as JSON once more.
        harm = json.dumps(
            {"pythonClassName": FEATURE[1:-1], "jsonFeature": {"json": '{"type": "harmful.Label"}'}}
        )
        content = file.read_text().replace('"label": {', f'"other": {harm}, "label": {{')
    else:
        content = file.read_text().replace(FEATURE, '"harmful.Label"')
    assert content != file.read_text()
    file.write_text(content)
    with pytest.raises(InputError, match=r"not a feature of TensorFlow Datasets.*harmful.Label"):
        data.load("strange", data_dir=tmp_path)
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("limit", [0, 2**30])
def test_damaged_files_are_refused_when_they_are_read(tmp_path, monkeypatch, damage, limit):
    monkeypatch.setattr(tfds_loader, "IN_MEMORY_BYTES", limit)
    write_set(tmp_path, "damaged", {"train": numbered(12), "test": numbered(12)})
    pattern, spoil = DAMAGE[damage]
    (file,) = (tmp_path / "damaged" / "1.0.0").glob(pattern)
    spoil(file)
    with pytest.raises(InputError, match="again|cannot make"), readable_errors():
        splits = data.load("damaged", data_dir=tmp_path, validation_size=2)
        list(splits.test.batches(4))


@pytest.fixture
def network(monkeypatch):
    """A network that answers every connection, without being there."""
    monkeypatch.setattr(socket, "create_connection", lambda *args, **kwargs: io.BytesIO())


def test_a_host_that_does_not_answer_is_named_before_tfds_goes_on_trying(tmp_path, monkeypatch):
    def unreachable(address, timeout):
        raise OSError(f"{address[0]} does not answer")

    def never(self):
        raise AssertionError("TFDS was asked to download")

    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(socket, "create_connection", unreachable)
    monkeypatch.setattr(tfds.core.DatasetBuilder, "download_and_prepare", never)
    with pytest.raises(InputError, match=r"could not be downloaded \(OSError: .* does not answer\)"):
        data.load("cifar10", data_dir=tmp_path)


def test_a_split_may_be_named_and_is_what_is_tested(root):
    splits = data.load("three_insects:train[:5]", data_dir=root)
    assert splits.train is None and splits.validation is None and splits.num_classes == 3
    images, labels = numbered(5)
    np.testing.assert_array_equal(splits.test.images, images)
    np.testing.assert_array_equal(splits.test.labels, labels)
    with pytest.raises(InputError, match=r"has no split 'tset'. Expected one of \['train', 'test'\]"):
        data.load("three_insects:tset", data_dir=root)


def test_mocked_sets_load_with_the_constants_of_the_literature(tmp_path, network):
    with tfds.testing.mock_data(num_examples=40):
        splits = data.load("cifar10", data_dir=tmp_path)
    assert splits.image_shape == (32, 32, 3) and splits.num_classes == 10
    assert splits.mean == (0.4914, 0.4822, 0.4465) and splits.std == (0.2471, 0.2435, 0.2616)
    assert (len(splits.train), len(splits.validation), len(splits.test)) == (36, 4, 40)


def test_a_set_that_has_to_be_downloaded_by_hand_says_which_files_go_where(tmp_path, monkeypatch, network):
    def fail(self):
        raise AssertionError("no manual files")

    monkeypatch.setattr(tfds.core.DatasetBuilder, "download_and_prepare", fail)
    with pytest.raises(
        InputError,
        match=rf"'imagenet2012' is not in .*by hand. Expected them in {tmp_path}/downloads/manual: .*"
        "ILSVRC2012_img_train.tar.*or use folder:PATH",
    ):
        data.load("imagenet2012", data_dir=tmp_path, image_size=64)


def test_originals_are_cropped_in_a_streamed_set_that_would_fit_in_memory(root):
    """Random crops of the eight pixels of the file, and not of the four that `image_size` leaves."""
    train = data.load("three_insects", data_dir=root, image_size=4, streamed=True, validation_size=0).train
    assert isinstance(train, data.StreamedSet)
    settings = {"seed": 1, "augmentation": "random_resized_crop", "epochs": 1}
    whole = np.concatenate([x for x, _ in train.stream(20, **settings)])
    late = np.concatenate([x for x, _ in train.stream(20, start_step=3, **settings)])
    assert whole.shape == (100, 4, 4, 3)
    np.testing.assert_array_equal(whole[60:], late)
    # Averages of random pixels vary less the more of them there are: 8% of an image is a handful.
    central = np.concatenate([x for x, _ in train.batches(50)])
    assert whole.std() > 1.3 * central.std()


def test_a_set_that_is_not_there_says_what_to_do(tmp_path, monkeypatch, network):
    def fail(self):
        raise ConnectionError("no network")

    monkeypatch.setattr(tfds.core.DatasetBuilder, "download_and_prepare", fail)
    with pytest.raises(
        InputError,
        match=r"'mnist' is not in .*could not be downloaded \(ConnectionError: no network\). "
        r"Give a prepared copy as `data_dir`, or use npz:PATH",
    ):
        data.load("mnist", data_dir=tmp_path)


@pytest.mark.parametrize(
    "name, message",
    [
        ("ciphar_10", r"Unknown data set 'ciphar_10'. Did you mean 'cifar10'\?"),
        ("plant_vilage", r"Did you mean 'plant_village'\?"),
        ("cifar10:9.9.9", r"cannot make 'cifar10:9.9.9'. .* cannot be loaded at version 9.9.9"),
        ("cifar10/foo", r"cannot make 'cifar10/foo'. .*BuilderConfig foo not found"),
        ("imdb_reviews", r"'imdb_reviews' is not an image classification set. Expected an image"),
    ],
)
def test_names_that_tfds_does_not_know(tmp_path, name, message):
    with pytest.raises(InputError, match=message):
        data.load(name, data_dir=tmp_path)


def test_the_first_streamed_images_are_held_out(streamed):
    """Those of the first version; the others are trained on, in their order."""
    validation, train = numbers(streamed.validation.batches(32)), numbers(streamed.train.batches(32))
    assert [*validation, *train] == list(range(100))
