"""Rounds of few images share batches, and nothing but the time shows it."""

import numpy as np
import pytest

from athe_tf import attacks
from athe_tf.attacks.engine.driver import _Stage
from tests.linear_case import gray_images, linear_model, predictions, radii

CLASSES = 6
IMAGES = gray_images()
MODEL = linear_model(classes=CLASSES)
LABELS = predictions(MODEL, IMAGES)
EPSILON = float(np.median(radii(MODEL, IMAGES, LABELS, "linf")))


class Interrupted(Exception):
    """What ends an attack in these tests."""


@pytest.fixture(params=["apgd-t-10", "fab-t-10", "multitargeted-10", "cr"])
def attack(request):
    # `cr` restarts where it comes close: with a whole epsilon, for some images and some targets.
    arguments = {"cycles": 1, "come_close": 1.0} if request.param == "cr" else {}
    return attacks.get(request.param, epsilon=EPSILON, restarts=2, **arguments)


@pytest.fixture
def batches(monkeypatch):
    """The batches that go through a round: `(images, rounds)` of each."""
    seen, original = [], _Stage._record

    def record(stage, images, rounds, outcome):
        seen.append((len(images), len(set(rounds.tolist()))))
        return original(stage, images, rounds, outcome)

    monkeypatch.setattr(_Stage, "_record", record)
    return seen


def assert_same(one, other):
    for name in ("success", "rounds", "queries", "gradients", "nonfinite"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    np.testing.assert_allclose(one.x_adv, other.x_adv, atol=1e-6)
    np.testing.assert_allclose(one.norm, other.norm, atol=1e-6)


def test_the_result_is_that_of_one_round_after_another(attack, batches, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(attack.schedule, "independent_rounds", lambda *_: 1)
        one_by_one = attack.run(MODEL, IMAGES, LABELS, batch_size=len(IMAGES))
    assert 0 < one_by_one.success.mean() < 1
    assert max(rounds for _, rounds in batches) == 1
    alone = list(batches)
    batches.clear()
    together = attack.run(MODEL, IMAGES, LABELS, batch_size=12 * len(IMAGES))
    assert_same(one_by_one, together)
    assert len(batches) < len(alone) and max(rounds for _, rounds in batches) > 1


def test_an_interrupted_batch_of_several_rounds_continues(attack, tmp_path):
    size = 4 * len(IMAGES)
    whole = attack.run(MODEL, IMAGES, LABELS, batch_size=size)
    calls = []

    def stop_after_first(*_):
        calls.append(1)
        raise Interrupted

    with pytest.raises(Interrupted):
        attack.run(
            MODEL, IMAGES, LABELS, batch_size=size, state=tmp_path / "state", progress=stop_after_first
        )
    resumed = attack.run(MODEL, IMAGES, LABELS, batch_size=size, state=tmp_path / "state")
    assert len(calls) == 1
    assert_same(whole, resumed)
