"""Per-example random numbers: pure functions of (seed, stream, id, element)."""

import numpy as np

from athe_tf.utils import rng


def test_a_row_depends_on_its_id_alone():
    together = rng.uniform(3, np.arange(10), (4, 4, 3)).numpy()
    alone = rng.uniform(3, np.array([7]), (4, 4, 3)).numpy()
    np.testing.assert_array_equal(together[7], alone[0])


def test_seed_stream_and_id_each_change_the_numbers():
    base = rng.bits(1, [5], (100,)).numpy()
    for other in (rng.bits(2, [5], (100,)), rng.bits(1, [6], (100,)), rng.bits(1, [5], (100,), 1)):
        assert (other.numpy() == base).mean() < 0.05


def test_uniform_has_the_moments_of_a_uniform_and_stays_in_range():
    u = rng.uniform(0, np.arange(200), (32, 32, 3)).numpy()
    assert u.min() >= -1.0 and u.max() < 1.0
    # The standard error of the mean of 614,400 numbers with variance 1/3 is 7.4e-4.
    assert abs(u.mean()) < 4e-3
    assert abs(u.var() - 1 / 3) < 4e-3
    flat = u.reshape(200, -1)
    rows = np.corrcoef(flat)[np.triu_indices(200, 1)]
    assert abs(rows).max() < 0.1, "rows of neighboring ids are correlated"


def test_normal_has_the_moments_of_a_normal():
    z = rng.normal(0, np.arange(200), (32, 32, 3)).numpy()
    assert np.isfinite(z).all()
    assert abs(z.mean()) < 6e-3 and abs(z.var() - 1) < 1e-2
    assert abs((z**4).mean() - 3) < 0.1


def test_rademacher_and_integers_are_balanced():
    signs = rng.rademacher(4, np.arange(100), (100,)).numpy()
    assert set(np.unique(signs)) == {-1.0, 1.0} and abs(signs.mean()) < 0.05
    counts = np.bincount(rng.integers(4, np.arange(100), (90,), 9).numpy().ravel(), minlength=9)
    assert len(counts) == 9 and abs(counts - 1000).max() < 150


def test_float64_has_the_numbers_of_float32():
    ids = np.arange(50)
    for draw in (rng.uniform, rng.rademacher):
        single, double = draw(3, ids, (7,)).numpy(), draw(3, ids, (7,), dtype="float64").numpy()
        assert double.dtype == np.float64
        np.testing.assert_array_equal(single, double)
    single, double = rng.normal(3, ids, (7,)).numpy(), rng.normal(3, ids, (7,), dtype="float64").numpy()
    np.testing.assert_allclose(single, double, atol=1e-5)


def test_fold_is_not_commutative():
    assert int(rng.fold(1, 2)) != int(rng.fold(2, 1))


def test_the_numbers_are_those_of_the_first_version():
    """Literals, computed once: other numbers would be other noise, crops and orders in every run."""
    assert int(rng.fold(0)) == 33350994 and int(rng.fold(1, 2)) == 1833388140
    assert rng.bits(3, [0, 7], (3,)).numpy().tolist() == [
        [516538229, 2534478629, 4222259660], [3817374456, 691955640, 2970924718]
    ]  # fmt: skip
    assert rng.bits(3, [7], (3,), stream=5).numpy().tolist() == [[1497252232, 3791405927, 597419982]]
    np.testing.assert_allclose(rng.uniform(3, [7], (3,)), [[0.7776034, -0.6777831, 0.3834445]], rtol=1e-6)
    np.testing.assert_allclose(rng.normal(3, [7], (3,)), [[1.182337, -0.5567477, 1.014064]], rtol=1e-4)
    assert rng.rademacher(3, [7], (8,)).numpy().tolist() == [[1, 1, 1, -1, 1, -1, 1, -1]]
    assert rng.integers(3, [7], (8,), 10).numpy().tolist() == [[8, 1, 6, 1, 5, 5, 2, 6]]
