"""The self-test passes here, and fails when something is wrong with the machine or the library."""

import json

import numpy as np
import pytest

from athe_tf import training
from athe_tf.distribution import DistributionSettings, initialize
from athe_tf.programs import selftest, selftest_checks
from athe_tf.training.adversarial_model import AdversarialModel
from athe_tf.utils import rng
from athe_tf.utils.errors import InputError


@pytest.fixture
def machine(monkeypatch):
    """One CPU; the other tests go on without op determinism."""
    monkeypatch.setattr("athe_tf.utils.arithmetic.make_deterministic", lambda: None)
    return selftest_checks.Machine(initialize(DistributionSettings("one")))


def results(machine, *names):
    return [one.passed for one in selftest_checks.run_checks(machine, names, lambda *_, **__: None)]


def test_seeds_and_replicas_of_one_device(machine):
    assert results(machine, "seeds") == [True, True]
    assert results(machine, "replicas") == [None]  # there is one device


def test_a_stale_seed_is_found(machine, monkeypatch):
    monkeypatch.setattr(AdversarialModel, "step_seed", lambda self: rng.fold(self.seed, 0))
    assert results(machine, "seeds") == [False, True]


def test_a_nan_is_found(machine, monkeypatch):
    monkeypatch.setattr(selftest_checks, "FRAMEWORKS", ("standard",))
    assert results(machine, "frameworks") == [True]
    machine.updates.pop(next(key for key in machine.updates if not key[1]))
    original = training.TorchSGD.update_step

    def update_step(self, gradient, variable, learning_rate):
        original(self, gradient * np.float32("nan"), variable, learning_rate)

    monkeypatch.setattr(training.TorchSGD, "update_step", update_step)
    assert results(machine, "frameworks") == [False]


def test_an_error_is_a_check_that_failed(machine, monkeypatch):
    monkeypatch.setattr(selftest_checks.Machine, "trainer", lambda *_: 1 / 0)
    lines = []
    (found,) = selftest_checks.run_checks(machine, ("seeds",), lambda line, **_: lines.append(line))
    assert found.passed is False and "division by zero" in lines[0] and lines[0].startswith("FAILED")


@pytest.mark.parametrize(("passed", "code"), [(True, 0), (None, 0), (False, 1)])
def test_the_program_writes_a_file_and_ends_with_the_code(passed, code, tmp_path, monkeypatch, capsys):
    found = [selftest_checks.Finding("x", "1.0", True), selftest_checks.Finding("y", "", passed)]
    monkeypatch.setattr(selftest_checks, "run_checks", lambda *_: found)
    config = selftest.SelftestConfig(output=str(tmp_path / "found.json"), distribution="one")
    assert selftest.action(config, {}) == code
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["passed"] == (code == 0) and found["TF32"] == "no" and "keras" in found["versions"]
    assert found["checks"][0] == {"name": "x", "measured": "1.0", "passed": True}
    assert f"{1 + (passed is True)} passed, {code} failed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"only": ("speeds",)}, "Did you mean 'speed'"), ({"distribution": "multi_worker"}, "Run it on each")],
)
def test_flags_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        selftest.SelftestConfig(**settings)
