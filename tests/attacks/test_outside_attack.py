"""An attack in a file outside the package."""

import json
import pathlib
import re
import sys

import numpy as np
import pytest

import athe_tf
from athe_tf.utils.errors import InputError
from tests.linear_case import gray_images, linear_model, predictions
from tests.warm_processes import run_program

DOCS = pathlib.Path(__file__).parents[2] / "docs" / "own_attacks.md"
# The attack that the docs show.
MODULE = re.search(r"```python\n(# my_attacks.py\n.*?)```", DOCS.read_text(), re.DOTALL)[1]


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "my_attacks.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    yield "my_attacks:MyAttack"
    sys.modules.pop("my_attacks", None)


def test_it_takes_few_lines():
    assert len(MODULE.splitlines()) <= 25


def test_it_is_made_by_name_and_evaluated_like_any_other(module):
    images, model = gray_images(20), linear_model()
    labels = predictions(model, images)
    attack = athe_tf.attacks.get(f"{module}(tries=5, step_size=1/200)", epsilon=0.02)
    assert attack.settings() == {"epsilon": 0.02, "norm": "linf", "tries": 5, "step_size": 0.005}
    assert repr(attack) == "MyAttack(epsilon=0.02, tries=5, step_size=0.005)"
    names = [f"{module}(tries=5)", "pgd-5(start='zero')"]
    result = athe_tf.evaluate(model, (images, labels), attacks=names, epsilon=0.004, checks=False)
    mine, pgd = (result[name] for name in names)
    assert 0 < mine.robust.mean() < 1
    np.testing.assert_array_equal(mine.robust, pgd.robust)
    # Counted by the machinery, as PGD is.
    assert (mine.queries, mine.gradients) == (pgd.queries, pgd.gradients)
    assert mine.settings["tries"] == 5


def test_it_is_resumable(module, tmp_path):
    images, model = gray_images(20), linear_model()
    labels = predictions(model, images)
    attack = athe_tf.attacks.get(f"{module}(tries=5)", epsilon=0.02)
    whole = attack.run(model, images, labels, batch_size=5)

    class Interrupted(Exception):
        pass

    def stop(*_):
        raise Interrupted

    state = {"state": tmp_path / "state.npz", "batch_size": 5}
    with pytest.raises(Interrupted):
        attack.run(model, images, labels, progress=stop, **state)
    resumed = attack.run(model, images, labels, **state)
    np.testing.assert_array_equal(whole.success, resumed.success)
    np.testing.assert_array_equal(whole.queries, resumed.queries)


def test_the_program_takes_it_with_its_options(module, tmp_path):
    linear_model().save(tmp_path / "net.keras")
    np.savez(tmp_path / "d.npz", **archive(gray_images(20)))
    ended = run_program(
        "evaluate",
        *(f"--model={tmp_path}/net.keras", f"--dataset=npz:{tmp_path}/d.npz", "--epsilon=0.02", "--nochecks"),
        *(f"--attacks=pgd-5,{module}(tries=5,step_size=1/200)", f"--output={tmp_path}/out"),
        folder=tmp_path,
    )
    assert ended.returncode == 0, ended.stderr
    found = json.loads((tmp_path / "out" / "evaluation.json").read_text())["attacks"]
    assert [attack["name"] for attack in found] == ["pgd-5", f"{module}(tries=5,step_size=1/200)"]
    assert found[1]["settings"]["step_size"] == 0.005


def archive(images):
    """A data set of these images, in which every class occurs."""
    labels = predictions(linear_model(), images)
    return {"x_train": images, "y_train": labels, "x_test": images, "y_test": labels}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pgd-5(3)", "every argument needs a name"),
        ("pgd-5(loss=print)", "`print` is not a number, a text"),
        ("pgd-5(step_size=1/0)", "division by zero"),
        ("pgd-5(step_size=)", "it is not a call"),
        ("pgd-5(stepsize=1)", "Invalid arguments.*stepsize"),
        ("pdg-5(steps=1)", "Did you mean 'pgd'"),
    ],
)
def test_options_that_cannot_be_read_are_named(name, message):
    with pytest.raises(InputError, match=message):
        athe_tf.attacks.get(name, epsilon=0.1)


def test_what_cannot_be_imported_is_named(module):
    with pytest.raises(InputError, match="nowhere"):
        athe_tf.attacks.get("nowhere:MyAttack", epsilon=0.02)
    with pytest.raises(InputError, match="YourAttack"):
        athe_tf.attacks.get("my_attacks:YourAttack", epsilon=0.02)


def test_the_former_name_of_a_round_works_for_one_version():
    with pytest.warns(DeprecationWarning, match="now called `run_round`. Rename it in Former"):

        class Former(athe_tf.attacks.Attack):
            name = "former"
            steps = 1

            def attempt(self, victim, x, y, ids, seed, round_index):
                success = self.succeeded(victim.logits(x), y)
                zeros, norm = y * 0, 1.0 + x[:, 0, 0, 0]
                return athe_tf.attacks.RoundResult(x, success, zeros + 1, zeros, norm, zeros)

    images, model = gray_images(4), linear_model()
    result = Former(0.1).run(model, images, predictions(model, images))
    assert not result.success.any() and result.queries.tolist() == [2] * 4
    with pytest.warns(DeprecationWarning, match="now called `loss_sign`"):
        assert Former(0.1).aim == 1.0
