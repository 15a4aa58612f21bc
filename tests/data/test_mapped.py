"""Extra images in files: read row by row, in a computed order, from several of them."""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from athe_tf import data
from athe_tf.data import MappedSet, MixedSet, npz
from athe_tf.data.mapped import shuffled
from athe_tf.utils.errors import InputError
from tests.data.test_mixed import labeled

SIZES = (13, 1, 30)


def numbered():
    """Three arrays of images whose first pixel is their position in all, as their label is."""
    values = np.split(np.arange(sum(SIZES)), np.cumsum(SIZES)[:-1])
    images = [
        np.broadcast_to(each[:, None, None, None], (len(each), 4, 4, 1)).astype("uint8") for each in values
    ]
    return MappedSet(images, values, sum(SIZES))


@pytest.mark.parametrize("size", [1, 2, 3, 16, 17, 1000, 4096])
def test_an_epoch_has_every_image_once(size):
    places = tf.range(size, dtype=tf.int64)
    orders = [shuffled(tf.constant(seed, tf.uint32), places, size).numpy() for seed in (1, 2)]
    for order in orders:
        assert sorted(order) == list(range(size))
    if size > 100:
        assert (orders[0] != orders[1]).mean() > 0.9
        assert abs(np.corrcoef(orders[0], places)[0, 1]) < 0.15
    # Any of them alone, as a worker or a resumed run computes it.
    np.testing.assert_array_equal(shuffled(tf.constant(1, tf.uint32), places[-1:], size), orders[0][-1:])


def test_places_beyond_the_range_of_32_bits():
    found = shuffled(tf.constant(1, tf.uint32), tf.range(1000, dtype=tf.int64), 10**10).numpy()
    assert len(set(found)) == 1000 and found.min() >= 0 and 2**32 < found.max() < 10**10


def test_rows_come_from_all_arrays():
    source = numbered()
    assert len(source) == 44 and "44 images of shape (4, 4, 1) in 3 arrays" in repr(source)
    batches = list(source.stream(8, seed=0, epochs=2))
    found = np.concatenate([y for _, y in batches])
    assert len(set(found[:40])) == 40 and (found[:40] != found[40:]).any()
    for x, y in batches:
        np.testing.assert_allclose(np.array(x)[:, 0, 0, 0] * 255, y, atol=1e-4)
    np.testing.assert_array_equal(np.concatenate([y for _, y in source.batches(10)]), np.arange(44))
    np.testing.assert_array_equal(source.arrays(20)[1], np.arange(20))
    assert len(source.part(5)) == 5


def test_a_stream_of_files_can_start_anywhere_and_in_parts():
    options = {"seed": 3, "augmentation": "pad_crop_flip", "cutmix": 1.0, "epochs": 3}
    whole = list(numbered().stream(8, **options))
    late = list(numbered().stream(8, start_step=7, **options))
    parts = [list(numbered().stream(8, part=(i, 2), **options)) for i in (0, 1)]
    for (x, y), (x2, y2) in zip(whole[7:], late, strict=True):
        np.testing.assert_array_equal(x, x2)
        np.testing.assert_array_equal(y, y2)
    for (x, _), *halves in zip(whole, *parts, strict=True):
        np.testing.assert_array_equal(x, np.concatenate([half[0] for half in halves]))


@pytest.mark.parametrize("kind", ["stored", "compressed", "npy"])
def test_every_kind_of_file_gives_the_same_images(kind, tmp_path):
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (40, 8, 8, 1), dtype="uint8"), rng.integers(0, 10, 40)
    path = tmp_path / ("extra.npy" if kind == "npy" else "extra.npz")
    if kind == "npy":
        np.save(path, images)
        np.save(tmp_path / "extra.label.npy", labels)
    else:
        (np.savez if kind == "stored" else np.savez_compressed)(
            path, image=images, label=labels, z=np.ones(3)
        )
    found = npz.extra_arrays(path, labelled_by_model=False)
    assert all(isinstance(array, np.memmap) == (kind != "compressed") for array in found)
    extra = data.with_extra(data.load("digits"), [path, path], 0.5).train.extra
    np.testing.assert_array_equal(extra.rows(np.arange(80))[0], np.concatenate([images, images]))
    np.testing.assert_array_equal(extra.rows(np.arange(80))[1], np.concatenate([labels, labels]))
    fingerprint = extra.fingerprint()
    labels[7] = (labels[7] + 1) % 10
    assert MappedSet([images] * 2, [labels] * 2, 10).fingerprint() != fingerprint


def test_extra_images_alone_and_a_share_that_changes():
    own, extra = labeled(20, 0), labeled(40, 100)
    only = list(MixedSet(own, extra, 1.0).stream(10, seed=0, epochs=3))
    assert len(only) == 6 and all((np.array(y) >= 100).all() for _, y in only)
    changing = MixedSet(own, extra, 1.0, later=(2, 0.4))
    whole = list(changing.stream(10, seed=0, epochs=4))
    assert [int((np.array(y) >= 100).sum()) for _, y in whole] == [10] * 4 + [4] * 4
    # The first phase has used each extra image once; the second begins another pass, and takes others first.
    assert len({int(y) for _, labels in whole[:4] for y in labels}) == 40
    later = [int(y) for _, labels in whole[4:] for y in labels if y >= 100]
    assert len(set(later)) == 16
    for start in (1, 3, 4, 7):
        late = list(changing.stream(10, seed=0, start_step=start, epochs=4))
        for (x, y), (x2, y2) in zip(whole[start:], late, strict=True):
            np.testing.assert_array_equal(x, x2)
            np.testing.assert_array_equal(y, y2)
    assert changing.exposure(10, 4) == {
        "own": {"seen": 24, "unique": 20, "times": 1.2}, "extra": {"seen": 56, "unique": 40, "times": 1.4},
    }  # fmt: skip
    found = dict.fromkeys(("own", "extra"), 0)
    for _, y in whole:
        found["own"] += int((np.array(y) < 100).sum())
        found["extra"] += int((np.array(y) >= 100).sum())
    assert {name: each["seen"] for name, each in changing.exposure(10, 4).items()} == found
    assert changing.fingerprint() != MixedSet(own, extra, 1.0).fingerprint()


def test_a_phase_goes_on_where_the_one_before_has_ended():
    mixed = MixedSet(labeled(20, 0), labeled(100, 100), 0.8, later=(3, 0.4))
    labels = [int(y) for _, each in mixed.stream(10, seed=0, epochs=8) for y in each if y >= 100]
    # 6 steps of 8 and 10 of 4: the pass over 100 images is not begun again.
    assert len(labels) == 88 and len(set(labels)) == 88


def test_smoothing_is_for_extra_images_alone():
    mixed = MixedSet(labeled(20, 0), labeled(40, 20), 0.5, smoothing=0.2)
    mixed.num_classes = 60
    _, labels = next(iter(mixed.stream(10, seed=0)))
    labels = np.array(labels)
    is_extra = labels.argmax(axis=1) >= 20
    assert is_extra.sum() == 5
    np.testing.assert_allclose(labels.max(axis=1), np.where(is_extra, 0.8 + 0.2 / 60, 1.0), rtol=1e-6)
    np.testing.assert_allclose(labels.min(axis=1), np.where(is_extra, 0.2 / 60, 0.0), rtol=1e-6)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: MappedSet([np.zeros((2, 4, 4, 1)), np.zeros((2, 5, 4, 1))], [np.zeros(2, int)] * 2, 2),
         r"several files must have one shape and type. Expected \(4, 4, 1\).*Received: \(5, 4, 1\)"),
        (lambda: npz.check_extra_file("absent.npy", False), "No such file.*'absent.npy'.*`numpy.save`"),
        (lambda: npz.check_extra_file(__file__.replace(".py", ".npy"), True), "No such file of extra images"),
        (lambda: MixedSet(labeled(9, 0), labeled(9, 0), 0.5, later=(3, 1.5)), "must lie in .0, 1.*1.5"),
    ],
)  # fmt: skip
def test_files_that_do_not_fit_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


PROGRAM = """
import resource, sys
import numpy as np
from athe_tf import data
own = data.ImageSet(np.zeros([1000, 32, 32, 3], "uint8"), np.arange(1000) % 10)
splits = data.Splits("own", own, own, own, 10, (32, 32, 3), None, (0.5,) * 3, (0.25,) * 3)
for file in sys.argv[1:]:
    train = data.with_extra(splits, file, 0.9).train
    for step, (x, y) in enumerate(train.stream(512, seed=0, augmentation="pad_crop_flip", cutmix=1.0)):
        if step == 60:
            break
    print(len(train.extra), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def test_memory_does_not_grow_with_the_file(tmp_path):
    """With a sparse file of 200 GB, batches take hardly more memory than with one of 9 MB."""
    counts = 3000, 200 * 10**9 // 3072
    for count in counts:
        for name, shape in ((f"{count}.npy", (count, 32, 32, 3)), (f"{count}.label.npy", (count,))):
            np.lib.format.open_memmap(tmp_path / name, "w+", np.uint8, shape).flush()
    command = [sys.executable, "-c", PROGRAM, *(str(tmp_path / f"{count}.npy") for count in counts)]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert (tmp_path / f"{counts[1]}.npy").stat().st_size > 199 * 10**9
    (small, before), (large, after) = found[:2], found[2:]
    assert (int(small), int(large)) == counts
    assert int(after) - int(before) < 200, f"{before} MiB, then {after} MiB"
