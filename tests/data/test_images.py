"""`ImageSet`: the stream is pure and can start anywhere; batches and arrays are complete and in order."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from athe_tf import data
from athe_tf.utils.errors import InputError


def numbered(count, shape=(4, 4, 1)):
    """Images that show their own index, so that a batch tells where it came from."""
    images = np.zeros([count, *shape], np.uint8)
    images[:] = np.arange(count).reshape(-1, 1, 1, 1)
    return data.ImageSet(images, np.arange(count) % 10)


def indices(batch):
    return np.round(batch[0].numpy()[:, 0, 0, 0] * 255).astype(int)


def collect(dataset, count=None):
    batches = list(dataset if count is None else dataset.take(count))
    return [x.numpy() for x, _ in batches], [y.numpy() for _, y in batches]


def test_an_epoch_shows_every_image_at_most_once_with_its_label():
    source = numbered(50)
    for epoch in range(3):
        batches = list(source.stream(8, seed=5, start_step=6 * epoch, epochs=epoch + 1))
        seen = np.concatenate([indices(batch) for batch in batches])
        assert len(batches) == source.steps_per_epoch(8) == 6
        assert len(set(seen)) == len(seen) == 48
        np.testing.assert_array_equal(seen % 10, np.concatenate([batch[1] for batch in batches]))


def test_order_differs_between_epochs_and_seeds_and_repeats_for_the_same():
    source = numbered(64)
    orders = {}
    for seed in (0, 1):
        seen = [tuple(indices(batch)) for batch in source.stream(64, seed=seed, epochs=2)]
        assert seen == [tuple(indices(batch)) for batch in source.stream(64, seed=seed, epochs=2)]
        orders[seed] = seen
    assert len({*orders[0], *orders[1]}) == 4


def test_order_does_not_depend_on_the_batch_size_nor_on_the_global_seed(monkeypatch):
    source = numbered(64)
    expected = np.concatenate([indices(batch) for batch in source.stream(32, seed=0, epochs=1)])
    monkeypatch.setattr(context.context(), "_seed", 99)
    result = np.concatenate([indices(batch) for batch in source.stream(16, seed=0, epochs=1)])
    np.testing.assert_array_equal(result, expected)


def test_a_stream_started_anywhere_equals_the_uninterrupted_one():
    images = np.random.RandomState(0).randint(0, 256, [50, 8, 8, 3]).astype(np.uint8)
    source = data.ImageSet(images, np.arange(50))
    options = {"batch_size": 8, "seed": 3, "augmentation": "pad_crop_flip"}
    whole = collect(source.stream(**options), 20)
    # 6 steps an epoch: inside the first, at a border, just after it, inside the third.
    for start_step in (1, 6, 7, 17):
        rest = collect(source.stream(**options, start_step=start_step), 20 - start_step)
        for expected, received in zip(whole, rest, strict=True):
            np.testing.assert_array_equal(received, expected[start_step:])


def test_a_stream_started_late_does_not_make_the_skipped_images():
    source = numbered(50)
    read = []
    original = source._read

    def counted(payload):
        return original(tf.py_function(lambda ids: read.append(len(ids)) or ids, [payload], payload.dtype))

    source._read = counted
    next(iter(source.stream(5, seed=0, start_step=10**9 + 3, epochs=10**8 + 1)))
    assert sum(read) <= 50


def test_augmentation_differs_between_epochs():
    images = np.random.RandomState(0).randint(0, 256, [16, 8, 8, 1]).astype(np.uint8)
    source = data.ImageSet(images, np.arange(16))
    (first, second), (first_ids, second_ids) = collect(source.stream(16, seed=0, augmentation="pad_crop"), 2)
    assert np.any(first[np.argsort(first_ids)] != second[np.argsort(second_ids)])


def test_stream_has_full_static_batches_in_the_unit_interval():
    dataset = numbered(50).stream(8, seed=0, epochs=2)
    images, labels = dataset.element_spec
    assert images.shape == (8, 4, 4, 1) and images.dtype == tf.float32
    assert labels.shape == (8,) and labels.dtype == tf.int32
    assert int(dataset.cardinality()) == 12
    assert int(numbered(50).stream(8, seed=0).cardinality()) == tf.data.INFINITE_CARDINALITY


def test_stream_that_starts_after_its_end_is_empty():
    assert collect(numbered(50).stream(8, seed=0, start_step=13, epochs=2)) == ([], [])
    assert len(collect(numbered(50).stream(8, seed=0, start_step=11, epochs=2))[0]) == 1


def test_batches_are_in_order_and_keep_the_remainder():
    source = numbered(50)
    images, labels = collect(source.batches(16))
    assert [len(batch) for batch in labels] == [16, 16, 16, 2]
    expected_images, expected_labels = source.arrays()
    np.testing.assert_array_equal(np.concatenate(images), expected_images)
    np.testing.assert_array_equal(np.concatenate(labels), expected_labels)
    assert labels[0].dtype == np.int32 and images[0].dtype == np.float32


def test_arrays_are_float32_and_int64_and_may_be_limited():
    images, labels = numbered(50).arrays(max_examples=7)
    assert images.dtype == np.float32 and labels.dtype == np.int64
    np.testing.assert_array_equal(images[:, 0, 0, 0], np.arange(7, dtype=np.float32) / np.float32(255))


def test_float_images_are_kept_as_they_are():
    images = np.random.RandomState(0).uniform(size=[10, 4, 4, 1])
    source = data.ImageSet(images, np.arange(10))
    np.testing.assert_array_equal(source.arrays()[0], images.astype(np.float32))
    np.testing.assert_array_equal(next(iter(source.batches(10)))[0], images.astype(np.float32))


def test_all_streams_share_one_copy_of_the_images():
    source = numbered(50)
    source.stream(8, seed=0)
    first = source._tensors[0]
    source.batches(8)
    assert source._tensors[0] is first
    assert np.shares_memory(source.images, np.asarray(memoryview(first)))


@pytest.mark.parametrize(
    "images, labels, message",
    [
        (
            np.zeros([4, 8, 8], np.uint8),
            np.zeros(4, int),
            r"Expected \[N, H, W, C\]. Received: shape=\(4, 8, 8\)",
        ),
        (np.zeros([0, 8, 8, 1], np.uint8), np.zeros(0, int), r"`images` is empty"),
        (
            np.zeros([4, 8, 8, 1], int),
            np.zeros(4, int),
            r"Expected uint8, or floats .* Received: dtype=int64",
        ),
        (
            np.full([4, 8, 8, 1], -2.64),
            np.zeros(4, int),
            r"min=-2.64, max=-2.64.*normalization inside the model",
        ),
        (np.full([4, 8, 8, 1], np.nan), np.zeros(4, int), r"must lie in \[0, 1\]. Received: min=nan"),
        (np.zeros([4, 8, 8, 1]), np.zeros(3, int), r"Expected 4 labels. Received: 3"),
        (np.zeros([4, 8, 8, 1]), np.zeros(4), r"Labels must be integers. Received: dtype=float64"),
        (np.zeros([4, 8, 8, 1]), np.zeros([4, 2], int), r"Expected \[N\]. Received: shape=\(4, 2\)"),
        (np.zeros([4, 8, 8, 1]), np.array([0, 1, -1, 0]), r"must not be negative. Received: -1"),
    ],
)
def test_images_and_labels_are_checked_at_the_door(images, labels, message):
    with pytest.raises(InputError, match=message):
        data.ImageSet(images, labels)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"batch_size": 51}, r"Expected at most 50, .* Received: batch_size=51"),
        ({"batch_size": 0}, r"at least 1. Received: batch_size=0"),
        ({"batch_size": 8, "start_step": -1}, r"Received: start_step=-1"),
        ({"batch_size": 8, "epochs": 0}, r"Received: epochs=0"),
        (
            {"batch_size": 8, "augmentation": "crop"},
            r"Unknown augmentation 'crop'. Did you mean 'pad_crop'\?",
        ),
    ],
)
def test_arguments_of_a_stream_are_checked(arguments, message):
    with pytest.raises(InputError, match=message):
        numbered(50).stream(**{"seed": 0, **arguments})


def test_the_fingerprint_sees_images_and_labels():
    images, labels = np.arange(12, dtype=np.uint8).reshape(3, 2, 2, 1), np.arange(3)
    prints = {
        data.ImageSet(images, labels).fingerprint(),
        data.ImageSet(images, labels[::-1]).fingerprint(),
        data.ImageSet(images[::-1], labels).fingerprint(),
        data.ImageSet(images[:2], labels[:2]).fingerprint(),
    }
    assert len(prints) == 4 and data.ImageSet(images.copy(), labels.copy()).fingerprint() in prints
