"""The pieces of recipes go with every framework, every head and every way of running, two by two.

A row of `RUNS` is a training of a few steps. Together with the killed runs of `test_resume.py` and those on
replicas and workers, each pair of a piece and a framework, a head or a mode is in at least one. The whole
product is in `benchmarks/contract.py`.
"""

import functools
import itertools
from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

from athe_tf.programs import build
from athe_tf.programs.config import TrainConfig
from athe_tf.training.options import OPTIONS
from tests.distribution.test_distribution_workers import RUNS as OF_WORKERS
from tests.programs.test_resume import CASES
from tests.replica_run import PIECES as OF_REPLICAS
from tests.small_runs import ADAMW, BY_ADAM, CYCLE, RISING, small_cnn_of_one_layer, tiny_splits

HEADS = ("linear", "fn", "wn", "he", "mhe")


class Row(NamedTuple):
    framework: str
    head: str
    mode: str
    settings: dict


def rows() -> list[Row]:
    """Two runs of each framework; the heads and the modes take turns."""
    found = []
    for number, (framework, options) in enumerate(OPTIONS.items()):
        crafts, other_attacks = options.crafts, options.crafts and not options.own_steps
        one: dict = RISING if crafts else {}
        if other_attacks and not options.one_step:
            one = {"attack": "apgd-ce"}
        two: dict = (RISING if crafts else {}) | (BY_ADAM if other_attacks else {})
        smooth: dict = {"attack_smoothing": 0.1} if options().attack_has_labels else {}
        modes = ("one", "mixed") if number % 2 else ("mixed", "one")
        for mode, settings, turn in ((modes[0], CYCLE | one | smooth, 0), (modes[1], ADAMW | two, 2)):
            found.append(Row(framework, HEADS[(number + turn) % len(HEADS)], mode, settings))
    return found


RUNS = rows()
SHORT = {"pgd_at", "alp", "trades", "mart", "llr"}


def config_of(row: Row) -> TrainConfig:
    steps = {"steps": 2} if row.framework in SHORT else {}
    replays = {"replays": 2} if row.framework == "free_at" else {}
    base = {
        "epsilon": 0.1,
        "epochs": 4,
        "batch_size": 16,
        "validation_attack": "pgd-1",
        "augmentation": "none",
    }
    precision = {"precision": "mixed_float16"} if row.mode == "mixed" else {}
    settings = base | steps | replays | precision | row.settings
    return TrainConfig.from_flags(framework=row.framework, head=row.head, **settings)


@functools.cache
def batches_of(settings):
    """The first batches of a stream; frameworks share them, because tracing the stream is slow."""
    arrays = zip(*tiny_splits(32).train.stream(**dict(settings)).take(4), strict=True)
    return tf.data.Dataset.from_tensor_slices(tuple(np.stack(each) for each in arrays))


@pytest.mark.parametrize("row", RUNS, ids=lambda row: "-".join(row[:3]))
def test_pieces_train_together(row, monkeypatch):
    monkeypatch.setattr(build, "check_precision", lambda *_, **__: None)
    config, splits = config_of(row), tiny_splits(32)
    with small_cnn_of_one_layer():
        trainer = build.make_trainer(config, splits)
    before = [np.asarray(weight) for weight in trainer.net.trainable_variables]
    batches = batches_of(tuple(config.stream_settings.items()))
    logs = trainer.fit(batches, steps_per_epoch=2, epochs=2, shuffle=False, verbose=0).history
    assert np.isfinite(logs["loss"]).all()
    wrapped = isinstance(trainer.optimizer, keras.optimizers.LossScaleOptimizer)
    updates = int(trainer.optimizer.iterations)
    # The first steps of a float16 run may be those in which it finds its loss scale.
    assert updates == 4 * trainer.options.updates_per_step or wrapped
    after = [np.asarray(weight) for weight in trainer.net.trainable_variables]
    assert all(np.isfinite(value).all() for value in after)
    assert wrapped or any((a != b).any() for a, b in zip(before, after, strict=True))
    assert trainer.averaged is not None and trainer.shipped is trainer.averaged


def pieces_of(settings: dict) -> set:
    """The settings of a run that are pieces, with their values where these are names."""
    known = set(CYCLE) | set(ADAMW) | {"attack", "step_size_warmup"}
    chosen = {name: settings[name] for name in known - {"ema", "learning_rate"} if name in settings}
    return {(name, value if isinstance(value, str) else "") for name, value in chosen.items()}


def test_every_pair_is_in_a_run():
    runs = [(row.framework, row.head, row.mode, pieces_of(row.settings)) for row in RUNS]
    runs += [(case["framework"], "he", "resume", pieces_of(case)) for case in CASES.values()]
    runs += [("trades", "he", "replicas", pieces_of(case)) for case in OF_REPLICAS]
    runs += [
        (case.get("framework", "pgd_at"), "he", "workers", pieces_of(case)) for case in OF_WORKERS.values()
    ]
    every = pieces_of(CYCLE | RISING) | pieces_of(ADAMW | BY_ADAM)
    found = set()
    for framework, head, mode, pieces in runs:
        found |= set(itertools.product((("framework", framework), ("head", head), ("mode", mode)), pieces))
    for piece in every:
        for head in HEADS:
            assert (("head", head), piece) in found
        for mode in ("one", "mixed", "resume", "replicas", "workers"):
            assert (("mode", mode), piece) in found, (mode, piece)
        for framework, options in OPTIONS.items():
            possible = options.crafts or piece[0] != "step_size_warmup"
            if piece[0] == "attack":
                possible = options.crafts and not options.own_steps
            assert not possible or (("framework", framework), piece) in found, (framework, piece)
