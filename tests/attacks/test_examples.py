"""Every public name of `athe_tf.attacks` has an example, and it runs."""

import doctest
import inspect

import numpy as np
import pytest

import athe_tf
from athe_tf import attacks
from tests.linear_case import gray_images, linear_model, predictions

CLASSES_AND_FUNCTIONS = [
    name for name in attacks.__all__ if inspect.isroutine(getattr(attacks, name)) or name[0].isupper()
]


@pytest.fixture(scope="module")
def case():
    model = linear_model()
    x = gray_images(8)
    return {"athe_tf": athe_tf, "np": np, "model": model, "x": x, "y": predictions(model, x)}


@pytest.mark.parametrize("name", [name for name in CLASSES_AND_FUNCTIONS if name != "ATTACKS"])
def test_a_public_name_has_an_example_that_runs(name, case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    public = getattr(attacks, name)
    text = inspect.getdoc(public) or ""
    assert "Example:" in text
    text = text.replace(
        "AutoAttack(epsilon=8 / 255)", 'AutoAttack(epsilon=8 / 255, profile="smoke")'
    )  # faster
    names = dict(vars(inspect.getmodule(public))) | case
    example = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
    assert example.examples
    said: list[str] = []
    doctest.DocTestRunner(verbose=False).run(example, out=said.append)
    assert not said, "".join(said)
