"""Cross-examination by other packages, and what happens where they are missing."""

import sys
import types

import numpy as np
import pytest

import athe_tf
from athe_tf.evaluation.inputs import EvaluationInputs
from athe_tf.evaluation.options import EvaluationOptions
from athe_tf.evaluation.verify import PeerTask, verify
from athe_tf.saving.opening import victim
from tests.linear_case import gray_images, linear_model, predictions, radii

IMAGES = gray_images(60)
LINEAR = linear_model(scale=0.1)
LABELS = predictions(LINEAR, IMAGES)
RADIUS = radii(LINEAR, IMAGES, LABELS, "linf")
EPSILON = float(np.median(RADIUS))


def inputs_in(norm="linf", epsilon=EPSILON):
    return EvaluationInputs.open(victim(LINEAR), IMAGES, LABELS, norm, epsilon, 0, 25)


def test_all_packages_are_asked_for_the_same_attack():
    one, many = PeerTask(inputs_in(), 1), PeerTask(inputs_in(), 20)
    assert (one.name, one.step_size) == ("fgsm", EPSILON)
    assert (many.name, many.step_size) == ("pgd-20", EPSILON / 4)
    for task in (one, many):
        attack = task.attack()
        assert (attack.step_size, attack.select) == (task.step_size, "last")
        assert (attack.epsilon, attack.threat.norm) == (EPSILON, "linf")
    images, labels = zip(*one.batches(), strict=True)
    assert [len(part) for part in images] == [25, 25, 10]
    np.testing.assert_array_equal(np.concatenate(labels), LABELS)


def test_the_first_thousand_images_are_attacked_and_no_more():
    images = np.zeros((1200, 1, 1, 1))
    inputs = types.SimpleNamespace(images=images, labels=np.arange(1200), batch_size=300)
    parts = [labels for _, labels in PeerTask(inputs, 1).batches()]
    np.testing.assert_array_equal(np.concatenate(parts), np.arange(1000))


def check_agreement(tool, norm="linf"):
    radius = radii(LINEAR, IMAGES, LABELS, norm)
    found = verify(inputs_in(norm, float(np.median(radius))), [tool])
    assert [entry["attack"] for entry in found] == ["fgsm", "pgd-20"]
    for entry in found:
        assert entry["tool"] == tool
        assert entry["difference"] == pytest.approx(entry["ours"] - entry["theirs"])
        assert abs(entry["difference"]) <= 0.05
        # Nobody moves an image across a boundary that is further away than epsilon.
        assert 0.5 - 0.02 <= entry["theirs"] < 0.8


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_cleverhans_agrees(norm):
    pytest.importorskip("cleverhans")
    check_agreement("cleverhans", norm)


@pytest.mark.parametrize("tool, package", [("foolbox", "foolbox"), ("art", "art")])
def test_other_packages_agree(tool, package):
    pytest.importorskip(package)
    check_agreement(tool)


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "foolbox", None)
    options = EvaluationOptions(verify_with=["foolbox"])
    result = athe_tf.evaluate(
        LINEAR, (IMAGES, LABELS), attacks=["fgsm"], epsilon=EPSILON, checks=False, options=options
    )
    entry = result.to_dict()["verify"][0]
    assert (entry["tool"], entry["attack"]) == ("foolbox", "fgsm")
    assert "pip install" in entry["not_run"] and "foolbox, fgsm: not run" in str(result)


def test_a_norm_that_other_packages_lack_is_not_run():
    entries = verify(inputs_in("l1"), ["cleverhans"])
    assert all("linf and l2" in entry["not_run"] for entry in entries)
