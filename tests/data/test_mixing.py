"""MixUp and CutMix: against an independent NumPy computation, and pure functions of (seed, step)."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from athe_tf.data import ImageSet, MixedSet
from athe_tf.data.mixing import Mixing, beta, window
from athe_tf.data.options import AugmentationOptions
from athe_tf.utils.errors import InputError

RANDOM = np.random.default_rng(0)
IMAGES, LABELS = RANDOM.integers(0, 256, (40, 8, 6, 3), dtype="uint8"), np.arange(40) % 5
SOURCE = ImageSet(IMAGES, LABELS)


def mixed_in_numpy(images, labels, order, key, options):
    """One image and one pixel at a time, from the random numbers that were drawn."""
    images, labels = images.astype("float64"), np.eye(5)[labels]
    if options.mixup:
        weight = float(beta(key, options.mixup))
        result = weight * images + (1 - weight) * images[order]
    else:
        (top, bottom), (left, right) = np.array(window(key, options.cutmix, 8, 6))
        result, pasted = images.copy(), 0
        for row in range(8):
            for column in range(6):
                if top <= row < bottom and left <= column < right:
                    result[:, row, column] = images[order][:, row, column]
                    pasted += 1
        weight = 1 - pasted / 48
    return result, weight * labels + (1 - weight) * labels[order]


@pytest.mark.parametrize("options", [{"mixup": 0.8}, {"cutmix": 1.0}], ids=str)
def test_a_mixed_batch_equals_a_loop_over_its_pixels(options):
    chosen = AugmentationOptions(**options)
    mixing = Mixing(chosen, 3, 16, 5)
    plain, found = (list(SOURCE.stream(16, seed=3, epochs=3, **more)) for more in ({}, options))
    weights = []
    for step, ((x, y), (mixed_x, mixed_y)) in enumerate(zip(plain, found, strict=True)):
        order = mixing.partners(step).numpy()
        assert sorted(order) == list(range(16))
        expected, labels = mixed_in_numpy(x.numpy(), y.numpy(), order, mixing._key(step), chosen)
        np.testing.assert_allclose(mixed_x, expected, atol=1e-6)
        np.testing.assert_allclose(mixed_y, labels, atol=1e-6)
        np.testing.assert_allclose(mixed_y.numpy().sum(axis=1), 1, atol=1e-6)
        assert mixed_x.numpy().min() >= 0 and mixed_x.numpy().max() <= 1
        weights.append(labels.max(axis=1).min())
    assert len({round(weight, 6) for weight in weights}) > 2  # another weight in every batch


@pytest.mark.parametrize("alpha", [0.2, 1.0, 3.0])
def test_weights_have_a_beta_distribution(alpha):
    found = tf.map_fn(lambda seed: beta(seed, alpha), tf.range(800), fn_output_signature=tf.float32)
    assert stats.kstest(found.numpy(), stats.beta(alpha, alpha).cdf).pvalue > 0.01


def test_windows_are_placed_as_published():
    """Sides of `int(size * sqrt(1 - weight))`, halved, about a uniform center, cut off at the border."""
    seeds = tf.range(400)
    found = tf.map_fn(lambda seed: tf.convert_to_tensor(window(seed, 1.0, 32, 32)), seeds).numpy()
    kept = tf.map_fn(lambda seed: beta(seed, 1.0), seeds, fn_output_signature=tf.float32).numpy()
    half = (32 * np.sqrt(1 - kept)).astype(int) // 2
    inside = (found[:, :, 0] > 0) & (found[:, :, 1] < 32)
    sides = found[:, :, 1] - found[:, :, 0]
    assert inside.sum() > 200 and (sides <= 2 * half[:, None]).all() and (sides >= half[:, None]).all()
    np.testing.assert_array_equal(sides[inside], np.broadcast_to(2 * half[:, None], (400, 2))[inside])
    centers = (found.sum(axis=2) // 2)[inside.all(axis=1)]
    assert abs(np.corrcoef(centers.T)[0, 1]) < 0.2


def test_with_both_each_batch_takes_one_of_them():
    stream = SOURCE.stream(8, seed=0, mixup=1.0, cutmix=1.0)
    plain = SOURCE.stream(8, seed=0)
    pasted = []
    for (x, _), (mixed, _) in zip(plain.take(60), stream.take(60), strict=True):
        # CutMix keeps the pixels of the one image or the other; MixUp keeps hardly any.
        pasted.append(np.isin(mixed.numpy(), x.numpy()).mean() > 0.99)
    assert 15 < sum(pasted) < 45


def sources():
    extra = ImageSet(RANDOM.integers(0, 256, (30, 8, 6, 3), dtype="uint8"), np.arange(30) % 5)
    return {"in memory": SOURCE, "with extra images": MixedSet(SOURCE, extra, 0.5)}


@pytest.mark.parametrize("source", sources().values(), ids=sources())
def test_a_mixed_stream_can_start_anywhere_and_in_parts(source):
    options = {"seed": 5, "augmentation": "pad_crop_flip", "mixup": 0.4, "cutmix": 1.0, "epochs": 3}
    whole = [(x.numpy(), y.numpy()) for x, y in source.stream(8, **options)]
    assert len(whole) == 15
    late = [(x.numpy(), y.numpy()) for x, y in source.stream(8, start_step=7, **options)]
    parts = [list(source.stream(8, part=(i, 4), **options)) for i in range(4)]
    for position in (0, 1):
        np.testing.assert_array_equal([b[position] for b in whole[7:]], [b[position] for b in late])
        joined = [np.concatenate([b[position] for b in same]) for same in zip(*parts, strict=True)]
        np.testing.assert_array_equal([b[position] for b in whole], joined)


def test_labels_have_all_classes_even_of_a_part_without_some():
    few = ImageSet(IMAGES, np.zeros(40, int), num_classes=7).part(10)
    assert next(iter(few.stream(4, seed=0, cutmix=1.0)))[1].shape == (4, 7)


def test_unknown_and_bad_options_are_refused():
    with pytest.raises(InputError, match="Unknown argument 'cutmixx' of `stream`.*mixup, cutmix"):
        SOURCE.stream(8, seed=0, cutmixx=1.0)
    with pytest.raises(InputError, match="mixup must be finite and not negative. Received: mixup=-1"):
        SOURCE.stream(8, seed=0, mixup=-1.0)
