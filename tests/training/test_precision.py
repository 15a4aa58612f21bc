"""Arithmetic in half and in double precision."""

import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf

import athe_tf
from athe_tf import attacks, training
from athe_tf.models.names import HEADS
from athe_tf.programs import build, cost_estimate, precision
from athe_tf.programs.callbacks import last_learning_rate
from athe_tf.programs.config import TrainConfig
from athe_tf.utils.errors import InputError
from tests.small_runs import get_weights, small_cnn_of_one_layer, tiny_batch, tiny_net, tiny_splits

X, Y = tiny_batch()


def make_trainer(policy, **changes):
    """The trainer of a small run. With ReLU, features that are nearly all zero make rounding matter."""
    settings = {
        "framework": "pgd_at", "head": "he", "model": "small_cnn", "epsilon": 0.1, "epochs": 1,
        "batch_size": 16, "activation": "softplus", "lr_schedule": "constant", "learning_rate": 0.05,
    }  # fmt: skip
    config = TrainConfig.from_flags(**settings | {"precision": policy} | changes)
    with small_cnn_of_one_layer():
        return build.make_trainer(config, tiny_splits())


def with_round_weights(trainer):
    """The trainer, with weights that are the same in float32 and float64."""
    rng = np.random.default_rng(0)
    for variable in trainer.net.trainable_variables:
        variable.assign(rng.normal(size=variable.shape).astype("float16") / 4)
    if trainer.averaged is not None:
        trainer.averaged.set_weights(trainer.net.get_weights())
    return trainer


def on_a_processor(monkeypatch, whole, half):
    """Convolutions take these seconds in float32 and in half precision, and there is no accelerator."""
    monkeypatch.setattr(precision, "on_accelerator", lambda: False)
    monkeypatch.setattr(precision, "convolution_times", lambda dtype: (whole, half))


def test_mixed_precision_is_refused_where_it_is_slower_with_both_numbers(monkeypatch):
    on_a_processor(monkeypatch, 0.010, 0.070)
    config = TrainConfig.from_flags(precision="mixed_bfloat16", epochs=1, batch_size=16)
    with pytest.raises(InputError, match=r"take 10\.0 ms in float32 take 70\.0 ms. Leave --precision out"):
        build.make_trainer(config, tiny_splits())
    precision.check_precision("float32")


def test_mixed_precision_is_allowed_where_it_is_faster(monkeypatch):
    on_a_processor(monkeypatch, 0.010, 0.006)
    assert make_trainer("mixed_bfloat16").net.get_layer("conv1").compute_dtype == "bfloat16"


def test_convolutions_are_timed_in_the_precision_that_is_asked_for(monkeypatch):
    seen = []
    real = tf.nn.conv2d

    def recorded(images, *arguments):
        seen.append(images.dtype.name)
        return real(images, *arguments)

    monkeypatch.setattr(tf.nn, "conv2d", recorded)
    times = iter(
        [0.0, 9.0, 9.0, 18.0, 18.0, 22.0, 22.0, 25.0, 25.0, 30.0, 30.0, 32.0, 32.0, 37.0, 37.0, 38.0]
    )
    monkeypatch.setattr(precision.time, "perf_counter", lambda: next(times))
    assert precision.convolution_times.__wrapped__("bfloat16") == (4.0, 1.0)
    assert seen == ["float32"] * 2 + ["bfloat16"] * 2


@pytest.mark.parametrize("name", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision_trains_with_a_head_in_float32(name, monkeypatch):
    monkeypatch.setattr(build, "check_precision", lambda policy: None)
    policy = keras.config.dtype_policy().name
    trainer = make_trainer(name, framework="trades", steps=1)
    assert keras.config.dtype_policy().name == policy
    assert trainer.net.get_layer("conv1").compute_dtype == name.removeprefix("mixed_")
    assert isinstance(trainer.net.layers[-1], athe_tf.CosineDense) and trainer.net(X).dtype == tf.float32
    scaled = isinstance(trainer.optimizer, keras.optimizers.LossScaleOptimizer)
    assert scaled == (name == "mixed_float16")
    np.testing.assert_allclose(last_learning_rate(trainer.optimizer), 0.05)
    before = get_weights(trainer.net)
    loss = trainer.train_on_batch(X, Y, return_dict=True)["loss"]
    assert np.isfinite(loss)
    changed = [not np.array_equal(a, b) for a, b in zip(before, get_weights(trainer.net), strict=True)]
    assert any(changed) and all(np.isfinite(w).all() for w in get_weights(trainer.net))


def test_the_plan_has_bfloat16_beside_float32(monkeypatch):
    monkeypatch.setattr(cost_estimate, "on_accelerator", lambda: False)
    monkeypatch.setattr(cost_estimate, "make_trainer", lambda config, splits: config.precision)
    monkeypatch.setattr(cost_estimate, "seconds_per_step", lambda *_: (0.25, "measured"))
    config = TrainConfig.from_flags(epochs=1, batch_size=16)
    for times, expected in (
        ((0.010, 0.006), "0.25 (measured), 2.00 times as fast: add --precision=mixed_bfloat16"),
        ((0.010, 0.070), "slower on this processor: convolutions take 7.0 times as long"),
    ):
        monkeypatch.setattr(cost_estimate, "convolution_times", lambda dtype, times=times: times)
        assert cost_estimate.bfloat16_row(config, None, 0.5) == [("in bfloat16", expected)]
    half = TrainConfig.from_flags(epochs=1, batch_size=16, precision="mixed_bfloat16")
    assert cost_estimate.bfloat16_row(half, None, 0.5) == []


# Each framework meets a linear head and one of the forms of the margin, and each form several frameworks.
HEADED = [
    (name, head, form)
    for number, name in enumerate(sorted(training.FRAMEWORKS))
    for head, form in (("linear", None), (("he", "cosine"), ("mhe", "angle"), ("he", "arc"))[number % 3])
]


@pytest.mark.parametrize("name, head, form", HEADED)
def test_every_framework_trains_in_mixed_precision_with_a_plain_head_and_a_margin(name, head, form):
    with build.dtype_policy("mixed_float16"):
        net = tiny_net(head)
    assert net(X).dtype == (tf.float16 if head == "linear" else tf.float32)
    framework = training.get(name)
    sized = {"batch_size": len(X)} if "batch_size" in inspect.signature(framework).parameters else {}
    attack = attacks.PGD(0.1, steps=1, step_size=0.1)
    trainer = framework(net, attack, margin=0.0 if form is None else 0.2, margin_form=form, **sized)
    trainer.compile(keras.optimizers.LossScaleOptimizer(training.TorchSGD(0.05)), run_eagerly=True)
    before = get_weights(net)
    logs = trainer.train_on_batch(X, Y, return_dict=True)
    assert np.isfinite(logs["loss"]) and trainer.test_on_batch(X, Y, return_dict=True)["loss"] > 0
    after = get_weights(net)
    assert all(np.isfinite(w).all() for w in after)
    assert any((a != b).any() for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize(
    "changes",
    [
        # From its own start the first gradients of TRADES are nearly rounding errors.
        {"framework": "trades", "steps": 2, "start": "uniform"},
        {"framework": "alp", "steps": 2, "norm": "l2", "epsilon": 1.0, "restarts": 2},
        {"framework": "mart", "steps": 2, "norm": "l1", "epsilon": 3.0},
        {"framework": "free_at", "norm": "l2", "epsilon": 1.0, "replays": 2},
        {"framework": "gradalign", "head": "linear"},
        {"framework": "llr", "preset": "code"},
        {"steps": 2, "awp_gamma": 0.01, "ema": 0.9, "clip_norm": 1.0, "epsilon_schedule": "linear"},
    ],
    ids=lambda changes: changes.get("framework", "pgd_at"),
)
def test_a_step_in_float64_is_the_step_in_float32_with_more_digits(changes):
    precisions = ("float32", "float64")
    trainers = [with_round_weights(make_trainer(precision, **changes)) for precision in precisions]
    losses = [trainer.train_on_batch(X, Y, return_dict=True)["loss"] for trainer in trainers]
    np.testing.assert_allclose(*losses, rtol=1e-5)
    single, double = (get_weights(trainer.net) for trainer in trainers)
    assert {w.dtype.name for w in single} == {"float32"} and {w.dtype.name for w in double} == {"float64"}
    for one, other in zip(single, double, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5, rtol=2e-5)


def test_a_model_in_float64_is_validated_by_any_attack():
    trainer = make_trainer("float64", framework="standard", validation_attack="apgd-ce-2")
    logs = trainer.test_on_batch(X, Y, return_dict=True)
    assert np.isfinite(logs["loss"]) and logs["robust_accuracy"] <= logs["clean_accuracy"]


def test_images_are_crafted_in_float64():
    """Where pixels end shows it: whole steps of 0.1 / 3 away, to more digits than float32 has."""
    trainer = make_trainer("float64", steps=3, step_size=0.1 / 3, start="zero", epsilon=0.5)
    crafted = tf.function(trainer.craft)(tf.constant(X, tf.float64), tf.constant(Y))
    assert crafted.dtype == tf.float64
    inside = (X > 0.2) & (X < 0.8)
    steps = (crafted.numpy() - X)[inside] / (0.1 / 3)
    np.testing.assert_allclose(steps, np.round(steps), atol=1e-12)
    assert np.abs(steps).max() > 0.5


def test_a_model_in_float64_is_saved_exported_and_attacked_like_any_other(tmp_path):
    net = make_trainer("float64").net
    net.save(tmp_path / "net.keras")
    athe_tf.export(net, tmp_path / "exported")
    expected = net(X).numpy()
    loaded = athe_tf.load_model(tmp_path / "net.keras")
    np.testing.assert_allclose(loaded(X), expected, rtol=1e-12)
    np.testing.assert_allclose(athe_tf.victim(tmp_path / "exported").logits(X), expected, rtol=1e-5)
    attack = attacks.get("pgd-2", epsilon=0.1)
    results = [attack.run(model, X, Y) for model in (net, tmp_path / "exported")]
    assert results[0].x_adv.dtype == np.float32
    np.testing.assert_array_equal(results[0].success, results[1].success)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("size", [65504.0, 1.0, 1e-3, 0.0])
def test_gradients_of_every_head_are_finite_in_the_range_of_float16(head, size):
    """From its largest number down to where scale / norm overflows float16: 15 / 65504 = 2.3e-4."""
    with build.dtype_policy("mixed_float16"):
        net = athe_tf.models.build("small_cnn", 4, head=head, input_shape=(8, 8, 1))
    last = net.layers[-1]
    kernel = last.kernel if hasattr(last, "kernel") else last.trainable_variables[0]
    direction = np.random.default_rng(0).uniform(-1, 1, [6, kernel.shape[0]])
    # The last row has the direction of a class weight: its angle is 0.
    direction[-1] = kernel.numpy()[:, 1]
    direction /= np.abs(direction).max(axis=1, keepdims=True)
    features = tf.constant((size * direction).astype("float16"))
    labels = tf.constant([0, 1, 2, 3, 0, 1])
    loss = athe_tf.MarginCrossentropy(margin=0.0 if head == "linear" else 0.2, scale=15.0)
    with tf.GradientTape() as tape:
        tape.watch(features)
        value = loss(labels, last(features))
    gradients = tape.gradient(value, [features, *last.trainable_variables])
    assert np.isfinite(value) and gradients[0].dtype == tf.float16
    assert all(np.isfinite(gradient).all() for gradient in gradients)
