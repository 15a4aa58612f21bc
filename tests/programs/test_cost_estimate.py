"""`bin/train --plan`: how a total time follows from a few measured steps."""

import types

import numpy as np
import pytest

from athe_tf.programs import cost_estimate
from athe_tf.programs.config import TrainConfig
from athe_tf.training.adversarial_model import Cost


class Splits:
    """Endless batches of images that are numbers."""

    class train:
        @staticmethod
        def stream(batch_size, seed, **settings):
            return types.SimpleNamespace(take=lambda count: [(np.zeros(batch_size), None)] * count)


class Clock:
    """A trainer whose steps take time per image, and ten seconds more for the first of a size."""

    def __init__(self, slow=1.0):
        self.now, self.slow, self.compiled = 0.0, slow, set()

    def train_on_batch(self, x, y):
        self.now += self.slow * len(x) + (0 if len(x) in self.compiled else 10.0)
        self.compiled.add(len(x))


@pytest.mark.parametrize(
    "slow, batch_size, seconds, note",
    [
        (0.1, 128, 12.8, "measured on 128 images"),
        (1.0, 128, 128.0, "measured on 8 images and scaled to 128"),
        (1.0, 4, 4.0, "measured on 4 images"),
        # 30 seconds are not too long.
        (30 / 128, 128, 30.0, "measured on 128 images"),
    ],
)
def test_a_step_is_measured_after_the_one_that_compiles_and_scaled_if_it_takes_long(
    slow, batch_size, seconds, note, monkeypatch
):
    trainer = Clock(slow)
    monkeypatch.setattr(cost_estimate.time, "perf_counter", lambda: trainer.now)
    config = TrainConfig(batch_size=batch_size)
    found = cost_estimate.seconds_per_step(trainer, config, Splits)
    assert found == (pytest.approx(seconds), note)


def test_validation_costs_its_attack_a_clean_pass_and_one_on_what_it_found():
    """A step of 12 passes takes 6 s; 20 + 2 passes of 64 images are 11 s * 64 / 128."""
    seconds = cost_estimate.seconds_of_validation(TrainConfig(batch_size=128), 20, Cost(6, 5, 1), 6.0, 64)
    assert seconds == pytest.approx(5.5)
