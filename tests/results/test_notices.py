"""Every warning that athe_tf adds to a result has an id of the table."""

import ast
import pathlib
import re

import numpy as np

import athe_tf
from athe_tf.attacks.engine.model_checks import scale_warnings
from athe_tf.evaluation import converted_model
from athe_tf.evaluation.model_diagnosis import LOGARITHMS, ModelDiagnosis
from athe_tf.results.notices import WARNINGS

PACKAGE = pathlib.Path(athe_tf.__file__).parent


def calls(tree: ast.AST, name: str) -> list[ast.Call]:
    """All calls of a function or method."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [call for call in found if ast.unparse(call.func).endswith(name)]


def trees() -> list[ast.Module]:
    return [ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py")]


def test_the_ids_of_the_table_are_those_that_the_package_gives():
    made = [call for tree in trees() for call in calls(tree, "Notice")]
    # What is read from a file keeps the id that it has there.
    given = [keyword.value for call in made for keyword in call.keywords if keyword.arg == "id"]
    written = {value.value for value in given if isinstance(value, ast.Constant)}
    texts = [path.read_text() for path in PACKAGE.rglob("*.py") if path.name != "notices.py"]
    assert written <= WARNINGS.keys()
    assert all(any(f'"{id}"' in text for text in texts) for id in WARNINGS)
    assert len(made) == len(given) + 1


def test_ids_are_short_names_and_meanings_are_sentences():
    for id, meaning in WARNINGS.items():
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", id) and meaning.endswith(".")


def test_no_plain_text_is_added_to_the_warnings_of_a_result():
    added = [call for tree in trees() for call in calls(tree, "result.warnings.append")]
    assert added
    for call in added:
        assert not isinstance(call.args[0], (ast.Constant, ast.JoinedStr)), ast.unparse(call)


def test_warnings_about_a_model_have_ids():
    logits = [[0.9, -0.2]], [[20.0, 1.0]], [[0.5, 0.5]], [[0.9, 0.5]]
    scales = [notice for each in logits for notice in scale_warnings(each, [0])]
    diagnosis = ModelDiagnosis("logits", 0.0, scales, False, 0.1, ("scaled to [-1, 1]", 0.9), (3, 100.0))
    parent = converted_model._masking(0.5, 0.4)
    found = [*diagnosis.warnings, LOGARITHMS, converted_model.WITHOUT_PARENT, *parent]
    assert {one.id for one in found} <= WARNINGS.keys() and len(found) == 10


def test_the_warning_of_a_shard_has_an_id(tmp_path):
    net = athe_tf.models.build("small_cnn", num_classes=3, input_shape=(4, 4, 1))
    data = np.full((4, 4, 4, 1), 0.5, np.float32), np.zeros(4, np.int32)
    options = athe_tf.evaluation.EvaluationOptions(state=tmp_path / "state", shard="1/2")
    found = athe_tf.evaluate(net, data, attacks=["fgsm"], checks=False, options=options)
    assert found.to_dict()["warnings"][-1]["id"] == "single-shard"
