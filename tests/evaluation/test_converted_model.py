"""Files for other runtimes: attacked through their parent and from outside."""

import json

import numpy as np
import pytest
import tensorflow as tf

import athe_tf
from athe_tf import attacks
from athe_tf.conversion.runtime_model import open_runtime_model
from athe_tf.evaluation.converted_model import WITHOUT_PARENT, _masking, evaluate_converted
from athe_tf.evaluation.model_diagnosis import logarithms
from athe_tf.evaluation.options import EvaluationOptions
from athe_tf.evaluation.sanity import WITHOUT_GRADIENTS
from athe_tf.models.victim import in_range
from athe_tf.report import schema
from athe_tf.results.json_files import check_schema
from athe_tf.saving import convert
from athe_tf.utils.errors import InputError
from tests.small_runs import tiny_batch, tiny_net

X, _ = tiny_batch(24)
EPSILON = 0.05


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A network and its LiteRT file in eight bits; labels are the network's predictions."""
    folder = tmp_path_factory.mktemp("converted")
    net = tiny_net("he")
    convert(net, folder / "net.tflite", "litert_int8", images=X)
    return net, folder / "net.tflite", np.asarray(net(X)).argmax(1)


def test_the_victim_has_the_logits_of_the_file_and_the_facts_of_the_card(pair):
    net, path, _ = pair
    victim = open_runtime_model(path)
    for batch in (X, X[:5], X):
        np.testing.assert_allclose(victim.compiled_logits(batch), net(batch), atol=1.0)
    assert (victim.num_classes, victim.scale, victim.facts["format"]) == (4, 15.0, "litert_int8")
    assert not any(one.differentiable for one in (victim, in_range(victim, 0, 255), logarithms(victim)))


@pytest.mark.parametrize("name", ["pgd-5", "apgd-ce-5", "fab-5", "deepfool-5", "fmn-5", "cr-1"])
def test_attacks_follow_the_parent_and_the_file_judges(pair, name):
    net, path, y = pair
    attack, victim = attacks.get(name, epsilon=EPSILON), open_runtime_model(path)
    result = attack.run(victim.replace(source=athe_tf.victim(net)), X, y)
    wrong = np.asarray(victim.logits(result.x_adv)).argmax(1) != y
    correct = np.asarray(victim.logits(X)).argmax(1) == y
    assert result.success[correct].any() and not result.success.all(), "else the comparison says nothing"
    np.testing.assert_array_equal(wrong[result.success], True)
    assert result.norm[result.success].max() <= EPSILON + 1e-6
    # The passes of both are counted apart, and the judge is asked less often than the source.
    judged = result.memory["judge"][:, 0]
    assert (judged[correct] >= 1).all() and judged.sum() < result.queries.sum()
    np.testing.assert_array_equal(judged[~correct], 0)


def test_a_file_is_attacked_and_compared_with_its_parent(pair):
    net, path, y = pair
    options = EvaluationOptions(epsilons=[2 * EPSILON])
    settings = {"epsilon": EPSILON, "checks": False, "attacks": ["square-20"], "options": options}
    result = evaluate_converted(path, (X, y), parent=net, max_examples=8, **settings)
    names = [attack.name for attack in result.attacks]
    on_parent = ["apgd-ce on the parent", "apgd-t on the parent"]
    expected = [f"{name}{at}" for name in (*on_parent, "square-20") for at in ("", f" @ {2 * EPSILON}")]
    assert names == expected and all(attack.not_run is None for attack in result.attacks)
    victim = open_runtime_model(path)
    moved = np.abs(np.asarray(victim.logits(X[:8])) - np.asarray(net(X[:8])))
    found = result.conversion
    assert found["attacks"] == ["apgd-ce", "apgd-t", "square-20"]
    assert found["clean_accuracy"] == 1.0  # the labels are what the parent predicts
    assert found["same_predictions"] == result.clean_accuracy
    assert found["mean_difference"] == pytest.approx(moved.mean(), rel=1e-4)
    assert found["largest_difference"] == pytest.approx(moved.max(), rel=1e-4)
    assert f"The parent '{net.name}': 100.00% clean" in repr(result) and not result.warnings
    check_schema(json.loads(result.to_json()), schema("evaluation"))


def test_without_a_parent_the_result_warns(pair):
    _, path, y = pair
    settings = {"attacks": ["square-5"], "epsilon": EPSILON, "checks": False}
    result = evaluate_converted(path, (X, y), **settings)
    assert result.warnings == [WITHOUT_PARENT] and result.conversion is None


def test_sanity_checks_that_need_gradients_do_not_apply_to_a_file(pair):
    _, path, y = pair
    options = EvaluationOptions(verify_with=["cleverhans"])
    result = athe_tf.evaluate(path, (X, y), attacks=["square-5"], epsilon=EPSILON, options=options)
    assert all("need gradients" in one["not_run"] for one in result.verify)
    checks = {check["name"]: (check["status"], check["detail"]) for check in result.checks}
    assert checks["gradients are nonzero and finite"] == ("not run", WITHOUT_GRADIENTS)
    assert checks["FGSM is weaker than PGD"] == ("not run", WITHOUT_GRADIENTS)
    assert checks["the model is deterministic"][0] == "passed"
    assert not any(status == "failed" for status, _ in checks.values())
    assert repr(result).count(WITHOUT_GRADIENTS) == 1  # one line for all of them


def test_more_robustness_than_the_parent_has_may_be_masking():
    assert _masking(0.3, 0.3) == []
    assert "30.1% against 30.0%" in _masking(0.301, 0.3)[0] and "masking" in _masking(0.301, 0.3)[0]


def litert_file(path, shape, outputs=1, dtype=tf.float32):
    def function(x):
        y = tf.reduce_sum(tf.cast(x, tf.float32), axis=[2, 3])
        return y if outputs == 1 else (y, 2 * y)

    signature = tf.function(function, input_signature=[tf.TensorSpec(shape, dtype)])
    converter = tf.lite.TFLiteConverter.from_concrete_functions([signature.get_concrete_function()])
    path.write_bytes(converter.convert())


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ({"shape": [1, 3, 8, 8]}, r"shape \[1, 3, 8, 8\].*channels last"),
        ({"shape": [1, 8, 8, 3], "outputs": 2}, "1 inputs and 2 outputs"),
        ({"shape": [1, 8, 8, 3], "dtype": tf.float16}, "type float16. Expected: float32 images"),
    ],
)
def test_files_that_take_something_else_are_refused(kind, message, tmp_path):
    litert_file(tmp_path / "net.tflite", **kind)
    with pytest.raises(InputError, match=message):
        open_runtime_model(tmp_path / "net.tflite")


def onnx_file(path, shape, outputs=1, dtype="FLOAT"):
    from onnx import TensorProto, helper, save

    names = ["logits", "more"][:outputs]
    nodes = [helper.make_node("Cast", ["images"], ["cast"], to=TensorProto.FLOAT)]
    nodes += [helper.make_node("ReduceMean", ["cast"], [name], axes=[2, 3], keepdims=0) for name in names]
    images = helper.make_tensor_value_info("images", getattr(TensorProto, dtype), shape)
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape[:2]) for name in names]
    graph = helper.make_graph(nodes, "net", [images], results)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ({"shape": ["N", 3, "H", "W"]}, r"shape \[None, 3, None, None\].*images of a fixed size"),
        ({"shape": [4, 3, 8, 8]}, "takes exactly 4 images at a time.*Export it with a batch of 1"),
        ({"shape": ["N", 8, 8, 3], "outputs": 2}, "1 inputs and 2 outputs"),
        ({"shape": ["N", 8, 8, 3], "dtype": "UINT8"}, "type UINT8. Expected: FLOAT"),
    ],
)
def test_onnx_files_that_take_something_else_are_refused(kind, message, tmp_path):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    onnx_file(tmp_path / "net.onnx", **kind)
    with pytest.raises(InputError, match=message):
        open_runtime_model(tmp_path / "net.onnx")


def test_a_file_that_is_no_model_is_refused(tmp_path):
    (tmp_path / "net.tflite").write_bytes(b"nothing")
    with pytest.raises(InputError, match="cannot be read.*Export or copy it again"):
        open_runtime_model(tmp_path / "net.tflite")


def test_an_onnx_file_has_the_logits_of_its_parent(tmp_path):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("tf2onnx")
    net = tiny_net("mhe")
    convert(net, tmp_path / "net.onnx", "onnx")
    np.testing.assert_allclose(open_runtime_model(tmp_path / "net.onnx").logits(X), net(X), atol=1e-4)
