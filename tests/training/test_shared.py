"""What all frameworks share: averaged weights, clipped gradients, early stopping."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import athe_tf
from athe_tf import attacks, training
from athe_tf.programs.callbacks import EarlyStopping
from athe_tf.programs.config import TrainConfig
from athe_tf.programs.run import train
from athe_tf.programs.run_state import RunProgress, load_state, save_state
from athe_tf.programs.workdir import Workdir
from athe_tf.utils.errors import InputError
from tests.small_runs import assert_equal_weights, get_weights, tiny_batch, tiny_net, tiny_splits

X, Y = tiny_batch()


def standard(ema=0.0, clip_norm=None, rate=0.5, validation_attack=None):
    trainer = training.Standard(
        tiny_net(),
        average=training.EMA(ema) if ema else None,
        clip_norm=clip_norm,
        validation_attack=validation_attack,
    )
    trainer.compile(training.TorchSGD(rate, momentum=0.0))
    return trainer


def values(variables):
    return [np.array(v) for v in variables]


def test_the_average_follows_its_closed_form_and_copies_the_statistics():
    trainer = standard(ema=0.2)
    expected = values(trainer.net.trainable_variables)
    # min(0.2, (1 + k) / (10 + k)): 0.1, 2/11, and from then on 0.2.
    for kept in (0.1, 2 / 11, 0.2, 0.2):
        trainer.train_on_batch(X, Y)
        weights = values(trainer.net.trainable_variables)
        expected = [kept * a + (1 - kept) * w for a, w in zip(expected, weights, strict=True)]
        for average, value in zip(trainer.averaged.trainable_variables, expected, strict=True):
            np.testing.assert_allclose(average, value, atol=1e-6)
    assert_equal_weights(
        values(trainer.net.non_trainable_variables), values(trainer.averaged.non_trainable_variables)
    )


def test_the_average_of_a_projected_head_stays_on_the_sphere():
    inputs = keras.Input((8, 8, 1))
    head = athe_tf.CosineDense(4, weight_norm="project")
    trainer = training.Standard(
        keras.Model(inputs, head(keras.layers.Flatten()(inputs))), average=training.EMA(0.9)
    )
    trainer.compile(training.TorchSGD(5.0), run_eagerly=True)
    for _ in range(2):
        trainer.train_on_batch(X, Y)
    kernel = np.array(trainer.averaged.layers[-1].kernel)
    np.testing.assert_allclose(np.linalg.norm(kernel, axis=0), 1.0, rtol=1e-5)
    assert np.abs(kernel - np.array(head.kernel)).max() > 1e-3


def test_free_at_averages_after_every_replay():
    seen = []

    class Watched(training.EMA):
        def after_update(self, net, updates):
            seen.append(int(updates))

    average = Watched(0.999)
    trainer = training.FreeAT(tiny_net(), attacks.FGSM(0.1), replays=3, batch_size=16, average=average)
    trainer.compile(training.TorchSGD(0.1), run_eagerly=True)
    trainer.train_on_batch(X, Y)
    assert seen == [1, 2, 3]


def test_the_average_is_what_is_validated_predicted_and_saved(tmp_path):
    trainer = standard(ema=0.9, validation_attack=attacks.PGD(0.05, steps=1))
    trainer.averaged.set_weights(tiny_net(seed=5).get_weights())
    other = training.Standard(trainer.averaged, validation_attack=attacks.PGD(0.05, steps=1))
    other.compile()
    logs = trainer.evaluate(X, Y, verbose=0, return_dict=True)
    assert logs == other.evaluate(X, Y, verbose=0, return_dict=True)
    np.testing.assert_array_equal(trainer(X), trainer.averaged(X))
    trainer.save(tmp_path / "m.keras")
    assert_equal_weights(
        get_weights(keras.models.load_model(tmp_path / "m.keras")), get_weights(trainer.averaged)
    )


def test_without_an_average_the_net_itself_is_shipped():
    trainer = standard()
    assert trainer.averaged is None and trainer.shipped is trainer.net


@pytest.mark.parametrize("loss_scale", [None, 1024.0])
def test_clipping_shortens_the_update_and_keeps_its_direction(loss_scale):
    moves = []
    for clip_norm in (None, 0.01):
        trainer = standard(clip_norm=clip_norm)
        if loss_scale:
            optimizer = keras.optimizers.LossScaleOptimizer(trainer.optimizer, initial_scale=loss_scale)
            trainer.compile(optimizer)
        before = values(trainer.net.trainable_variables)
        trainer.train_on_batch(X, Y)
        after = values(trainer.net.trainable_variables)
        moves.append(np.concatenate([(a - b).ravel() for a, b in zip(after, before, strict=True)]))
    free, clipped = moves
    np.testing.assert_allclose(np.linalg.norm(clipped), 0.5 * 0.01, rtol=1e-3)
    np.testing.assert_allclose(clipped / np.linalg.norm(clipped), free / np.linalg.norm(free), atol=1e-3)


def test_a_gradient_that_is_short_enough_is_not_changed():
    results = []
    for clip_norm in (None, 1e6):
        trainer = standard(clip_norm=clip_norm)
        trainer.train_on_batch(X, Y)
        results.append(get_weights(trainer.net))
    assert_equal_weights(*results)


def test_early_stopping_waits_its_patience_and_says_why():
    progress = RunProgress()
    callback = EarlyStopping(2, progress)
    callback.set_model(tiny_net())
    callback.on_epoch_end(0)  # nothing was measured yet
    # Epoch 3 ties with epoch 2, which is no improvement.
    for epoch, accuracy in enumerate((0.4, 0.5, 0.5)):
        assert progress.stopped is None
        progress.history.append({"epoch": epoch + 1, "val_robust_accuracy": accuracy})
        callback.on_epoch_end(epoch)
    assert progress.stopped is None
    progress.history.append({"epoch": 4, "val_robust_accuracy": 0.4})
    callback.on_epoch_end(3)
    assert progress.stopped == (
        "Stopped after epoch 4: robust validation accuracy has not improved since epoch 2."
    )
    assert callback.model.stop_training


def test_a_run_with_average_and_early_stopping_ends_early_and_ships_the_average(tmp_path):
    config = TrainConfig.from_flags(
        framework="standard",
        epochs=5,
        batch_size=16,
        epsilon=0.1,
        # So slow that no prediction changes: the first epoch stays the best.
        learning_rate=1e-9,
        lr_schedule="constant",
        ema=0.99,
        early_stopping=2,
        validation_attack="pgd-1",
        augmentation="none",
        workdir=str(tmp_path / "run"),
    )
    lines: list[str] = []
    trainer = train(
        config, tiny_splits(), Workdir(config.workdir), write=lambda text, **_: lines.append(text)
    )
    assert len(Workdir(config.workdir).metrics.read_text().splitlines()) == 1 + 3
    assert any("has not improved since epoch" in line for line in lines)
    final = keras.models.load_model(Workdir(config.workdir).final)
    assert_equal_weights(get_weights(final), get_weights(trainer.averaged))
    exported = tf.saved_model.load(str(Workdir(config.workdir).saved_model))
    np.testing.assert_allclose(exported.serve(X), trainer.averaged(X), atol=1e-5)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: training.EMA(1.0), r"decay must lie in \[0, 1\)"),
        (lambda: training.Standard(tiny_net(), clip_norm=0.0), "clip_norm must be a finite number larger"),
    ],
)
def test_impossible_arguments_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_the_average_is_in_the_backup(tmp_path):
    trainer = standard(ema=0.9)
    trainer.train_on_batch(X, Y)
    save_state(tmp_path / "state.npz", trainer, RunProgress())
    other = standard(ema=0.9)
    other.optimizer.build(other.net.trainable_variables)
    load_state(tmp_path / "state.npz", other)
    assert_equal_weights(get_weights(trainer.averaged), get_weights(other.averaged))
    assert_equal_weights(get_weights(trainer.net), get_weights(other.net))
