"""An attack in a file outside the package."""

import sys

import numpy as np
import pytest

import athe_tf
from athe_tf.utils.errors import InputError
from tests.linear_case import grey_images, linear_model, predictions

MODULE = """
from athe_tf import attacks


class MyAttack(attacks.PGD):
    name = "mine"

    def __init__(self, epsilon, norm="linf", *, push: float = 1.0, **kwargs):
        super().__init__(epsilon, norm, **kwargs)
        self.push = push

    def direction(self, gradient, memory):
        direction, memory = super().direction(gradient, memory)
        return self.push * direction, memory
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "my_attacks.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    yield "my_attacks:MyAttack"
    sys.modules.pop("my_attacks", None)


def test_it_is_made_by_name_and_evaluated_like_any_other(module):
    images, model = grey_images(20), linear_model()
    labels = predictions(model, images)
    attack = athe_tf.attacks.get(f"{module}-5", epsilon=0.02)
    assert (attack.steps, attack.settings()["push"]) == (5, 1.0) and repr(attack).startswith("MyAttack(")
    names = [f"{module}-5", "pgd-5"]
    result = athe_tf.evaluate(model, (images, labels), attacks=names, epsilon=0.02, checks=False)
    np.testing.assert_array_equal(result[names[0]].robust, result["pgd-5"].robust)


def test_what_cannot_be_imported_is_named(module):
    with pytest.raises(InputError, match="nowhere"):
        athe_tf.attacks.get("nowhere:MyAttack", epsilon=0.02)
    with pytest.raises(InputError, match="YourAttack"):
        athe_tf.attacks.get("my_attacks:YourAttack", epsilon=0.02)
