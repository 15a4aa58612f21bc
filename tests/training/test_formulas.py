"""Schedules, seeds, defaults and callbacks of training, by their formulas and at their boundaries."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from athe_tf import attacks, training
from athe_tf.distribution.strategy import Distribution
from athe_tf.programs.callbacks import (
    Backup,
    EarlyStopping,
    EpochLine,
    OverfittingGuard,
    PeriodKeeper,
    Records,
    last_learning_rate,
)
from athe_tf.programs.run_state import RunProgress
from athe_tf.training.averaging import EMA
from athe_tf.training.awp import AWP
from athe_tf.training.options import OPTIONS
from athe_tf.training.schedules import Cyclic, EpsilonSchedule, Periodic, Piecewise, make_schedule
from athe_tf.utils import rng
from tests.small_runs import tiny_batch, tiny_net

X, Y = tiny_batch()


def compiled(framework, *args, net=None, rate=0.1, **kwargs):
    trainer = framework(tiny_net() if net is None else net, *args, **kwargs)
    trainer.compile(training.TorchSGD(rate, momentum=0.0), run_eagerly=True)
    return trainer


# -- schedules ---------------------------------------------------------------------------------------------


def test_a_drop_at_a_reset_is_dropped_and_one_at_the_beginning_is_not():
    schedule = make_schedule("piecewise", 0.1, 10, 20, (5, 10, 15), 0.1, resets=(10,))
    rates = [float(schedule(step)) for step in (49, 50, 99, 100, 149, 150, 199)]
    np.testing.assert_allclose(rates, [0.1, 0.01, 0.01, 0.1, 0.1, 0.01, 0.01], rtol=1e-5)
    at_once = make_schedule("piecewise", 0.1, 10, 20, (0,), 0.1)
    np.testing.assert_allclose(float(at_once(0)), 0.01, rtol=1e-5)


def test_periods_begin_at_rounded_steps_and_count_from_there():
    schedule = make_schedule("cosine", 0.2, 3, 5, (), 0.1, resets=(2.5,))
    assert isinstance(schedule, Periodic) and schedule.starts == [0, 8]
    assert [period.steps for period in schedule.schedules] == [8, 8]
    np.testing.assert_allclose([float(schedule(step)) for step in (0, 4, 8, 12)], [0.2, 0.1, 0.2, 0.1])


def test_rates_stay_at_their_end_after_the_last_step():
    assert float(make_schedule("cosine", 0.2, 10, 5, (), 0.1)(80)) == pytest.approx(0.0, abs=1e-8)
    assert float(Cyclic(0.2, 100, peak=0.2)(150)) == pytest.approx(0.0, abs=1e-8)
    np.testing.assert_allclose([float(Cyclic(0.2, 100, peak=0.2)(s)) for s in (10, 20, 60)], [0.1, 0.2, 0.1])
    assert Piecewise(0.1, [5]).factor == 0.1


def test_a_rising_epsilon_meets_its_corners():
    schedule = EpsilonSchedule("cosine", 0.4, [10, 20], lowest=0.1, highest=0.5)
    # At the end of the first period the second begins; at the end of the last epsilon stays.
    values = [float(schedule(step)) for step in (0, 5, 9, 10, 15, 20, 30)]
    nearly = 0.1 + 0.4 * (1 - np.cos(0.9 * np.pi)) / 2
    np.testing.assert_allclose(values, [0.1, 0.3, min(nearly, 0.4), 0.1, 0.3, 0.4, 0.4], rtol=1e-5)
    delayed = EpsilonSchedule("linear", 0.4, [10, 20], warm_up=4, delay=2)
    values = [float(delayed(step)) for step in (0, 2, 4, 6, 9, 10, 12, 14)]
    np.testing.assert_allclose(values, [0, 0, 0.2, 0.4, 0.4, 0, 0.2, 0.4], atol=1e-7)
    assert EpsilonSchedule("linear", 0.4, [10]).highest == 0.8


# -- what a step sees --------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_noise_of_free_at_is_brought_into_a_ball_that_has_become_smaller(norm):
    seen = []

    class Watched(training.FreeAT):
        def training_loss(self, x, x_adv, y):
            seen.append((float(self.epsilon()), self.attack.threat.distance(x, x_adv).numpy().max()))
            return super().training_loss(x, x_adv, y)

    radii = tf.constant([0.2, 0.2, 0.05, 0.05])
    trainer = compiled(
        Watched,
        attacks.FGSM(0.2, norm),
        replays=2,
        batch_size=16,
        epsilon_schedule=lambda update: radii[tf.cast(update, tf.int32)],
    )
    for _ in range(2):
        trainer.train_on_batch(0.4 + 0.2 * X, Y)
    assert [epsilon for epsilon, _ in seen] == pytest.approx([0.2, 0.2, 0.05, 0.05])
    assert all(distance <= epsilon * (1 + 1e-5) for epsilon, distance in seen)
    assert seen[1][1] > 0.19 and seen[2][1] > 0.04


def test_every_update_and_every_seed_has_its_own_starts():
    seeds = []
    for seed in (0, 1):
        trainer = compiled(training.PGDAT, attacks.PGD(0.1, steps=1), seed=seed)
        for _ in range(2):
            seeds.append(int(trainer.step_seed()))
            trainer.optimizer.iterations.assign_add(1)
    assert len(set(seeds)) == 4
    assert seeds[1] == int(rng.fold(0, 1))


def test_every_validated_batch_has_a_seed_of_its_own_and_an_evaluation_begins_with_the_first():
    seeds = []

    class Watched(attacks.PGD):
        def __call__(self, model, x, y, ids=None, seed=0):
            seeds.append(int(seed))
            return super().__call__(model, x, y, ids=ids, seed=seed)

    trainer = compiled(training.Standard, validation_attack=Watched(0.1, steps=1), seed=5)
    for _ in range(2):
        trainer.evaluate(X, Y, batch_size=8, verbose=0)
    expected = [int(rng.fold(5, 1, batch)) for batch in (0, 1)]
    assert seeds == expected * 2


def test_images_are_drawn_by_their_position_in_the_batch():
    trainer = compiled(training.PGDAT, attacks.PGD(0.1, steps=1, step_size=1e-9))
    twice = np.concatenate([X[:4], X[:4]]).astype("float32") * 0.5 + 0.25
    noise = trainer.craft(tf.constant(twice), tf.constant(np.concatenate([Y[:4], Y[:4]]))).numpy() - twice
    assert np.abs(noise[:4] - noise[4:]).max() > 0.01


def test_the_loss_of_a_step_is_the_weighted_mean_over_the_batch():
    trainer = compiled(training.Standard)
    weights = np.linspace(0, 2, 16).astype("float32")
    each = trainer.training_loss(X, X, Y).losses.numpy()
    _, loss, _ = trainer.gradients(X, X, Y, weights)
    np.testing.assert_allclose(loss, (each * weights).mean(), rtol=1e-6)


def test_statistics_of_the_first_pass_of_awp_are_forgotten():
    trainer = compiled(training.Standard, weight_perturbation=AWP(0.01), rate=0.0)
    plain = compiled(training.Standard, rate=0.0)
    for each in (trainer, plain):
        each.train_on_batch(X, Y)
    once = np.array(plain.net.layers[2].moving_mean)
    again = np.array(trainer.net.layers[2].moving_mean)
    # The kernels were moved by 1% in the pass that counts; a second update would add about 90% of it.
    np.testing.assert_allclose(again, once, atol=0.05 * np.abs(once).max())


def test_an_average_keeps_a_tenth_of_the_first_weights_and_at_most_its_decay():
    net = tiny_net()
    average = EMA(0.5)
    averaged = average.attach(net)
    weight, kept = net.trainable_variables[0], averaged.trainable_variables[0]
    kept.assign(np.ones(kept.shape))
    weight.assign(np.zeros(weight.shape))
    for update, share in ((1, 0.1), (9, 9 / 18), (1000, 0.5)):
        kept.assign(np.ones(kept.shape))
        average.after_update(net, tf.constant(update))
        np.testing.assert_allclose(kept, share, rtol=1e-6)


def test_gradalign_looks_at_another_point_than_an_attack_would_start_from():
    drawn = []
    trainer = compiled(training.GradAlign, attacks.PGD(0.1, steps=1))
    uniform = trainer.attack.threat.uniform_start

    def watched(x, ids, seed):
        drawn.append(int(seed))
        return uniform(x, ids, seed)

    trainer.attack.threat.uniform_start = watched
    trainer.train_on_batch(X, Y)
    assert drawn == [int(rng.fold(rng.fold(0, 0), 1))]


# -- defaults ----------------------------------------------------------------------------------------------

LLR = {
    "variant": "llr",
    "preset": "paper",
    "nominal_weight": None,
    "gamma_weight": None,
    "slope_weight": None,
    "rule": None,
    "tangent_gradient": None,
}
#: Options; then step size at epsilon 0.8, steps, start, mode of batch normalization, guard, what chooses.
DEFAULTS = {
    "standard": ({}, 0.2, 10, "uniform", None, 0.0, "clean"),
    "pgd_at": ({}, 0.2, 10, "uniform", "eval", 0.0, "robust"),
    "alp": (
        {"pairing": 0.5, "pairing_form": "mse", "clean_weight": 0.5},
        *(0.2, 10, "uniform", "eval", 0.0, "robust"),
    ),
    "trades": (
        {"beta": 6.0, "divergence": "kl", "attack_from": "prediction"},
        *(0.2, 10, "gaussian", "eval", 0.0, "robust"),
    ),
    "mart": ({"beta": 6.0}, 0.2, 10, "gaussian", "eval", 0.0, "robust"),
    "free_at": ({"replays": 8, "noise_in_box": False}, 0.8, 1, "uniform", "train", 0.0, "robust"),
    "fast_at": ({}, 1.0, 1, "uniform", "train", 0.2, "robust"),
    "n_fgsm": ({"noise": 2.0}, 0.8, 1, "uniform", "train", 0.2, "robust"),
    "gradalign": ({"alignment": 0.2}, 1.0, 1, "uniform", "train", 0.2, "robust"),
    "liet": (
        {"consistency": 100.0, "relaxation": 0.6, "refresh": 20},
        *(0.8, 1, "uniform", "train", 0.2, "robust"),
    ),
    "llr": (LLR, 0.2, 10, "uniform", "frozen_clean", 0.0, "robust"),
    "cure": (
        {"curvature_weight": 4.0, "curvature_step": 1.5},
        *(0.2, 10, "uniform", "frozen_clean", 0.0, "robust"),
    ),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_defaults_are_the_published_ones(name):
    options = OPTIONS[name]()
    values, step_size, *rest = DEFAULTS[name]
    assert dataclasses.asdict(options) == values
    np.testing.assert_allclose(options.step_size(0.8), step_size)
    mode = next(iter(options.bn_modes), None)
    assert [options.default_steps, options.default_start, mode, options.guard_drop, options.chosen_by] == rest


def test_the_presets_of_llr_are_those_of_the_paper_and_of_the_code():
    names = ("nominal_weight", "gamma_weight", "slope_weight", "rule", "tangent_gradient")
    paper, code = (OPTIONS["llr"](preset=preset) for preset in ("paper", "code"))
    assert [paper.resolved(name) for name in names] == [1.0, 4.0, 3.0, "sign", True]
    assert [code.resolved(name) for name in names] == [2.0, 4.0, 1.2, "adam", False]
    assert code.step_size(0.8) == 0.1
    assert OPTIONS["llr"](gamma_weight=0.0).resolved("gamma_weight") == 0.0


def test_torch_sgd_has_the_defaults_of_published_recipes():
    optimizer = training.TorchSGD()
    assert float(optimizer.learning_rate) == pytest.approx(0.1)
    assert (optimizer.momentum, optimizer.weight_decay, optimizer.nesterov) == (0.9, 0.0, False)


# -- callbacks ---------------------------------------------------------------------------------------------


def test_a_guard_allows_exactly_its_drop(tmp_path):
    # Quarters are exact.
    trainer = training.Standard(tiny_net())
    guard = OverfittingGuard((X, Y), attacks.PGD(0.1, steps=1), 0.25, tmp_path / "kept.npz", RunProgress())
    guard.set_model(trainer)
    for accuracy, stopped in ((0.75, False), (0.5, False), (0.125, True)):
        guard.robust_accuracy = lambda accuracy=accuracy: accuracy
        guard.on_epoch_end(0, {})
        assert (guard.progress.stopped is not None) == stopped


def test_early_stopping_counts_from_the_first_of_equal_epochs_and_ignores_epochs_without_a_score():
    progress = RunProgress()
    callback = EarlyStopping(3, progress, chosen_by="clean")
    for epoch, score in enumerate((0.5, 0.5, None, 0.4), start=1):
        scored = {} if score is None else {"val_clean_accuracy": score}
        progress.history.append({"epoch": epoch, "val_robust_accuracy": epoch / 10} | scored)
    callback.set_model(tiny_net())
    callback.on_epoch_end(2)
    assert progress.stopped is None
    callback.on_epoch_end(3)
    assert "has not improved since epoch 1" in progress.stopped


def test_the_learning_rate_and_epsilon_of_a_row_are_those_of_the_last_update(tmp_path):
    trainer = compiled(
        training.PGDAT,
        attacks.PGD(0.2, steps=1),
        epsilon_schedule=EpsilonSchedule("linear", 0.2, [10], highest=0.2),
    )
    trainer.compile(training.TorchSGD(Piecewise(0.1, [4])), run_eagerly=True)
    trainer.optimizer.iterations.assign(4)
    assert last_learning_rate(trainer.optimizer) == pytest.approx(0.1)
    records = Records(tmp_path / "metrics.csv", RunProgress(step=7))
    records.set_model(trainer)
    records.on_epoch_begin(1)
    records.on_epoch_end(1, {"loss": 2.5})
    row = records.progress.history[0]
    assert (row["epoch"], row["loss"]) == (2, 2.5)
    assert (row["learning_rate"], row["epsilon"]) == pytest.approx((0.1, 0.06))
    assert (records.progress.epoch, records.progress.step) == (2, 0)
    trainer.optimizer.iterations.assign(5)
    assert last_learning_rate(trainer.optimizer) == pytest.approx(0.01)
    assert last_learning_rate(keras.optimizers.SGD(0.3)) == pytest.approx(0.3)


def test_a_backup_is_due_after_its_minutes_and_not_after_the_last_step_of_an_epoch(tmp_path, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("athe_tf.programs.callbacks.time.monotonic", lambda: now[0])
    backup = Backup(tmp_path / "state.npz", RunProgress(step=5), minutes=2, distribution=Distribution())
    backup.set_params({"steps": 3})
    saved = []
    backup.save = lambda: saved.append(backup.progress.step)
    backup.on_epoch_begin(0)
    for batch, seconds in ((0, 120.0), (1, 120.5), (2, 500.0)):
        now[0] = 1000.0 + seconds
        backup.on_train_batch_end(batch)
    assert saved == [7] and backup.progress.step == 8
    backup.on_epoch_end(0)
    assert saved == [7, 8]


def test_a_period_keeps_the_model_of_its_last_epoch_under_its_number(tmp_path):
    keeper = PeriodKeeper(tmp_path, RunProgress(), [2, 3])
    net = tiny_net()
    keeper.set_model(net)
    kept = []
    net.save = lambda path: (kept.append(str(path)), path.write_text("net"))
    for epoch in range(4):
        keeper.on_epoch_end(epoch)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.keras", "2.keras"] and len(kept) == 2
    keeper.progress.stopped = "collapsed"
    keeper.on_epoch_end(1)
    assert len(kept) == 2


def test_the_line_of_an_epoch_says_what_is_left():
    lines = []
    history = [{"loss": 1.23456, "val_clean_accuracy": 0.5, "learning_rate": 0.1, "seconds": 60.0}]
    line = EpochLine(4, RunProgress(history=history), write=lambda text, **_: lines.append(text))
    line.on_epoch_end(0)
    assert lines == ["epoch 1/4  loss 1.2346  clean 50.0%  lr 0.1  60 s  3 min 0 s left"]


def test_the_validation_loss_has_neither_margin_nor_label_smoothing():
    trainer = compiled(training.Standard, margin=0.5, label_smoothing=0.3)
    logits = np.asarray(trainer.net(X, training=False), "float64")
    expected = np.log(np.exp(logits).sum(1)) - logits[np.arange(16), Y]
    found = trainer.evaluate(X, Y, batch_size=8, verbose=0, return_dict=True)["loss"]
    np.testing.assert_allclose(found, expected.mean(), rtol=1e-5)
