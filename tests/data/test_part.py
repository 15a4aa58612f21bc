"""A part of a data set, to try a recipe on."""

import numpy as np
import pytest
import tensorflow as tf

from athe_tf.data import AUGMENTATIONS, Files, ImageSet, MappedSet, MixedSet, StreamedSet


def streamed(folder):
    """Six images in two files; all pixels of an image, and its label, are its number."""
    for name, numbers in (("a", range(3)), ("b", range(3, 6))):
        with tf.io.TFRecordWriter(str(folder / name)) as file:
            for number in numbers:
                file.write(tf.io.encode_png(np.full([2, 2, 1], number, "uint8")).numpy())
    files = Files([str(folder / "a"), str(folder / "b")], skip=[0, 0], take=[3, 3])

    def decode(png):
        return tf.io.decode_png(png, channels=1)

    return StreamedSet(
        files, lambda png: (png, tf.cast(decode(png)[0, 0, 0], tf.int32)), decode, (2, 2, 1), 6
    )


def test_a_part_of_images_on_disk_is_the_first_of_them(tmp_path):
    whole = streamed(tmp_path)
    for count, files in ((4, 2), (3, 1), (2, 1)):
        part = whole.part(count)
        assert len(part) == count and f"{count} images in {files} files" in part.fingerprint()
        assert part.arrays(10)[1].tolist() == list(range(count))
        labels = np.concatenate([y.numpy() for _, y in part.stream(count, seed=0, epochs=1)])
        assert sorted(labels) == list(range(count))
    assert len(whole) == 6 and whole.arrays(10)[1].tolist() == list(range(6))


def test_a_part_of_images_in_memory_is_a_random_one():
    images = np.arange(100, dtype="uint8")[:, None, None, None]
    part = ImageSet(images, np.arange(100)).part(20)
    assert len(part) == 20 and part.labels.max() > 50
    np.testing.assert_array_equal(part.images[:, 0, 0, 0], part.labels)
    assert ImageSet(images, np.arange(100)).part(20).fingerprint() == part.fingerprint()


class Counted:
    """An augmentation that remembers how many images it gets at a time."""

    def __init__(self):
        self.sizes = set()

    def __call__(self, images, key, ids):
        def remember(ids):
            self.sizes.add(len(ids))
            return np.int32(0)

        with tf.control_dependencies([tf.numpy_function(remember, [ids], tf.int32)]):
            return tf.identity(images)


def four_workers(source):
    """For each of four workers, and for one alone: labels, and how many images are augmented at a time."""
    found = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(AUGMENTATIONS, "get", lambda name: name)
        for part in (*((i, 4) for i in range(4)), (0, 1)):
            seen = Counted()
            batches = source.stream(8, seed=1, epochs=1, augmentation=seen, part=part)
            labels = np.concatenate([labels.numpy() for _, labels in batches])
            found.append((labels.tolist(), seen.sizes))
    return found[:4], found[4]


def test_four_workers_read_and_augment_a_quarter_of_tfrecords_each(tmp_path, monkeypatch):
    for name in range(16):
        with tf.io.TFRecordWriter(str(tmp_path / str(name))) as file:
            for number in range(3 * name, 3 * name + 3):
                file.write(bytes([number] * 100))
    files = Files([str(tmp_path / str(name)) for name in range(16)], [0] * 16, [3] * 16)
    read = []

    def counted(path):
        def remember(record):
            read.append(len(record))
            return record

        records = original(path)
        return records.map(
            lambda record: tf.ensure_shape(tf.numpy_function(remember, [record], tf.string), [])
        )

    original = tf.data.TFRecordDataset
    monkeypatch.setattr(tf.data, "TFRecordDataset", counted)

    def parse(record):
        return record, tf.cast(tf.io.decode_raw(record, tf.uint8)[0], tf.int32)

    def decode(record):
        return tf.reshape(tf.io.decode_raw(record, tf.uint8)[:4], [2, 2, 1])

    source = StreamedSet(files, parse, decode, (2, 2, 1), 48)
    parts, (alone, augmented) = four_workers(source)
    assert augmented == {8} and [sizes for _, sizes in parts] == [{2}] * 4
    assert sum(read) == 100 * (48 + 48)  # each of them once, by all four together and by one alone
    assert sorted(np.concatenate([labels for labels, _ in parts])) == sorted(alone) == list(range(48))
    read.clear()
    one = source.stream(8, seed=1, epochs=1, part=(2, 4))
    assert np.concatenate([y.numpy() for _, y in one]).tolist() == parts[2][0] and sum(read) == 1200
    later = source.stream(8, seed=1, start_step=4, epochs=1, part=(2, 4))
    assert np.concatenate([y.numpy() for _, y in later]).tolist() == parts[2][0][8:]


def test_shares_that_end_inside_of_a_file_are_all_images_too(tmp_path, monkeypatch):
    def shown(images, key, ids):  # what an image is augmented by
        return tf.cast(tf.broadcast_to(tf.reshape(ids, [-1, 1, 1, 1]), tf.shape(images)), tf.uint8)

    monkeypatch.setattr(AUGMENTATIONS, "get", lambda name: shown)
    source = streamed(tmp_path)  # two files of three images, for three workers
    parts = [list(source.stream(6, seed=5, epochs=1, part=(i, 3))) for i in range(3)]
    labels = [np.concatenate([y.numpy() for _, y in part]) for part in parts]
    ids = [np.concatenate([255 * x.numpy()[:, 0, 0, 0] for x, _ in part]) for part in parts]
    assert [len(each) for each in labels] == [2, 2, 2]
    assert sorted(np.concatenate(labels)) == list(range(6))
    np.testing.assert_allclose(ids, labels, atol=1e-4)


def test_four_workers_read_and_augment_a_quarter_of_extra_images_each(monkeypatch):
    def numbered(first):
        numbers = np.arange(first, first + 40, dtype="uint8")
        return numbers[:, None, None, None], numbers.astype(int)

    extra, read = MappedSet(*([each] for each in numbered(100)), num_classes=140), set()
    original = MappedSet.rows
    monkeypatch.setattr(MappedSet, "rows", lambda self, ids: (read.add(len(ids)), original(self, ids))[1])
    parts, (alone, augmented) = four_workers(MixedSet(ImageSet(*numbered(0), 140), extra, 0.5))
    # Of a batch of eight, four images of each set; of a quarter, one.
    assert augmented == {4} and [sizes for _, sizes in parts] == [{1}] * 4 and read == {1, 4}
    whole = np.reshape(alone, [5, 4, 2]).transpose(1, 0, 2).reshape(4, 10)
    assert [labels for labels, _ in parts] == whole.tolist()
