"""Periodic adversarial scheduling: epsilon, learning rate, periods and the ensemble of their models."""

import dataclasses
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

import athe_tf
from athe_tf import attacks, models, training
from athe_tf.programs import build
from athe_tf.programs.callbacks import read_ensemble
from athe_tf.programs.config import TrainConfig
from athe_tf.programs.run import train
from athe_tf.programs.run_state import RunProgress, load_state, save_state
from athe_tf.programs.workdir import Workdir
from athe_tf.training.schedules import EpsilonSchedule, Periodic, make_schedule
from athe_tf.utils.errors import InputError
from athe_tf.utils.files import TEMPORARY
from tests.small_runs import (
    assert_equal_weights,
    get_weights,
    photographed,
    tiny_batch,
    tiny_net,
    tiny_splits,
)

X, Y = tiny_batch()


# -- epsilon ------------------------------------------------------------------------------------------------


def epsilon_by_hand(kind, step, ends, target, lowest, highest):
    start = max([0, *(end for end in ends[:-1] if end <= step)])
    end = min(end for end in ends if end > start)
    r = min((step - start) / (end - start), 1.0)
    shape = {"linear": r, "cosine": (1 - math.cos(math.pi * r)) / 2}[kind]
    return min(lowest + (highest - lowest) * shape, target)


@pytest.mark.parametrize("kind", ["linear", "cosine"])
def test_epsilon_equals_its_closed_form_at_every_step(kind):
    ends = [10, 16, 20]
    schedule = tf.function(EpsilonSchedule(kind, 0.4, ends, lowest=0.05, highest=0.7))
    for step in range(25):
        expected = epsilon_by_hand(kind, step, ends, 0.4, 0.05, 0.7)
        np.testing.assert_allclose(schedule(tf.constant(step)), expected, rtol=1e-5)
    assert schedule.experimental_get_tracing_count() == 1


def test_the_numbers_of_the_paper():
    linear = EpsilonSchedule("linear", 8 / 255, [100], highest=16 / 255)
    values = [float(linear(step)) for step in (0, 50, 75, 100)]
    np.testing.assert_allclose(values, [0, 8 / 255, 8 / 255, 8 / 255], rtol=1e-6)
    cosine = EpsilonSchedule("cosine", 16 / 255, [100], highest=16 / 255)
    np.testing.assert_allclose(cosine(50), 8 / 255, rtol=1e-5)
    assert float(EpsilonSchedule("constant", 0.3, [100])(0)) == np.float32(0.3)


def test_a_warm_up_ends_at_the_target_in_each_period():
    schedule = EpsilonSchedule("linear", 0.2, [100, 200], warm_up=10)
    values = [float(schedule(step)) for step in (0, 5, 10, 99, 100, 105, 150)]
    np.testing.assert_allclose(values, [0, 0.1, 0.2, 0.2, 0, 0.1, 0.2], rtol=1e-6)


def test_counting_goes_on_beyond_the_whole_numbers_of_float32():
    schedule = EpsilonSchedule("linear", 1.0, [2**25, 2**25 + 4], highest=1.0)
    np.testing.assert_allclose([float(schedule(2**25 + i)) for i in range(4)], [0, 0.25, 0.5, 0.75])


@pytest.mark.parametrize("norm, epsilon, step_size", [("linf", 0.2, 0.05), ("l2", 2.0, 0.5)])
def test_an_attack_in_another_ball_takes_steps_in_proportion(norm, epsilon, step_size):
    attack = attacks.PGD(epsilon, norm, steps=3, step_size=step_size).with_epsilon(tf.constant(epsilon / 4))
    np.testing.assert_allclose(attack.step_size, step_size / 4)
    other = attacks.PGD(epsilon / 4, norm, steps=3, step_size=step_size / 4)
    net = tiny_net()
    np.testing.assert_allclose(attack(net, X, Y, seed=1), other(net, X, Y, seed=1), atol=1e-6)


class Measured(training.PGDAT):
    """Logs how far the images of a step were moved."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.moved = tf.Variable(0.0, trainable=False)

    def training_loss(self, x, x_adv, y):
        self.moved.assign(tf.reduce_max(tf.abs(x_adv - x)))
        return super().training_loss(x, x_adv, y)


class Recorder(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.rows = []

    def on_train_batch_begin(self, batch, logs=None):
        self.before = float(self.model.epsilon()), float(np.array(self.model.optimizer.learning_rate))

    def on_train_batch_end(self, batch, logs=None):
        self.rows.append((*self.before, float(self.model.moved)))


def scheduled_trainer():
    # Gray images: the box does not matter, and one large step reaches the edge of the ball.
    schedule = EpsilonSchedule("linear", 0.2, [6, 10], highest=0.3)
    attack = attacks.PGD(0.2, steps=1, step_size=0.4)
    trainer = Measured(tiny_net(), attack, epsilon_schedule=schedule)
    rate = make_schedule("piecewise", 0.1, 2, 5, (2, 4), 0.5, resets=(3,))
    trainer.compile(training.TorchSGD(rate))
    trainer.optimizer.build(trainer.net.trainable_variables)
    return trainer


def test_a_run_follows_both_schedules_at_every_step_also_after_a_resume_within_a_period(tmp_path):
    x = (0.4 + 0.2 * X).astype("float32")
    epsilons = [epsilon_by_hand("linear", step, [6, 10], 0.2, 0.0, 0.3) for step in range(10)]
    # Drops after epochs 2 and 4 of two steps each, a reset after epoch 3.
    rates = [0.1, 0.1, 0.1, 0.1, 0.05, 0.05, 0.1, 0.1, 0.05, 0.05]
    expected = [(e, r, e) for e, r in zip(epsilons, rates, strict=True)]
    trainer, recorder = scheduled_trainer(), Recorder()
    trainer.fit(x, Y, batch_size=8, epochs=4, verbose=0, callbacks=[recorder], shuffle=False)
    np.testing.assert_allclose(recorder.rows, expected[:8], atol=1e-5)
    save_state(tmp_path / "state.npz", trainer, RunProgress())
    resumed, rest = scheduled_trainer(), Recorder()
    load_state(tmp_path / "state.npz", resumed)
    resumed.fit(x, Y, batch_size=8, epochs=1, verbose=0, callbacks=[rest], shuffle=False)
    np.testing.assert_allclose(rest.rows, expected[8:], atol=1e-5)


@pytest.mark.parametrize("framework, norm", [("free_at", "linf"), ("trades", "l2"), ("llr", "linf")])
def test_other_frameworks_and_norms_follow_the_schedule(framework, norm):
    options = {"batch_size": 16, "replays": 1} if framework == "free_at" else {}
    attack = attacks.PGD(0.5, norm, steps=1, step_size=0.5)
    trainer = training.get(framework)(
        tiny_net(), attack, epsilon_schedule=EpsilonSchedule("linear", 0.5, [4], highest=1.0), **options
    )
    trainer.compile(training.TorchSGD(0.0), run_eagerly=True)
    x, y = tf.fill(X.shape, 0.5), tf.constant(Y)
    craft = tf.function(trainer.craft)
    for step, bound in enumerate((0.0, 0.25, 0.5, 0.5)):
        trainer.optimizer.iterations.assign(step)
        if framework == "free_at":
            trainer.replay(x, y)
            moved = x + trainer.noise
        else:
            moved = craft(x, y)
        distance = float(tf.reduce_max(attack.threat.distance(x, moved)))
        assert 0.5 * bound <= distance <= bound * (1 + 1e-5) + 1e-6


def test_cure_looks_less_far_in_a_smaller_ball():
    schedule = EpsilonSchedule("linear", 0.2, [4], highest=0.4)
    trainer = training.CURE(tiny_net(), attacks.PGD(0.2), curvature_step=1.6, epsilon_schedule=schedule)
    trainer.compile(training.TorchSGD(0.1))
    trainer.optimizer.iterations.assign(1)
    np.testing.assert_allclose(trainer.current_step(), 0.8, rtol=1e-6)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: EpsilonSchedule("quadratic", 0.1, [1]), "Unknown kind 'quadratic'. Available: constant"),
        (lambda: EpsilonSchedule("linear", 0.1, [5, 5]), "`ends` must be in rising order"),
        (lambda: EpsilonSchedule("linear", 0.1, [5], highest=0.05), "stops at epsilon. Received: lowest=0"),
        (
            lambda: EpsilonSchedule("linear", 0.1, [5], warm_up=-1),
            "warm_up must be a finite number larger than 0",
        ),
        (
            lambda: training.Standard(tiny_net(), epsilon_schedule=EpsilonSchedule("linear", 0.1, [5])),
            "needs an attack whose epsilon can change",
        ),
    ],
)
def test_impossible_schedules_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


# -- learning rates -----------------------------------------------------------------------------------------


def rates(schedule, steps):
    return [float(schedule(tf.constant(step))) for step in steps]


def test_a_piecewise_rate_starts_anew_at_100_and_150_as_in_the_paper():
    schedule = make_schedule("piecewise", 0.1, 10, 200, (50, 75, 125, 137.5, 175, 187.5), 0.1, (100, 150))
    steps = [0, 499, 500, 750, 999, 1000, 1249, 1250, 1375, 1499, 1500, 1750, 1875, 1999]
    expected = [0.1, 0.1, 0.01, 1e-3, 1e-3, 0.1, 0.1, 0.01, 1e-3, 1e-3, 0.1, 0.01, 1e-3, 1e-3]
    np.testing.assert_allclose(rates(schedule, steps), expected, rtol=1e-5)


def test_a_cosine_rate_runs_its_whole_course_in_each_period():
    schedule = make_schedule("cosine", 0.2, 10, 6, (), 0.1, (2,))
    np.testing.assert_allclose(rates(schedule, [0, 10, 20, 40]), [0.2, 0.1, 0.2, 0.1], rtol=1e-5)


def test_a_constant_rate_has_nothing_to_reset():
    assert make_schedule("constant", 0.1, 10, 20, (3,), 0.1, (5,)) == 0.1


def test_a_periodic_schedule_round_trips():
    schedule = make_schedule("piecewise", 0.1, 10, 8, (3,), 0.1, (5,))
    assert isinstance(schedule, Periodic)
    optimizer = training.TorchSGD(schedule)
    restored = training.TorchSGD.from_config(optimizer.get_config())._learning_rate
    assert rates(restored, range(0, 90, 7)) == rates(schedule, range(0, 90, 7))


# -- the ensemble -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def three():
    members = [tiny_net(head, seed=seed) for seed, head in enumerate(("he", "linear", "he"))]
    return members, models.ensemble_of(members)


def test_an_ensemble_predicts_the_mean_of_the_probabilities(three):
    members, net = three
    expected = np.mean([tf.nn.softmax(tf.cast(member(X), tf.float64)) for member in members], axis=0)
    np.testing.assert_allclose(np.exp(net(X)), expected, rtol=1e-4)
    np.testing.assert_allclose(tf.nn.softmax(net(X)), expected, rtol=1e-4)
    assert net.output_shape == (None, 4)


def test_a_confident_ensemble_is_finite():
    members = [tiny_net("linear", seed=seed) for seed in (0, 1)]
    for member in members:
        member.layers[-1].kernel.assign(1e4 * member.layers[-1].kernel)
    x = tf.constant(X)
    net = models.ensemble_of(members)
    with tf.GradientTape() as tape:
        tape.watch(x)
        outputs = net(x)
    assert np.isfinite(outputs).all() and np.isfinite(tape.gradient(outputs, x)).all()


def test_an_ensemble_can_be_saved_exported_attacked_and_evaluated(three, tmp_path):
    members, net = three
    net.save(tmp_path / "e.keras")
    loaded = athe_tf.load_model(tmp_path / "e.keras")
    np.testing.assert_allclose(loaded(X), net(X), atol=1e-6)
    card = athe_tf.export(net, tmp_path / "export")
    assert (card["head"], card["num_classes"]) == ("ensemble", 4)
    attack = attacks.PGD(0.2, steps=5)
    x_adv = attack(net, X, Y)
    np.testing.assert_allclose(attack(str(tmp_path / "export"), X, Y), x_adv, atol=1e-6)
    # The attack climbs the loss of the mean, and through every member.
    losses = [keras.losses.SparseCategoricalCrossentropy(from_logits=True)(Y, net(x)) for x in (X, x_adv)]
    assert float(losses[1]) > float(losses[0])
    for member in members:
        assert np.abs(member(x_adv) - member(X)).max() > 1e-3
    report = athe_tf.evaluate(net, (X, Y), attacks=["pgd-2"], epsilon=0.1, checks=False)
    assert 0 <= report.worst_case_accuracy <= report.clean_accuracy


def test_training_an_ensemble_does_not_touch_its_members(three):
    members, _ = three
    before = [get_weights(member) for member in members]
    trainer = training.Standard(models.ensemble_of(members))
    trainer.compile(training.TorchSGD(0.5), run_eagerly=True)
    trainer.train_on_batch(X, Y)
    for weights, member in zip(before, members, strict=True):
        assert_equal_weights(weights, get_weights(member))


def test_members_must_fit_together():
    with pytest.raises(InputError, match="the same classes. Received: .*4.*and.*3"):
        models.ensemble_of([tiny_net(), tiny_net(classes=3)])
    with pytest.raises(InputError, match="at least one member"):
        models.ensemble_of([])


# -- a run --------------------------------------------------------------------------------------------------


def pas_config(workdir, **changes):
    settings = {
        "framework": "pgd_at",
        "steps": 1,
        "epsilon": 0.1,
        "epsilon_schedule": "linear",
        "epochs": 4,
        "batch_size": 16,
        "learning_rate": 0.05,
        "lr_drops": (1.0, 3.0),
        "lr_resets": (2.0,),
        "ensemble": True,
        "validation_attack": "pgd-1",
        "augmentation": "none",
        "workdir": str(workdir),
        "backup_minutes": 0.0,
    }
    return TrainConfig.from_flags(**settings | changes)


def test_a_run_keeps_a_model_a_period_and_makes_one_of_them_also_when_it_is_interrupted(tmp_path):
    config = pas_config(tmp_path / "straight")
    straight, stopped = Workdir(config.workdir), Workdir(tmp_path / "stopped")
    lines: list[str] = []
    # After the second step of the third epoch, in the second period.
    with photographed(straight.folder, {10: stopped.folder}):
        train(config, tiny_splits(), straight, write=lambda text, **_: lines.append(text))
    kept = [athe_tf.load_model(straight.periods / f"{i}.keras") for i in (1, 2)]
    both = athe_tf.load_model(straight.ensemble)
    expected = np.mean([tf.nn.softmax(net(X)) for net in kept], axis=0)
    np.testing.assert_allclose(np.exp(both(X)), expected, atol=1e-6)
    assert_equal_weights(get_weights(kept[1]), get_weights(athe_tf.load_model(straight.final)))
    assert any("Ensemble of all periods" in line and "Robust validation accuracy" in line for line in lines)
    resumed = dataclasses.replace(config, workdir=str(stopped.folder))
    train(resumed, tiny_splits(), stopped, write=lambda text, **_: None)
    assert_equal_weights(get_weights(both), get_weights(athe_tf.load_model(stopped.ensemble)))
    rows = [workdir.metrics.read_text().splitlines() for workdir in (straight, stopped)]
    assert "epsilon" in rows[0][0].split(",")
    for one, other in zip(*rows, strict=True):  # all but the seconds
        assert one.rsplit(",", 1)[0] == other.rsplit(",", 1)[0]


def test_a_config_becomes_schedules_in_updates(tmp_path):
    config = pas_config(tmp_path, epsilon_max=0.3, epsilon_min=0.02, epsilon_schedule="cosine")
    trainer = build.make_trainer(config, tiny_splits())  # four steps an epoch
    schedule = trainer.epsilon_schedule
    assert (schedule.kind, schedule.ends, schedule.target) == ("cosine", [8, 16], 0.1)
    assert (schedule.lowest, schedule.highest) == (0.02, 0.3)
    np.testing.assert_allclose(rates(trainer.optimizer._learning_rate, (0, 4, 8, 12)), [0.05, 0.005] * 2)
    free = pas_config(tmp_path, framework="free_at", steps=None, replays=2, epsilon_warmup=1.0, awp_gamma=0.1,
                      awp_start=1.0)  # fmt: skip
    trainer = build.make_trainer(free, tiny_splits())
    assert (trainer.epsilon_schedule.ends, trainer.epsilon_schedule.warm_up) == ([16, 32], 8.0)
    assert trainer.weight_perturbation.start == 8


def test_a_file_that_was_being_written_at_a_kill_is_no_part_of_the_ensemble(tmp_path):
    tiny_net().save(tmp_path / "1.keras")
    for name in (f"{TEMPORARY}0123.keras", "1a.keras"):
        (tmp_path / name).write_bytes(b"half")
    assert read_ensemble(tmp_path).count_params() == tiny_net().count_params()
