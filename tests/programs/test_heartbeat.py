"""A log shows that a program works: a line at least every minute."""

import time

from athe_tf.programs import build, cost_estimate
from athe_tf.programs.callbacks import EpochLine
from athe_tf.programs.config import TrainConfig
from athe_tf.programs.heartbeat import Heartbeat
from athe_tf.programs.run_state import RunProgress
from tests.small_runs import tiny_splits


def waited_for(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def test_silence_is_broken_and_nothing_is_written_afterwards():
    lines = []
    with Heartbeat(lines.append, lambda: "working", interval=0.05):
        assert waited_for(lambda: len(lines) >= 2)
    count = len(lines)
    time.sleep(0.2)
    assert lines == ["working"] * count


def test_lines_of_others_put_it_off():
    lines = []
    with Heartbeat(lines.append, lambda: "working", interval=60.0) as heartbeat:
        heartbeat._last -= 59.5
        heartbeat.write("epoch 1")
        time.sleep(0.7)
    assert lines == ["epoch 1"]


def test_the_status_of_an_epoch_counts_its_steps(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    progress = RunProgress(epoch=1)
    line = EpochLine(10, progress)
    assert line.status == "Compiling the training step."
    # The rest of an epoch of 10 steps that was interrupted after 6.
    line.set_params({"steps": 4})
    line.on_epoch_begin(1)
    for batch, second in enumerate([100.0, 102.0]):
        now[0], progress.step = second, 7 + batch
        line.on_train_batch_end(batch)
    assert line.status == "epoch 2/10  step 8 of 10  4.0 s left in this epoch"
    line.on_test_batch_end(2)
    assert line.status == "epoch 2/10  validation, batch 3"


def test_a_plan_says_that_it_measures(monkeypatch):
    monkeypatch.setattr(cost_estimate, "seconds_per_step", lambda *_: (0.5, "not measured"))
    monkeypatch.setattr(cost_estimate, "make_trainer", lambda *_: build.make_trainer(config, tiny_splits()))
    config = TrainConfig.from_flags(framework="standard", batch_size=16)
    lines = []
    plan = cost_estimate.describe_plan(config, tiny_splits(), lines.append)
    assert "0.5 (not measured)" in plan and "pgd-10, about 21 passes per image" in plan
    assert lines == ["Building small_cnn, and measuring training steps."]
