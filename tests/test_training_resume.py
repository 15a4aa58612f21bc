"""A run that is killed and started again ends as if nothing had happened."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time

import keras
import numpy as np
import pytest

from athe_tf.cli.train import action
from athe_tf.config import TrainConfig
from athe_tf.data import load, with_extra
from athe_tf.training import FRAMEWORKS, run
from athe_tf.training.callbacks import BestKeeper
from athe_tf.training.run import train
from athe_tf.training.state import Progress, load_state, save_state
from athe_tf.workdir import Workdir, flagfile
from tests.small_runs import (
    assert_equal_weights,
    get_weights,
    photographed,
    tiny_batch,
    tiny_net,
    tiny_splits,
)

EPOCHS = 3
FRAMEWORK_FLAGS: dict[str, dict] = {
    "pgd_at": {"steps": 2},
    "alp": {"steps": 2},
    "trades": {"steps": 2},
    "free_at": {"replays": 2},
    "mart": {"steps": 2},
    "llr": {"steps": 2},
}
# Killed for real in every run of the tests: an attack's graph, and noise that must not be lost.
KILLED = ("trades", "free_at")
# What a kill in the second epoch would leave on the disk is continued: a third of the time.
OPTIONS: dict[str, dict] = {
    "standard": {"framework": "standard"},
    "pgd_at": {"framework": "pgd_at", "steps": 1},
    "alp": {"framework": "alp", "steps": 1},
    "fast_at, extra data": {"framework": "fast_at", "nfgsm_noise": 2.0, "extra_fraction": 0.25},
    "mart, perturbed weights, average over epochs": {
        "framework": "mart", "steps": 1, "awp_gamma": 0.01, "awp_start": 1.0, "swa_start": 1,
    },
    "llr, rising epsilon, resets": {
        "framework": "llr", "steps": 1, "epsilon_schedule": "cosine", "lr_resets": (2.0,),
    },
    "cure, warm-up": {"framework": "cure", "epsilon_schedule": "linear", "epsilon_warmup": 1.5},
    "gradalign, average over steps": {"framework": "fast_at", "gradalign": 0.2, "ema": 0.9},
}  # fmt: skip
LONG = ("standard", "alp", "cure, warm-up", "gradalign, average over steps")


def settings(framework, workdir, **changes):
    base = {
        "dataset": "digits",
        "model": "small_cnn",
        "head": "he",
        "framework": framework,
        "epsilon": 0.1,
        "epochs": EPOCHS,
        "batch_size": 256,
        "learning_rate": 0.05,
        "lr_drops": (2.0,),
        "validation_attack": "pgd-2",
        "augmentation": "pad_crop",
        "workdir": str(workdir),
    }
    return TrainConfig(**base | FRAMEWORK_FLAGS.get(framework, {}) | changes)


def quiet(*args, **kwargs):
    pass


@pytest.fixture(autouse=True)
def no_export(monkeypatch):
    """The export at the end of a run is tested elsewhere, and would be a fifth of the time here."""
    monkeypatch.setattr(run, "export", quiet)


def run_in_process(config):
    return train(config, load(config.dataset), Workdir(config.workdir), write=quiet)


def final_weights(workdir):
    return get_weights(keras.models.load_model(Workdir(workdir).final, compile=False))


def command(config):
    flags = flagfile(config).split()
    return [sys.executable, "-m", "athe_tf.cli.train", *flags, f"--workdir={config.workdir}"]


def test_every_framework_is_interrupted_here():
    assert {*KILLED, *(options["framework"] for options in OPTIONS.values())} == set(FRAMEWORKS)


@pytest.mark.parametrize(
    "framework",
    [name if name in KILLED else pytest.param(name, marks=pytest.mark.long) for name in FRAMEWORKS],
)
def test_a_killed_run_resumes_and_ends_with_the_same_weights_bit_for_bit(framework, tmp_path):
    straight = settings(framework, tmp_path / "straight")
    expected = get_weights(run_in_process(straight).net)
    # A backup after every step, so that the kill falls into the middle of an epoch.
    killed = settings(framework, tmp_path / "killed", backup_minutes=0.0)
    workdir = Workdir(killed.workdir)
    process = subprocess.Popen(command(killed), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 120
        while not workdir.backup.exists():
            assert process.poll() is None, process.stderr.read().decode()
            assert time.monotonic() < deadline, "no backup within two minutes"
            time.sleep(0.01)
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stderr.close()
    assert not workdir.finished
    resumed = run_in_process(killed)
    assert_equal_weights(expected, get_weights(resumed.net))
    assert_equal_weights(expected, final_weights(killed.workdir))
    rows = workdir.metrics.read_text().splitlines()
    assert len(rows) == 1 + EPOCHS
    straight_rows = Workdir(straight.workdir).metrics.read_text().splitlines()
    for one, other in zip(rows, straight_rows, strict=True):  # all but the seconds
        assert one.rsplit(",", 1)[0] == other.rsplit(",", 1)[0]


# Steps of an epoch: 4. The first step, the first of an epoch, the last but one of an epoch.
@pytest.mark.long
def test_a_run_can_be_interrupted_at_any_step(tmp_path):
    config = settings("trades", tmp_path / "straight", backup_minutes=0.0)
    copies = {step: tmp_path / f"stopped_{step}" for step in (1, 5, 7)}
    with photographed(config.workdir, copies):
        expected = get_weights(run_in_process(config).net)
    for folder in copies.values():
        resumed = run_in_process(dataclasses.replace(config, workdir=str(folder)))
        assert_equal_weights(expected, get_weights(resumed.net))


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.long) if case in LONG else case for case in OPTIONS]
)
def test_a_run_with_these_options_continues_bit_for_bit_from_the_middle_of_its_second_epoch(case, tmp_path):
    settings = {
        "epsilon": 0.1, "epochs": 3, "batch_size": 16, "learning_rate": 0.05, "lr_drops": (1.5,),
        "validation_attack": "pgd-1", "augmentation": "pad_crop", "backup_minutes": 0.0, "head": "he",
    }  # fmt: skip
    splits = tiny_splits()  # four steps an epoch
    if "extra_fraction" in OPTIONS[case]:
        extra = tmp_path / "extra.npz"
        images, labels = tiny_batch(20, seed=1)
        np.savez(extra, image=images, label=labels)
        settings["extra_data"] = str(extra)
        splits = with_extra(splits, extra, 0.25)
    config = TrainConfig(**settings | OPTIONS[case], workdir=str(tmp_path / "straight"))
    with photographed(config.workdir, {6: tmp_path / "stopped"}):
        straight = train(config, splits, Workdir(config.workdir), write=quiet)
    stopped = dataclasses.replace(config, workdir=str(tmp_path / "stopped"))
    resumed = train(stopped, splits, Workdir(stopped.workdir), write=quiet)
    assert int(resumed.optimizer.iterations) == 12
    assert_equal_weights(get_weights(straight.net), get_weights(resumed.net))
    assert_equal_weights(get_weights(straight.shipped), get_weights(resumed.shipped))
    rows = [Workdir(c.workdir).metrics.read_text().splitlines() for c in (config, stopped)]
    for one, other in zip(*rows, strict=True):  # all but the seconds
        assert one.rsplit(",", 1)[0] == other.rsplit(",", 1)[0]


def test_the_backup_is_gone_when_the_run_is_finished_and_a_second_call_does_nothing(tmp_path, capsys):
    config = settings("standard", tmp_path / "run", epochs=1)
    run_in_process(config)
    workdir = Workdir(config.workdir)
    assert workdir.finished and not workdir.backup.exists()
    before = workdir.final.stat().st_mtime_ns

    class NoFlags(dict):
        def __getitem__(self, name):
            return type("Flag", (), {"value": False})

    action(config, NoFlags())
    assert "is finished" in capsys.readouterr().out
    assert workdir.final.stat().st_mtime_ns == before


def test_the_best_model_is_never_overwritten_by_a_worse_one(tmp_path):
    path = tmp_path / "best.keras"
    keeper = BestKeeper(path, Progress())
    keeper.set_model(tiny_net())
    keeper.on_epoch_end(0, {"val_robust_accuracy": 0.5})
    kept = path.read_bytes()
    # A new process that lost its backup knows nothing but the files.
    restarted = BestKeeper(path, Progress())
    restarted.set_model(tiny_net(seed=1))
    restarted.on_train_begin()
    restarted.on_epoch_end(0, {"val_robust_accuracy": 0.4})
    assert path.read_bytes() == kept
    restarted.on_epoch_end(1, {"val_robust_accuracy": 0.6})
    assert path.read_bytes() != kept
    assert json.loads(path.with_suffix(".json").read_text()) == {"value": 0.6, "epoch": 2}


def test_state_round_trips_every_variable(tmp_path):
    config = settings("trades", tmp_path / "run", epochs=1)
    trainer = run_in_process(config)
    save_state(tmp_path / "s.npz", trainer, Progress(epoch=3, step=2, best=0.5, history=[{"loss": 1.0}]))
    kept = [np.asarray(v).copy() for v in (*trainer.variables, *trainer.optimizer.variables)]
    for variable in trainer.net.trainable_variables:
        variable.assign(np.zeros(variable.shape))
    progress = load_state(tmp_path / "s.npz", trainer)
    assert (progress.epoch, progress.step, progress.best) == (3, 2, 0.5)
    assert_equal_weights(kept, [np.asarray(v) for v in (*trainer.variables, *trainer.optimizer.variables)])
