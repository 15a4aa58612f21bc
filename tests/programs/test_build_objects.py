"""From a config to the model and the optimizer that it describes."""

import keras
import numpy as np

from athe_tf.programs import build
from athe_tf.programs.config import TrainConfig
from tests.small_runs import tiny_splits


def test_inputs_are_standardized_unless_the_config_says_otherwise():
    splits = tiny_splits()
    layers = {
        standardize: [type(layer) for layer in build.make_net(config(standardize=standardize), splits).layers]
        for standardize in (True, False)
    }
    assert keras.layers.Normalization in layers[True]
    assert layers[False] == [kind for kind in layers[True] if kind is not keras.layers.Normalization]


def config(**settings):
    return TrainConfig.from_flags(model="small_cnn", **settings)


def test_only_kernels_decay_if_the_config_says_so():
    net = build.make_net(config(), tiny_splits())
    for name in ("sgd", "adam"):
        optimizer = build.make_optimizer(
            config(optimizer=name, learning_rate=0.5, decay_variables="kernels", weight_decay=0.1), 10
        )
        for variable in net.trainable_variables:
            variable.assign(np.ones(variable.shape))
        zeros = [np.zeros(variable.shape, "float32") for variable in net.trainable_variables]
        optimizer.apply_gradients(zip(zeros, net.trainable_variables, strict=True))
        shrunk = {v.path for v in net.trainable_variables if not np.allclose(v, 1)}
        assert shrunk == {v.path for v in net.trainable_variables if v.path.endswith("kernel")}, name
