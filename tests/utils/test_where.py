"""Tests of the fast forms of `tf.where`."""

import numpy as np
import pytest
import tensorflow as tf

from athe_tf.utils.where import where_pixels, where_rows

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(2, 5, 4, 3, 2)).astype("float32")


@pytest.mark.parametrize("shape", [(5,), (5, 4, 3, 2)], ids=["rows", "entries"])
@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "XLA"])
def test_it_is_where(shape, compiled):
    flags = RNG.uniform(size=shape) < 0.5
    wide = flags.reshape([*shape, *[1] * (4 - len(shape))])
    found = tf.function(where_rows, jit_compile=compiled)(flags, A, B)
    np.testing.assert_array_equal(found, np.where(wide, A, B))


def test_images_that_are_not_chosen_leave_no_trace():
    rotten = np.full_like(A, np.nan)
    flags = np.array([True, False, True, True, False])
    assert np.isfinite(where_rows(flags, A, rotten).numpy()[flags]).all()


def test_one_flag_per_pixel_is_for_all_channels():
    flags = RNG.uniform(size=(5, 4, 3, 1)) < 0.5

    @tf.function(input_signature=[tf.TensorSpec([None, 4, 3, 2])] * 2)
    def chosen(a, b):
        found = where_pixels(tf.constant(flags), a, b)
        assert found.shape.as_list() == [None, 4, 3, 2]
        return found

    np.testing.assert_array_equal(chosen(A, B), np.where(flags, A, B))
