"""FreeAT by hand, FastAT's step, and the guard against catastrophic overfitting."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from athe_tf import attacks, training
from athe_tf.programs.build import make_trainer
from athe_tf.programs.callbacks import OverfittingGuard
from athe_tf.programs.config import TrainConfig
from athe_tf.programs.run import train
from athe_tf.programs.run_state import RunProgress, load_state, save_state, variables_of
from athe_tf.programs.workdir import Workdir
from tests.small_runs import after_step, assert_equal_weights, get_weights, tiny_batch, tiny_net, tiny_splits

EPSILON, RATE, CLASSES, COUNT = 0.1, 0.5, 3, 4
SHAPE = (2, 2, 1)


def linear_trainer(norm="linf", replays=2, **kwargs):
    inputs = keras.Input(SHAPE)
    head = keras.layers.Dense(CLASSES)
    net = keras.Model(inputs, head(keras.layers.Flatten()(inputs)))
    rng = np.random.default_rng(0)
    head.kernel.assign(rng.normal(size=head.kernel.shape))
    trainer = training.FreeAT(net, attacks.FGSM(EPSILON, norm), replays=replays, batch_size=COUNT, **kwargs)
    trainer.compile(training.TorchSGD(RATE, momentum=0.0))
    return trainer, head


def linear_batch(seed):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.3, 0.7, (COUNT, *SHAPE)).astype("float32")
    x[0, 0, 0, 0], x[1, 1, 1, 0] = 1.0, 0.0  # pixels that noise pushes out of the box
    return x, rng.integers(0, CLASSES, COUNT).astype("int32")


def ascent(gradient, norm):
    if norm == "linf":
        return np.sign(gradient)
    return gradient / np.maximum(np.linalg.norm(gradient, axis=1, keepdims=True), 1e-12)


def into_ball(noise, norm):
    if norm == "linf":
        return np.clip(noise, -EPSILON, EPSILON)
    return noise * np.minimum(1, EPSILON / np.maximum(np.linalg.norm(noise, axis=1, keepdims=True), 1e-12))


def replay_by_hand(x, y, noise, kernel, bias, norm, in_box=False):
    """One replay of a softmax regression: both gradients at the same weights and the same noise."""
    moved = x.reshape(COUNT, -1).astype("float64") + noise
    images = moved if in_box else np.clip(moved, 0, 1)
    logits = images @ kernel + bias
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    slope = (p - np.eye(CLASSES)[y]) / COUNT
    for_noise = np.where((images == moved), slope @ kernel.T, 0.0)
    noise = into_ball(noise + EPSILON * ascent(for_noise, norm), norm)
    if in_box:
        flat = x.reshape(COUNT, -1)
        noise = np.clip(flat + noise, 0, 1) - flat
    return noise, kernel - RATE * images.T @ slope, bias - RATE * slope.sum(0)


@pytest.mark.parametrize("norm, in_box", [("linf", False), ("l2", False), ("linf", True)])
def test_two_replays_of_two_batches_equal_a_computation_by_hand(norm, in_box):
    trainer, head = linear_trainer(norm, noise_in_box=in_box)
    noise = np.zeros((COUNT, 4))
    kernel, bias = np.array(head.kernel, "float64"), np.array(head.bias, "float64")
    # The second batch begins with the noise of the first.
    for seed in (1, 2):
        x, y = linear_batch(seed)
        for _ in range(2):
            noise, kernel, bias = replay_by_hand(x, y, noise, kernel, bias, norm, in_box)
        trainer.train_on_batch(x, y)
        np.testing.assert_allclose(np.reshape(trainer.noise, (COUNT, -1)), noise, atol=1e-6)
        np.testing.assert_allclose(head.kernel, kernel, atol=1e-5)
        np.testing.assert_allclose(head.bias, bias, atol=1e-5)
    assert int(trainer.optimizer.iterations) == 4


def test_a_saturated_pixel_keeps_its_noise():
    trainer, _ = linear_trainer(replays=1)
    x, y = linear_batch(1)
    start = np.full((COUNT, *SHAPE), 0.04, "float32")
    trainer.noise.assign(start)
    trainer.train_on_batch(x, y)
    moved = np.array(trainer.noise) != start
    assert not moved[0, 0, 0, 0]  # 1 + 0.04 has left the box
    assert moved[1, 1, 1, 0]  # 0 + 0.04 has not
    assert moved.sum() == moved.size - 1


def test_the_noise_stays_in_the_ball_survives_epochs_and_smaller_batches():
    trainer, _ = linear_trainer()
    x, y = linear_batch(1)
    trainer.fit(x, y, batch_size=COUNT, epochs=3, verbose=0, shuffle=False)
    kept = np.array(trainer.noise)
    assert np.abs(kept).max() <= EPSILON + 1e-7 and np.abs(kept).max() > 0
    trainer.train_on_batch(x[:2], y[:2])
    np.testing.assert_array_equal(np.array(trainer.noise)[2:], kept[2:])


def test_the_noise_is_in_the_backup(tmp_path):
    trainer, _ = linear_trainer()
    trainer.train_on_batch(*linear_batch(1))
    assert any(variable is trainer.noise for variable in variables_of(trainer))
    save_state(tmp_path / "state.npz", trainer, RunProgress())
    other, _ = linear_trainer()
    other.optimizer.build(other.net.trainable_variables)
    load_state(tmp_path / "state.npz", other)
    np.testing.assert_array_equal(other.noise, trainer.noise)
    assert np.abs(other.noise).max() > 0


def test_the_margin_is_part_of_what_the_noise_climbs():
    # The margin changes the weights of the classes in the gradient, and so its direction.
    noises = []
    for margin in (0.0, 0.5):
        trainer = training.FreeAT(
            tiny_net("he"), attacks.FGSM(0.1, "l2"), replays=1, batch_size=16, margin=margin
        )
        trainer.compile(training.TorchSGD(0.01), run_eagerly=True)
        trainer.train_on_batch(*tiny_batch())
        noises.append(np.array(trainer.noise))
    assert np.abs(noises[0] - noises[1]).max() > 1e-4


def run_config(framework, **changes):
    settings = {"framework": framework, "epochs": 4, "batch_size": 16, "epsilon": 0.1, "augmentation": "none"}
    return TrainConfig.from_flags(**settings | changes)


def without_validation():
    # 64 images, 4 steps an epoch; nothing to compile for validation.
    return dataclasses.replace(tiny_splits(), validation=None)


def test_the_rate_of_free_at_is_counted_in_updates():
    config = run_config("free_at", replays=3, lr_schedule="cyclic", learning_rate=0.04)
    rate = make_trainer(config, without_validation()).optimizer._learning_rate
    assert rate.steps == 4 * 4 * 3
    np.testing.assert_allclose([float(rate(s)) for s in (0, 12, 24, 36, 48)], [0, 0.02, 0.04, 0.02, 0])


def test_fast_at_steps_by_five_quarters_of_epsilon_and_projects():
    config = run_config("fast_at", model="small_cnn", head="he")
    trainer = make_trainer(config, without_validation())
    assert trainer.bn_mode == "train"
    np.testing.assert_allclose(trainer.attack.step_size, 0.125)
    x = np.full((16, 8, 8, 1), 0.5, "float32")
    y = np.arange(16, dtype="int32") % 4
    delta = trainer.craft(tf.constant(x), tf.constant(y)).numpy() - x
    # From u uniform in +-epsilon, a step of 1.25 epsilon ends between 0.25 epsilon and epsilon, and at
    # epsilon itself when u > -0.25 epsilon in its direction: five times in eight.
    assert np.abs(delta).max() <= 0.1 + 1e-6 and np.abs(delta).min() >= 0.025 - 1e-6
    np.testing.assert_allclose(np.mean(np.abs(delta) > 0.0999), 5 / 8, atol=0.06)


# -- the guard ----------------------------------------------------------------------------------------------


def guarded(tmp_path, accuracies, progress=None):
    trainer = training.Standard(tiny_net())
    guard = OverfittingGuard(
        tiny_batch(), attacks.PGD(0.1, steps=1), 0.2, tmp_path / "kept.npz", progress or RunProgress()
    )
    guard.set_model(trainer)
    measured = iter(accuracies)
    guard.robust_accuracy = lambda: next(measured)
    return guard, trainer


def end_epoch(guard, trainer, epoch):
    """Other weights in each epoch, and the callback at its end."""
    for variable in trainer.net.variables:
        variable.assign(np.full(variable.shape, float(epoch)))
    logs: dict = {}
    guard.on_epoch_end(epoch, logs)
    return logs


def test_the_guard_stops_at_a_collapse_and_restores_the_epoch_before(tmp_path):
    # A fall of 0.2 is allowed, more is not.
    guard, trainer = guarded(tmp_path, [0.5, 0.7, 0.5, 0.25])
    for epoch in range(3):
        end_epoch(guard, trainer, epoch)
        assert guard.progress.stopped is None
    logs = end_epoch(guard, trainer, 3)
    assert logs == {"probe_accuracy": 0.25} and trainer.stop_training
    assert "dropped from 50.0% to 25.0%" in guard.progress.stopped
    assert "weights of epoch 3 are kept" in guard.progress.stopped
    assert all(np.all(np.asarray(v) == 2.0) for v in trainer.net.variables)


def test_a_guard_that_was_resumed_remembers(tmp_path):
    guard, trainer = guarded(tmp_path, [0.5, 0.7])
    end_epoch(guard, trainer, 0)
    end_epoch(guard, trainer, 1)
    resumed, other = guarded(tmp_path, [0.4], RunProgress(notes=dict(guard.progress.notes)))
    end_epoch(resumed, other, 2)
    assert resumed.progress.stopped is not None
    assert all(np.all(np.asarray(v) == 1.0) for v in other.net.variables)


def test_the_guard_measures_robust_accuracy_and_changes_nothing(tmp_path):
    net = tiny_net()
    x, _ = tiny_batch()
    labels = np.asarray(net(x)).argmax(1).astype("int32")
    attack = attacks.PGD(0.0, steps=1)
    guard = OverfittingGuard((x, labels), attack, 0.2, tmp_path / "kept.npz", RunProgress())
    guard.set_model(training.Standard(net))
    before = get_weights(net)
    assert guard.robust_accuracy() == 1.0
    labels[:4] = (labels[:4] + 1) % 4
    assert guard.robust_accuracy() == 0.75
    assert_equal_weights(before, get_weights(net))


def test_a_run_that_collapses_ends_the_same_whether_it_was_killed_or_not(tmp_path, monkeypatch):
    splits = without_validation()
    accuracies = {1: 0.5, 2: 0.6, 3: 0.1}

    def by_epoch(self):
        return accuracies[int(self.model.optimizer.iterations) // 4]

    monkeypatch.setattr(OverfittingGuard, "robust_accuracy", by_epoch)
    monkeypatch.setattr("athe_tf.programs.run.export", lambda *args, **kwargs: None)
    lines: list[str] = []

    def run(name):
        config = run_config("fast_at", backup_minutes=0.0, workdir=str(tmp_path / name))
        trainer = train(config, splits, Workdir(config.workdir), write=lambda text, **_: lines.append(text))
        return get_weights(trainer.net), Workdir(config.workdir).metrics.read_text().splitlines()

    expected, rows = run("straight")
    assert len(rows) == 1 + 3 and "probe_accuracy" in rows[0]
    assert any("dropped from 60.0% to 10.0%" in line for line in lines)

    class Killed(Exception):
        pass

    def kill():
        raise Killed

    with pytest.raises(Killed), after_step(10, kill):  # in the middle of the epoch that collapses
        run("killed")
    resumed, _ = run("killed")
    assert_equal_weights(expected, resumed)
    assert not (tmp_path / "killed" / "backup").exists()
