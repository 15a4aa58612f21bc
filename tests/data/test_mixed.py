"""Extra training images at a fixed fraction of every batch."""

import keras
import numpy as np
import pytest

from athe_tf import data
from athe_tf.data.mixed import MixedSet, interleaved, predictions
from athe_tf.programs import build
from athe_tf.programs.config import TrainConfig
from athe_tf.utils.errors import InputError

OWN, EXTRA = 20, 13


def labeled(count, first):
    """Images whose every pixel, times 255, is their label."""
    labels = np.arange(first, first + count)
    return data.ImageSet(
        np.broadcast_to(labels[:, None, None, None], (count, 4, 4, 1)).astype("uint8"), labels
    )


@pytest.fixture(scope="module")
def mixed():
    return MixedSet(labeled(OWN, 0), labeled(EXTRA, 100), fraction=0.4)


def test_every_batch_has_the_same_share_of_extra_images_with_their_labels(mixed):
    batches = list(mixed.stream(10, seed=0, epochs=3))
    assert len(batches) == 3 * mixed.steps_per_epoch(10) == 6
    for images, labels in batches:
        np.testing.assert_allclose(np.array(images)[:, 0, 0, 0] * 255, labels, atol=1e-4)
        assert (np.array(labels) >= 100).sum() == 4


def test_every_image_of_a_set_comes_once_before_any_comes_again(mixed):
    labels = np.concatenate([labels for _, labels in mixed.stream(10, seed=0, epochs=5)])
    own, extra = labels[labels < 100], labels[labels >= 100]
    # Batches of 6 and 4 fill 3 of 20 and 3 of 13 images' worth; the rest of a pass is left out.
    for values, size in ((own, 18), (extra, 12)):
        for start in range(0, len(values) - size + 1, size):
            part = values[start : start + size]
            assert len(set(part)) == size
    assert len(set(own)) > 18 and len(set(extra)) > 12  # another order in each pass


def test_a_stream_can_start_anywhere_and_in_parts(mixed):
    options = {"seed": 3, "augmentation": "pad_crop", "epochs": 4}
    everything = list(mixed.stream(10, **options))
    for (x, y), (x2, y2) in zip(everything[5:], mixed.stream(10, start_step=5, **options), strict=True):
        np.testing.assert_array_equal(x, x2)
        np.testing.assert_array_equal(y, y2)
    halves = [list(mixed.stream(10, part=(i, 2), **options)) for i in (0, 1)]
    for (_, whole), (_, first), (_, second) in zip(everything, *halves, strict=True):
        np.testing.assert_array_equal(whole, np.concatenate([first, second]))
        assert [(np.array(half) >= 100).sum() for half in (first, second)] == [2, 2]


def test_two_kinds_are_spread_evenly():
    assert interleaved(3, 3) == [0, 3, 1, 4, 2, 5]
    row = np.array(interleaved(96, 32)) >= 96
    assert [row[i : i + 16].sum() for i in range(0, 128, 16)] == [4] * 8


def test_measuring_sees_the_own_images_alone(mixed):
    assert len(mixed) == OWN and len(mixed.arrays()[1]) == OWN
    assert sum(len(labels) for _, labels in mixed.batches(8)) == OWN
    assert "fraction=0.4" in repr(mixed)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: MixedSet(labeled(9, 0), labeled(9, 0), 1.1), r"`fraction` must lie in \(0, 1\]"),
        (
            lambda: MixedSet(labeled(9, 0), data.ImageSet(np.zeros((3, 5, 5, 1)), np.zeros(3, int)), 0.5),
            r"must have the shape of the others, \(4, 4, 1\). Received: \(5, 5, 1\)",
        ),
        (lambda: MixedSet(labeled(9, 0), labeled(9, 0), 0.1).stream(4, seed=0), "images of both sets"),
        (lambda: MixedSet(labeled(9, 0), labeled(3, 0), 0.5).stream(8, seed=0), "needs 4 extra images"),
        # A run asks this before it writes anything.
        (lambda: MixedSet(labeled(9, 0), labeled(3, 0), 0.1, later=(1, 0.5)).exposure(8, 2), "needs 4 extra"),
    ],
)
def test_what_cannot_be_mixed_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


# -- from a file --------------------------------------------------------------------------------------------


@pytest.fixture
def extra_file(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "extra.npz"
    images = rng.integers(0, 256, (50, 8, 8, 1), dtype="uint8")
    np.savez(path, image=images, label=rng.integers(0, 10, 50))
    return path


def test_a_run_gets_the_extra_images(extra_file):
    config = TrainConfig(extra_data=str(extra_file), extra_fraction=0.25, batch_size=32)
    splits = build.make_splits(config)
    assert isinstance(splits.train, MixedSet) and len(splits.train.extra) == 50
    images, labels = next(iter(splits.train.stream(32, seed=0)))
    assert images.shape == (32, 8, 8, 1) and labels.shape == (32,)
    assert splits.train.steps_per_epoch(32) == data.load("digits").train.steps_per_epoch(32)


def test_unlabelled_images_get_the_predictions_of_a_model(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (30, 8, 8, 1), dtype="uint8")
    path, model_path = tmp_path / "unlabeled.npz", tmp_path / "m.keras"
    np.savez(path, image=images)
    net = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Flatten(), keras.layers.Dense(10)])
    net.save(model_path)
    config = TrainConfig(extra_data=str(path), extra_labels_by=str(model_path))
    splits = build.make_splits(config)
    expected = np.argmax(net(images.astype("float32") / 255), axis=1)
    np.testing.assert_array_equal(splits.train.extra.labels[0], expected)
    np.testing.assert_array_equal(predictions(net, images, batch_size=7), expected)


@pytest.mark.parametrize(
    "arrays, settings, message",
    [
        ({"image": np.zeros((2, 8, 8, 1), "uint8")}, {}, "has no `label`.*or give a model that labels"),
        ({"x": np.zeros(2)}, {}, "has no `image`. Expected `image` and `label`"),
        ({"image": np.zeros((2, 8, 8, 1), "uint8"), "label": np.zeros(2, int)}, {"extra_fraction": 1.1},
         r"--extra_fraction must lie in \(0, 1\]"),
    ],
)  # fmt: skip
def test_a_file_that_does_not_fit_is_refused_before_anything_starts(arrays, settings, message, tmp_path):
    np.savez(tmp_path / "e.npz", **arrays)
    with pytest.raises(InputError, match=message):
        TrainConfig(extra_data=str(tmp_path / "e.npz"), **settings)


def test_labels_must_be_classes_of_the_data_set(tmp_path):
    np.savez(tmp_path / "e.npz", image=np.zeros((2, 8, 8, 1), "uint8"), label=np.array([3, 10]))
    with pytest.raises(
        InputError, match=r"Labels must be integers in 0..9.*Received: min=3, max=10 in `label`"
    ):
        build.make_splits(TrainConfig(extra_data=str(tmp_path / "e.npz")))


@pytest.mark.parametrize(
    "setting", [{"extra_labels_by": "m.keras"}, {"extra_fraction": 1.0}, {"extra_later": (2, 0.5)},
                {"extra_smoothing": 0.1}], ids=str,
)  # fmt: skip
def test_settings_of_extra_images_without_any_are_refused(setting):
    with pytest.raises(InputError, match=f"--{next(iter(setting))} is about the images of --extra_data"):
        TrainConfig(**setting)


@pytest.mark.parametrize("later", [(3,), (3, 1.5), (-1, 0.5), (100, 0.5)])
def test_a_change_of_the_share_has_an_epoch_and_a_share(later, extra_file):
    with pytest.raises(InputError, match="--extra_later is an epoch before the last, and the share"):
        TrainConfig(extra_data=str(extra_file), extra_later=later)


def test_several_files_are_one_set_of_extra_images(extra_file):
    config = TrainConfig(extra_data=f"{extra_file},{extra_file}", extra_fraction=1.0, extra_smoothing=0.1)
    train = build.make_splits(config).train
    assert len(train.extra) == 100 and next(iter(train.stream(32, seed=0)))[1].shape == (32, 10)
