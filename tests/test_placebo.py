"""The placebo of the study begins as the network that it is compared with."""

import numpy as np
import pytest

from athe_tf.models import build
from athe_tf.utils.registry import import_object
from benchmarks import placebo


@pytest.mark.parametrize(("name", "factor"), [("times_15_seed_1", 15.0), ("over_15_seed_1", 1 / 15)])
def test_the_function_is_the_same_and_the_weights_are_scaled(name, factor):
    arguments = {"num_classes": 10, "input_shape": (32, 32, 3)}
    net = import_object(f"benchmarks.placebo:{name}")(**arguments)
    plain = build("wrn-10-1", mean=placebo.MEAN, std=placebo.STD, seed=1, **arguments)
    x = np.random.default_rng(0).uniform(size=(4, 32, 32, 3)).astype("float32")
    np.testing.assert_allclose(net(x), plain(x), rtol=1e-4, atol=1e-5)
    kernels = [model.get_layer("head").kernel for model in (net, plain)]
    np.testing.assert_allclose(factor * np.asarray(kernels[0]), kernels[1], rtol=1e-6)


def test_other_names_do_not_exist():
    with pytest.raises(AttributeError):
        _ = placebo.times_16_seed_0
