"""Labels that are probabilities, through crafting, losses and metrics; label smoothing in the attack."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from athe_tf import attacks, data, training
from athe_tf.training.options import OPTIONS
from athe_tf.utils.errors import InputError
from tests.small_runs import assert_equal_weights, get_weights, tiny_net
from tests.training.test_contract import X, Y, make

ONE_HOT = np.eye(4, dtype="float32")[Y]
SOFT = np.random.default_rng(0).dirichlet(np.ones(4), len(X)).astype("float32")


def softmax(logits):
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("name", sorted(training.FRAMEWORKS))
def test_one_hot_labels_train_as_classes_do(name):
    """And mixed ones, whose losses and adversarial examples are others, are finite."""
    found = []
    for labels in (Y, ONE_HOT, SOFT):
        trainer = make(name, seed=3)
        logs = trainer.train_on_batch(X, labels, return_dict=True)
        assert all(np.isfinite(value) for value in logs.values())
        found.append((logs, get_weights(trainer.net)))
    assert found[0][0] == found[1][0]
    assert_equal_weights(found[0][1], found[1][1])
    assert found[0][0]["loss"] != found[2][0]["loss"]


def test_the_loss_of_a_soft_label_equals_numpy():
    logits = np.random.default_rng(1).normal(0, 3, (len(X), 4))
    trainer = make("pgd_at", label_smoothing=0.1)  # margin 0.2, scale 15
    log_p = np.log(softmax(logits - 15 * 0.2 * SOFT))
    expected = -((0.9 * SOFT + 0.1 / 4) * log_p).sum(axis=1)
    np.testing.assert_allclose(trainer.crossentropy(SOFT, tf.constant(logits)), expected, rtol=1e-6)
    np.testing.assert_allclose(trainer.with_margin(SOFT, tf.constant(logits)), logits - 3 * SOFT, atol=1e-6)


def linear_net():
    keras.utils.set_random_seed(0)
    flat = keras.layers.Flatten()
    return keras.Sequential([keras.Input((8, 8, 1)), flat, keras.layers.Dense(4, name="head")])


@pytest.mark.parametrize(
    "labels, share", [(SOFT, 0.0), (Y, 0.3), (SOFT, 0.3)], ids=["soft", "smooth", "both"]
)
@pytest.mark.parametrize("name", ["pgd_at", "alp", "mart", "fast_at", "n_fgsm", "gradalign", "trades"])
def test_an_attack_climbs_the_crossentropy_to_the_label(name, labels, share):
    """A linear model, one step of sign ascent: along the signs of `W (p - label)`, p at the start."""
    options = {"attack_from": "label"} if name == "trades" else {}
    attack = attacks.PGD(0.1, steps=1, step_size=0.05, start="uniform" if name == "trades" else None)
    trainer = training.get(name)(linear_net(), attack, attack_smoothing=share, seed=3, **options)
    trainer.compile(training.TorchSGD(0.1))
    start = np.asarray(starting_point(trainer, name))
    kernel, bias = trainer.net.get_weights()
    target = (1 - share) * (labels if labels.ndim == 2 else ONE_HOT) + share / 4
    slope = ((softmax(start.reshape(len(X), -1) @ kernel + bias) - target) @ kernel.T).reshape(X.shape)
    crafted = trainer.craft(tf.constant(X), tf.constant(labels))
    moved = np.asarray(getattr(crafted, "images", crafted)) - start
    free = (np.abs(slope) > 1e-5) & (np.abs(moved) > 1e-6)  # where neither ball nor box stops the step
    assert free.mean() > 0.5
    np.testing.assert_array_equal(np.sign(moved)[free], np.sign(slope)[free])


def starting_point(trainer, name):
    """Where the attack starts: what it returns if its step has nearly no length."""
    if name == "gradalign":
        return X
    attack = trainer.attack.replace(step_size=1e-9)
    if name == "n_fgsm":
        noise = attack.threat.uniform_start(tf.constant(X), tf.range(len(X)), trainer.step_seed())
        return tf.clip_by_value(X + 2 * noise, 0, 1)
    return attack(trainer.victim(False), tf.constant(X), tf.constant(Y), seed=trainer.step_seed())


def test_trades_attacks_the_clean_prediction_unless_told_otherwise():
    attack = attacks.PGD(0.1, steps=2)
    plain, published = (
        training.TRADES(tiny_net(), attack, attack_from=source, seed=1) for source in ("prediction", "label")
    )
    for trainer in (plain, published):
        trainer.compile(training.TorchSGD(0.1))
    x, y = tf.constant(X), tf.constant(SOFT)
    np.testing.assert_array_equal(plain.craft(x, y), plain.craft(x, tf.constant(Y)))
    assert (published.craft(x, y).numpy() != published.craft(x, tf.constant(Y)).numpy()).any()
    # The pass for the clean prediction is not needed.
    assert plain.cost().forward == published.cost().forward + 1


def test_metrics_see_the_most_probable_class():
    trainer = training.Standard(tiny_net(), attack=attacks.PGD(0.0, steps=1))
    trainer.compile(training.TorchSGD(0.0), metrics=["accuracy"])
    labels = 0.6 * ONE_HOT + 0.1
    logs = [trainer.evaluate(X, each, verbose=0, return_dict=True) for each in (Y, labels)]
    assert logs[0]["accuracy"] == logs[1]["accuracy"] == logs[1]["clean_accuracy"]
    assert logs[1]["robust_accuracy"] == logs[1]["accuracy"] and logs[0]["loss"] != logs[1]["loss"]
    trained = trainer.fit(X, labels, verbose=0, validation_data=(X, Y), batch_size=16).history
    assert trained["val_accuracy"] == [logs[0]["accuracy"]] and "accuracy" in trained


@pytest.mark.parametrize("mode", ["graph", "run_eagerly", "jit_compile"])
def test_labels_that_are_no_probabilities_are_refused_before_any_update(mode):
    trainer = training.PGDAT(tiny_net(batch_norm=False), attacks.PGD(0.1, steps=1))
    trainer.compile(training.TorchSGD(0.1), **({} if mode == "graph" else {mode: True}))
    before = get_weights(trainer.net)
    for labels, message in (
        (2 * SOFT, r"must not be negative and add up to 1 .* sums from 2 to 2. Use `sample_weight`"),
        (SOFT - np.float32([0.5, 0.5, -0.5, -0.5]), "must not be negative and add up to 1"),
        (SOFT * np.nan, "must not be negative and add up to 1"),
    ):
        with pytest.raises(InputError, match=message):
            trainer.train_on_batch(X, labels)
    with pytest.raises(InputError, match=r"probabilities of shape \[batch, 4\].*\(16, 3\).*one logit per"):
        trainer.train_on_batch(X, np.full([len(X), 3], 1 / 3, "float32"))
    assert_equal_weights(before, get_weights(trainer.net))


def test_mixed_batches_train():
    source = data.ImageSet((255 * X).astype("uint8"), Y, num_classes=4)
    trainer = training.TRADES(tiny_net(), attacks.PGD(0.1, steps=2), attack_from="label")
    trainer.compile(training.TorchSGD(0.05))
    logs = trainer.fit(source.stream(8, seed=0, cutmix=1.0, epochs=2), verbose=0).history
    assert np.isfinite(logs["loss"]).all() and int(trainer.optimizer.iterations) == 4


@pytest.mark.parametrize("name", ["standard", "trades", "free_at", "llr", "cure", "liet"])
def test_smoothing_of_an_attack_without_labels_is_refused(name):
    assert not OPTIONS[name]().attack_has_labels
    with pytest.raises(
        InputError, match=f"'{name}' has no attack with a loss of.*attack_smoothing=0.1. Leave"
    ):
        make(name, attack_smoothing=0.1)
