"""An interrupted evaluation resumes, and recognizes its own state."""

import numpy as np
import pytest

import athe_tf
from athe_tf.attacks.engine.attack import Attack
from athe_tf.evaluation.options import EvaluationOptions
from athe_tf.utils.errors import InputError
from tests.linear_case import gray_images, linear_model, predictions

IMAGES = gray_images(60)
LINEAR = linear_model()
LABELS = predictions(LINEAR, IMAGES)
SETTINGS = {
    "attacks": ["fgsm", "pgd-3x4", "deepfool-3"],
    "epsilon": 0.02,
    "batch_size": 10,
    "checks": False,
}


class Stopped(Exception):
    """An interruption."""


def stop_at(attack, calls):
    """A progress function that ends the evaluation after some batches of an attack."""
    seen = []

    def progress(now):
        if now.attack == attack:
            seen.append(now)
            if len(seen) == calls:
                raise Stopped

    return progress


@pytest.fixture
def ran(monkeypatch):
    """The names of the attacks that were run."""
    names = []
    original = Attack.run

    def run(self, *args, **kwargs):
        names.append(self.name)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(Attack, "run", run)
    return names


def test_an_interrupted_evaluation_ends_with_the_same_report(tmp_path, ran):
    whole = athe_tf.evaluate(
        LINEAR, (IMAGES, LABELS), options=EvaluationOptions(state=tmp_path / "whole"), **SETTINGS
    )
    state = tmp_path / "state"
    with pytest.raises(Stopped):
        options = EvaluationOptions(state=state, progress=stop_at("pgd-3x4", 3))
        athe_tf.evaluate(LINEAR, (IMAGES, LABELS), options=options, **SETTINGS)
    kept = [path.name for path in state.glob("*.npz")]
    assert sorted(name.split("-")[0] for name in kept) == ["evaluation.npz", "fgsm", "pgd"]
    assert sum(".done." in name for name in kept) == 1
    ran.clear()
    first = []
    options = EvaluationOptions(state=state, progress=first.append)
    again = athe_tf.evaluate(LINEAR, (IMAGES, LABELS), options=options, **SETTINGS)
    assert ran == ["pgd-3x4", "deepfool-3"]  # the first was read back
    assert len(first) < 4 * 6 + 6  # and the second was resumed
    for one, other in zip(whole.attacks, again.attacks, strict=True):
        np.testing.assert_array_equal(one.robust, other.robust)
        np.testing.assert_array_equal(one.norms, other.norms)
        np.testing.assert_array_equal(one.eight_bit, other.eight_bit)
        assert (one.queries, one.gradients, one.settings) == (other.queries, other.gradients, other.settings)
    for name, shown in whole.pictures.items():
        np.testing.assert_array_equal(shown, again.pictures[name])
    ran.clear()
    third = athe_tf.evaluate(LINEAR, (IMAGES, LABELS), options=EvaluationOptions(state=state), **SETTINGS)
    assert ran == [] and third.worst_case_accuracy == whole.worst_case_accuracy


@pytest.mark.parametrize(
    "change, message",
    [
        ({"seed": 1}, "seed=1 .in the file: 0"),
        ({"epsilon": 0.03}, "epsilon=0.03 .in the file: 0.02"),
        ({"max_examples": 50}, "examples=50 .in the file: 60"),
        ({"model": linear_model(seed=3)}, "model='[0-9a-f]{64}' .in the file: '"),
    ],
)
def test_the_state_of_another_evaluation_is_refused(change, message, tmp_path):
    state = tmp_path / "state"
    options = EvaluationOptions(state=state)
    settings = {"attacks": ["fgsm"], "epsilon": 0.02, "checks": False, "options": options}
    athe_tf.evaluate(LINEAR, (IMAGES, LABELS), **settings)
    (finished,) = state.glob("fgsm-*.done.npz")
    kept = finished.read_bytes()
    changed = {"model": LINEAR, **settings, **change}
    with pytest.raises(InputError, match=f"belongs to another evaluation.*{message}"):
        athe_tf.evaluate(data=(IMAGES, LABELS), **changed)
    assert finished.read_bytes() == kept


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_the_state_of_other_labels_or_another_norm_is_refused(norm, tmp_path):
    options = EvaluationOptions(state=tmp_path / "state")
    settings = {"attacks": ["fgsm"], "epsilon": 0.02, "checks": False, "options": options}
    athe_tf.evaluate(LINEAR, (IMAGES, LABELS), **settings)
    labels = LABELS if norm == "l2" else np.roll(LABELS, 1)
    with pytest.raises(InputError, match="images and labels=|norm='l2' .in the file: 'linf'"):
        athe_tf.evaluate(LINEAR, (IMAGES, labels), norm=norm, **settings)


def test_an_attack_of_the_same_name_with_other_settings_is_not_read_back(tmp_path):
    options = EvaluationOptions(state=tmp_path / "state")
    settings = {"epsilon": 0.02, "checks": False, "options": options}

    def evaluate(step_size):
        attack = athe_tf.attacks.get("pgd-1", epsilon=0.02, step_size=step_size)
        return athe_tf.evaluate(LINEAR, (IMAGES, LABELS), attacks=[attack], **settings)

    assert evaluate(0.02)["pgd-1"].settings["step_size"] == 0.02
    with pytest.raises(InputError, match="belongs to another .*settings=.*0.001"):
        evaluate(0.001)


def test_a_state_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    options = EvaluationOptions(state=tmp_path / "file" / "state")
    with pytest.raises(InputError, match="Cannot keep the state"):
        athe_tf.evaluate(LINEAR, (IMAGES, LABELS), attacks=["fgsm"], epsilon=0.02, options=options)


def test_progress_tells_how_far_the_evaluation_is():
    told = []
    result = athe_tf.evaluate(
        LINEAR,
        (IMAGES, LABELS),
        options=EvaluationOptions(progress=told.append),
        **{**SETTINGS, "attacks": ["fgsm", "pgd-3x4"]},
    )
    last = told[-1]
    assert (last.attack, last.number, last.attacks, last.examples) == ("pgd-3x4", 2, 2, 60)
    assert last.done == last.total and last.accuracy == result["pgd-3x4"].accuracy
    accuracies = [moment.accuracy for moment in told if moment.attack == "pgd-3x4"]
    assert accuracies == sorted(accuracies, reverse=True)


def test_no_adversarial_images_are_kept_but_a_few():
    """Memory does not grow with the attacks: what is kept of each is numbers and ten images."""
    result = athe_tf.evaluate(LINEAR, (IMAGES, LABELS), **SETTINGS)
    for outcome in result.attacks:
        assert all(len(array) <= 10 for array in outcome.examples.values())
        assert outcome.robust.nbytes + outcome.norms.nbytes <= 60 * 5


def test_labels_that_look_alike_have_files_of_their_own(tmp_path):
    settings = {"attacks": ["pgd-1", "pgd-1"], "epsilon": 1.0, "norm": "l2", "checks": False}
    options = EvaluationOptions(state=tmp_path / "state", epsilons=[2.0])
    result = athe_tf.evaluate(LINEAR, (IMAGES, LABELS), options=options, **settings)
    labels = [attack.name for attack in result.attacks]
    assert {"pgd-1 @ 2", "pgd-1 (2)"} < set(labels)
    assert len(list((tmp_path / "state").glob("*.done.npz"))) == len(labels)
    again = athe_tf.evaluate(LINEAR, (IMAGES, LABELS), options=options, **settings)
    assert [one.accuracy for one in again.attacks] == [one.accuracy for one in result.attacks]


def finished_fgsm(tmp_path):
    options = EvaluationOptions(state=tmp_path / "state")
    settings = {"attacks": ["fgsm"], "epsilon": 0.02, "checks": False, "options": options}
    athe_tf.evaluate(LINEAR, (IMAGES, LABELS), **settings)
    (path,) = (tmp_path / "state").glob("fgsm-*.done.npz")
    return settings, path


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("success", np.ones(3, bool), "expected .* in the array `success`"),
        ("success", np.ones(60), "expected .* in the array `success`"),
        ("norm", np.full(60, -1.0), "expected .* in the array `norm`"),
        ("rounds", np.full(60, 2), "expected .* in the array `rounds`"),
        ("seconds", np.zeros(2), "expected .* in the array `seconds`"),
        ("wall_seconds", np.array(-1.0), "expected .* in the array `wall_seconds`"),
        (
            "example index",
            np.zeros(3, np.int64),
            "expected arrays of one length, at most 10: clean, adversarial",
        ),
        ("other", np.zeros(10), "expected arrays of one length, at most 10: clean"),
    ],
)
def test_a_finished_result_that_does_not_fit_is_refused(name, value, message, tmp_path):
    settings, path = finished_fgsm(tmp_path)
    with np.load(path) as stored:
        arrays = {**stored, name: value}
    np.savez(path, **arrays)
    with pytest.raises(InputError, match=f"done.npz' cannot be read: {message}.* Remove it to start again"):
        athe_tf.evaluate(LINEAR, (IMAGES, LABELS), **settings)


def test_an_evaluation_hashes_the_weights_once(tmp_path, monkeypatch):
    calls = []
    original = athe_tf.victim(LINEAR)._digest
    monkeypatch.setattr(athe_tf.victim(LINEAR), "_digest", lambda: calls.append(1) or original())
    athe_tf.evaluate(LINEAR, (IMAGES, LABELS), options=EvaluationOptions(state=tmp_path / "s"), **SETTINGS)
    assert len(calls) == 1
    athe_tf.evaluate(LINEAR, (IMAGES, LABELS), **SETTINGS)  # the result names the model
    assert len(calls) == 2


def test_a_function_is_evaluated_without_a_state_and_the_user_is_told(tmp_path):
    options = EvaluationOptions(state=tmp_path / "state")
    settings = {"attacks": ["fgsm"], "epsilon": 0.02, "checks": False, "options": options}
    with pytest.warns(UserWarning, match="contains Python code") as told:
        athe_tf.evaluate(lambda x: LINEAR(x), (IMAGES, LABELS), **settings)
    assert len(told) == 1 and not (tmp_path / "state").exists()
