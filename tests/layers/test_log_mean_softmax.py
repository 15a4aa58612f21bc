"""`LogMeanSoftmax`: the mean of the members' probabilities."""

import numpy as np
import pytest

from athe_tf import InputError
from athe_tf.layers import LogMeanSoftmax


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float64", 1e-14)])
def test_its_softmax_is_the_mean_of_the_softmaxes(dtype, tolerance):
    logits = np.random.default_rng(0).normal(size=(4, 3, 5)) * 3
    probabilities = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    layer = LogMeanSoftmax(3, dtype=dtype)
    found = layer(logits.reshape(4, 15).astype(dtype))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, np.log(probabilities.mean(1)), rtol=tolerance)
    assert layer.compute_output_shape((4, 15)) == (4, 5)
    assert LogMeanSoftmax.from_config(layer.get_config()).members == 3


def test_no_members_are_refused():
    with pytest.raises(InputError, match="Received: members=0"):
        LogMeanSoftmax(0)
