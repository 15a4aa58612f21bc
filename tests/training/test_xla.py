"""Training steps compiled by XLA, as on accelerators."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import athe_tf
from athe_tf import attacks, training
from athe_tf.programs import build
from athe_tf.programs.config import TrainConfig
from athe_tf.utils.errors import InputError, NotApplicable
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


def test_the_setting_reaches_the_trainer():
    config = TrainConfig(framework="standard", jit_compile=True, epochs=1, batch_size=16)
    trainer = build.make_trainer(config, tiny_splits())
    assert trainer.jit_compile and not trainer.compiles_crafting


def test_the_check_of_a_batch_compiles_and_makes_what_it_cannot_refuse_nan():
    trainer = make("standard", smooth_net())
    compiled = tf.function(trainer.checked_batch, autograph=False, jit_compile=True)
    images, labels = compiled((X, Y))
    np.testing.assert_array_equal(images, X)
    np.testing.assert_array_equal(labels, Y)
    assert np.isnan(compiled((255 * X, Y))[0]).all()
    for images, remedy in ((255 * X, "Divide them by 255"), (2 * X - 1, "Put the normalization inside")):
        with pytest.raises(InputError, match=remedy):
            trainer.checked_batch((images, Y))


def test_a_loss_that_is_not_finite_stops_a_compiled_run():
    trainer = make("standard", smooth_net())
    trainer.compile(training.TorchSGD(0.05), jit_compile=True)
    trainer.net.trainable_variables[0].assign(np.full([64, 6], np.nan))
    with pytest.raises(InputError, match="The training loss is not a number. XLA has updated the weights"):
        trainer.fit(X, Y, batch_size=len(X), epochs=5, verbose=0)
    assert int(trainer.optimizer.iterations) == 1


@pytest.mark.parametrize(("name", "size"), [("swift", 40), ("fab-t-5", 10), ("apgd-ce-5", 10)])
def test_attacks_compile_for_batches_of_one_size_with_the_same_flags(name, size):
    """`swift` has four of them, and with these two they are those of AutoAttack.

    16 images are two batches, the second filled up, or one with several rounds of them.
    """
    net = smooth_net()
    labels = np.asarray(net(X)).argmax(1)
    plain, compiled = (
        attacks.get(name, epsilon=0.03).run(net, X, labels, batch_size=size, jit_compile=jit_compile)
        for jit_compile in (False, True)
    )
    assert 0 < plain.success.sum() < len(X)
    np.testing.assert_array_equal(plain.success, compiled.success)
    np.testing.assert_array_equal(plain.queries, compiled.queries)
    np.testing.assert_allclose(plain.x_adv, compiled.x_adv, atol=1e-3)


def test_an_attack_that_xla_cannot_compile_is_not_run():
    @tf.numpy_function(Tout=tf.float32)
    def logits(x):
        return x[:, 0, 0, :1] * np.array([1, -1], "float32")

    model = athe_tf.victim(lambda x: tf.ensure_shape(logits(x), [None, 2]), num_classes=2)
    with pytest.raises(NotApplicable, match="XLA cannot compile it: .*Leave jit_compile out"):
        attacks.get("square-2", epsilon=0.1).run(model, X[:4], np.zeros(4, int), jit_compile=True)
