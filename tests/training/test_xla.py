"""Training steps compiled by XLA, as on accelerators."""

import keras
import numpy as np
import pytest

import athe_tf
from athe_tf import training
from athe_tf.programs import build
from athe_tf.programs.config import TrainConfig
from athe_tf.utils.errors import InputError
from tests.small_runs import SHAPE, get_weights, tiny_batch, tiny_splits
from tests.training.test_contract import make

X, Y = tiny_batch()


def smooth_net():
    """No convolution, which XLA compiles slowly, and no ReLU, whose kinks turn rounding into signs."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input(SHAPE)
    hidden = keras.layers.Dense(6, use_bias=False)(keras.layers.Flatten()(inputs))
    hidden = keras.layers.Activation("softplus")(athe_tf.BatchNorm()(hidden))
    return keras.Model(inputs, athe_tf.CosineDense(4, name="head")(hidden))


@pytest.mark.parametrize("name", sorted(training.FRAMEWORKS))
def test_the_step_of_every_framework_compiles_and_equals_the_plain_one(name):
    plain, compiled = make(name, smooth_net(), seed=3), make(name, smooth_net(), seed=3)
    compiled.compile(training.TorchSGD(0.05), jit_compile=True)
    assert compiled.jit_compile and not plain.jit_compile
    losses = [trainer.train_on_batch(X, Y, return_dict=True)["loss"] for trainer in (plain, compiled)]
    np.testing.assert_allclose(*losses, rtol=1e-5)
    for one, other in zip(get_weights(plain.net), get_weights(compiled.net), strict=True):
        # Relative to the largest weight: those of CURE grow to 13 in one step.
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5 * max(1.0, np.abs(one).max()))


def test_the_setting_reaches_the_trainer_and_is_refused_with_several_replicas(monkeypatch):
    config = TrainConfig(framework="standard", jit_compile=True, epochs=1, batch_size=16)
    assert build.make_trainer(config, tiny_splits()).jit_compile

    class Several:
        num_replicas_in_sync = 2

    monkeypatch.setattr(build.tf.distribute, "get_strategy", Several)
    with pytest.raises(InputError, match="Received: --jit_compile with 2 replicas"):
        build.check_compilation(config)
