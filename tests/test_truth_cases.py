"""Situations of benchmarks/truth.py: the number is right, refused, or a warning names the cause."""

import pytest

from benchmarks import truth_more_cases  # noqa: F401
from benchmarks.truth import ALARM, SILENT, World, outcomes
from benchmarks.truth_cases import CASES

CHOSEN = (
    "healthy: a functional model",
    "wrapper of a function (functools.wraps)",
    "members of a callable replaced",
    "Normalization.adapt on other data",
    "activation of the last layer replaced",
    "gradients that are all NaN",
    "gradients that are zero for most images",
    "NaN logits near the decision boundary",
    "softmax in float16",
    "one class for every image",
    "an integer input (uint8)",
    "tf.data of dictionaries",
    "a targeted attack",
    "an attack at a smaller radius",
    "call of a functional model replaced",
    "a SavedModel of integers",
    "an attack that was changed after its first run",
)


@pytest.fixture(scope="module")
def world():
    return World()


def test_there_are_enough_situations_with_names_of_their_own():
    names = [case.name for case in CASES]
    assert len(names) == len(set(names)) >= 130 and sum(case.healthy for case in CASES) >= 10
    assert set(CHOSEN) <= set(names)


@pytest.mark.parametrize("name", CHOSEN)
def test_no_number_is_wrong_without_a_word(name, world):
    (case,) = (case for case in CASES if case.name == name)
    found = outcomes(case, world)
    assert found and not [text for text in found.values() if text.startswith((SILENT, ALARM))], found
