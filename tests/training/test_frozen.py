"""Frozen layers stay as they are, bit for bit, in every framework; epsilon can wait before it rises."""

import inspect

import keras
import numpy as np
import pytest

import athe_tf
from athe_tf import InputError, attacks, models, training
from athe_tf.programs import build
from athe_tf.programs.config import TrainConfig
from athe_tf.training.adversarial_model import moving_variables
from athe_tf.training.schedules import EpsilonSchedule
from tests.small_runs import SHAPE, get_weights, tiny_batch, tiny_net, tiny_splits

X, Y = tiny_batch()


def with_backbone(batch_norm=athe_tf.BatchNorm, seed=0):
    """A nested backbone with batch normalization, a layer of its own after it, and a head."""
    keras.utils.set_random_seed(seed)
    stage = [keras.layers.Conv2D(4, 3, strides=2, name="conv"), batch_norm(name="bn"), keras.layers.ReLU()]
    backbone = keras.Sequential([keras.Input(SHAPE), *stage], name="backbone")
    inputs = keras.Input(SHAPE)
    h = athe_tf.BatchNorm(name="own_bn")(keras.layers.Conv2D(4, 3, name="own")(backbone(inputs)))
    return keras.Model(inputs, athe_tf.CosineDense(4, name="head")(keras.layers.Flatten()(h)))


def one_step(trainer):
    trainer.compile(training.TorchSGD(0.1, weight_decay=0.1), run_eagerly=True)
    trainer.train_on_batch(X, Y)


def changed(net, before):
    return {
        weight.path
        for weight, old in zip(net.weights, before, strict=True)
        if (np.asarray(weight) != old).any()
    }


ALL_TRAINED = {
    "own/kernel", "own/bias", "own_bn/gamma", "own_bn/beta", "own_bn/moving_mean", "own_bn/moving_variance",
    "head/kernel",
}  # fmt: skip


def make(name, net, **kwargs):
    framework = training.get(name)
    if "batch_size" in inspect.signature(framework).parameters:
        kwargs["batch_size"] = len(X)
    return framework(net, attacks.PGD(0.1, steps=1, step_size=0.1), margin=0.2, **kwargs)


@pytest.mark.parametrize("name", sorted(training.FRAMEWORKS))
def test_a_frozen_backbone_stays_bit_for_bit_and_the_rest_is_trained(name):
    net = with_backbone()
    net.get_layer("backbone").trainable = False
    before = get_weights(net)
    trainer = make(name, net)
    one_step(trainer)
    found = changed(net, before)
    assert found <= ALL_TRAINED and {"own/kernel", "head/kernel", "own_bn/moving_mean"} <= found


def test_averages_and_weight_perturbation_leave_frozen_layers_alone():
    net = with_backbone()
    trainer = make("pgd_at", net, average=training.EMA(0.5), weight_perturbation=training.AWP(0.1))
    # After the trainer and its average were made, as when fine-tuning goes on with other layers.
    net.get_layer("backbone").trainable = False
    before = get_weights(net)
    one_step(trainer)
    assert changed(net, before) <= ALL_TRAINED
    assert changed(trainer.averaged, before) == changed(net, before)
    assert [v.path for v in trainer.averaged.trainable_variables] == [v.path for v in net.trainable_variables]


def test_new_statistics_of_an_average_are_those_of_trained_layers_only():
    net = with_backbone()
    net.get_layer("backbone").trainable = False
    swa = training.SWA(1, lambda epoch: [(X, Y)])
    trainer = make("standard", net, average=swa)
    before = get_weights(net)
    trainer.compile(training.TorchSGD(0.1), run_eagerly=True)
    trainer.fit(X, Y, batch_size=len(X), epochs=3, callbacks=[swa], verbose=0)
    assert "own_bn/moving_mean" in changed(trainer.averaged, before) <= ALL_TRAINED


def test_layers_that_are_not_frozen_any_more_are_trained_after_compiling_again():
    net = with_backbone()
    trainer = make("pgd_at", net)
    net.get_layer("backbone").trainable = False
    one_step(trainer)
    before = get_weights(net)
    net.get_layer("backbone").trainable = True
    one_step(trainer)
    assert {"backbone/conv/kernel", "backbone/bn/moving_mean"} <= changed(net, before)


def test_replicas_share_the_statistics_of_trained_layers_and_no_frozen_weights():
    net = with_backbone()
    net.get_layer("backbone").trainable = False
    assert [v.path for v in moving_variables(net)] == ["own_bn/moving_mean", "own_bn/moving_variance"]


def test_frozen_batch_normalization_of_keras_suits_every_mode():
    net = with_backbone(keras.layers.BatchNormalization)
    with pytest.raises(InputError, match="freeze these layers"):
        make("cure", net)
    net.get_layer("backbone").trainable = False
    trainer = make("cure", net)
    before = get_weights(net)
    one_step(trainer)
    assert changed(net, before) <= ALL_TRAINED
    net.get_layer("backbone").trainable = True
    with pytest.raises(InputError, match="freeze these layers"):
        one_step(trainer)


def test_a_model_without_anything_to_train_is_refused():
    net = tiny_net()
    net.trainable = False
    trainer = make("pgd_at", net)
    with pytest.raises(InputError, match="all of its layers are frozen"):
        one_step(trainer)


def test_other_heads_and_ranges_keep_frozen_layers():
    net = with_backbone()
    net.get_layer("backbone").trainable = False
    inputs = keras.Input(SHAPE)
    linear = keras.Model(inputs, keras.layers.Dense(4, name="head")(keras.layers.Flatten()(net(inputs))))
    again = models.with_input_range(models.to_hypersphere(linear), (0, 255))
    trained = {v.path for v in again.trainable_variables}
    assert "own/kernel" in trained and not any("backbone" in path for path in trained)


# -- by name ------------------------------------------------------------------------------------------------


def test_layers_are_frozen_by_their_whole_names_also_inside_nested_models():
    net = with_backbone()
    assert models.freeze(net, "conv|bn") == ["conv", "bn"]
    assert {v.path for v in net.trainable_variables} == {p for p in ALL_TRAINED if "moving" not in p}


@pytest.mark.parametrize(
    "pattern, message",
    [
        ("con", "matches 'con' as a whole. Its layers are backbone, conv, bn, own, own_bn, head."),
        ("[", "must be a regular expression. Received: pattern='\\['"),
    ],
)
def test_a_pattern_without_a_layer_is_refused(pattern, message):
    with pytest.raises(InputError, match=message):
        models.freeze(with_backbone(), pattern)


def test_a_run_freezes_before_its_optimizer_is_built():
    config = TrainConfig(freeze="conv[12]|bn.*", model="small_cnn", batch_size=16)
    trainer = build.make_trainer(config, tiny_splits())
    names = {v.path for v in trainer.net.trainable_variables}
    assert names == {"conv3/kernel", "fc/kernel", "fc/bias", "head/kernel", "head/bias"}
    with pytest.raises(InputError, match="--freeze must be a regular expression. Received: --freeze=\\["):
        TrainConfig(freeze="[")


# -- epsilon ------------------------------------------------------------------------------------------------


def test_epsilon_waits_and_then_rises_in_every_step():
    schedule = EpsilonSchedule("linear", 0.4, [10, 14], highest=0.4, delay=6)
    values = [float(schedule(step)) for step in range(16)]
    expected = [0] * 7 + [0.1, 0.2, 0.3, 0, 0.1, 0.2, 0.3, 0.4, 0.4]
    np.testing.assert_allclose(values, expected, rtol=1e-6)
    warm = EpsilonSchedule("linear", 0.4, [100], lowest=0.1, warm_up=3, delay=2)
    np.testing.assert_allclose([float(warm(i)) for i in range(7)], [0.1, 0.1, 0.1, 0.2, 0.3, 0.4, 0.4])


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_while_epsilon_is_0_images_are_not_changed(norm):
    schedule = EpsilonSchedule("linear", 0.3, [10], warm_up=1, delay=5)
    trainer = training.PGDAT(
        tiny_net(), attacks.PGD(0.3, norm, steps=2, step_size=0.1), epsilon_schedule=schedule
    )
    trainer.compile("sgd")
    np.testing.assert_array_equal(trainer.craft(X, Y), X)
    trainer.optimizer.iterations.assign(6)
    assert (np.asarray(trainer.craft(X, Y)) != X).any()


def test_a_run_counts_the_delay_in_epochs():
    config = TrainConfig(
        epsilon_schedule="linear", epsilon_delay=1.5, epsilon_warmup=1.0, epochs=4, epsilon=0.2
    )
    schedule = build.make_epsilon_schedule(config, 10)
    np.testing.assert_allclose([float(schedule(i)) for i in (0, 15, 20, 25)], [0, 0, 0.1, 0.2], rtol=1e-6)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"epsilon_delay": 1.0}, "Received: --epsilon_delay. Use --epsilon_schedule=linear"),
        (
            {"epsilon_schedule": "linear", "epsilon_delay": 4.0, "epochs": 4},
            "a delay of less than 4. Received: 4",
        ),
    ],
)
def test_a_delay_without_a_rise_is_refused(settings, message):
    with pytest.raises(InputError, match=message):
        TrainConfig(**settings)
