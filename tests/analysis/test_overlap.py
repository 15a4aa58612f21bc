"""Near-duplicates among extra images: against a comparison of all pairs."""

import numpy as np
import pytest

import athe_tf
from athe_tf.analysis.overlap import reduced
from athe_tf.utils.errors import InputError
from tests.small_runs import tiny_net


def test_duplicates_are_found_mirrored_noisy_and_in_several_files(tmp_path):
    rng = np.random.default_rng(0)
    x, others = (rng.uniform(size=(count, 8, 8, 1)).astype("float32") for count in (5, 60))
    extra = others.copy()
    extra[7], extra[40] = x[0, :, ::-1], np.clip(x[3] + rng.normal(0, 0.01, x[3].shape), 0, 1)
    np.savez(tmp_path / "a.npz", image=extra[:30])
    np.save(tmp_path / "b.npy", extra[30:])
    files = f"{tmp_path / 'a.npz'},{tmp_path / 'b.npy'}"
    result = athe_tf.analysis.overlap(tiny_net(), (x, np.zeros(5, int)), extra_data=files)
    pairs = np.stack([((view[:, None] - extra) ** 2).mean(axis=(2, 3, 4)) for view in (x, x[:, :, ::-1])])
    distances = np.sqrt(pairs.min(axis=0))
    np.testing.assert_allclose(result.distances, distances.min(axis=1), atol=1e-6)
    np.testing.assert_array_equal(result.nearest, distances.argmin(axis=1))
    assert result.nearest[[0, 3]].tolist() == [7, 40]
    assert (result.duplicates, result.extra) == (2, 60)


def test_larger_images_are_compared_by_means_of_blocks():
    images = np.arange(2 * 16 * 12 * 3, dtype="float64").reshape(2, 16, 12, 3) / 1152
    found = reduced(images).reshape(2, 8, 8, 3)
    np.testing.assert_allclose(found[:, 0, 0], images[:, :2, :1].mean(axis=(1, 2)))
    np.testing.assert_allclose(found[:, 3, 1], images[:, 6:8, 1:3].mean(axis=(1, 2)))


def test_files_that_do_not_fit_are_refused(tmp_path):
    batch = np.zeros((2, 8, 8, 1), "float32"), np.zeros(2, int)
    with pytest.raises(InputError, match="Name the extra training images: --extra_data=FILE.npz"):
        athe_tf.analysis.overlap(tiny_net(), batch)
    np.savez(tmp_path / "e.npz", image=np.zeros((2, 9, 8, 1), "uint8"))
    with pytest.raises(InputError, match=r"the shape of the others, \(8, 8, 1\). Received: \(9, 8, 1\)"):
        athe_tf.analysis.overlap(tiny_net(), batch, extra_data=str(tmp_path / "e.npz"))
