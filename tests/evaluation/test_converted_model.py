"""Files for other runtimes: attacked through their parent and from outside."""

import numpy as np
import pytest
import tensorflow as tf

import athe_tf
from athe_tf import attacks
from athe_tf.evaluation.converted_model import ConvertedModel, _masking
from athe_tf.evaluation.runtime_model import open_runtime_model
from athe_tf.evaluation.transferred_attack import TransferredAttack
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


def test_images_of_the_parent_are_tried_on_the_file(pair):
    net, path, y = pair
    source = attacks.get("pgd-5", epsilon=EPSILON)
    parent, victim = athe_tf.victim(net), open_runtime_model(path)
    result = TransferredAttack(source, parent).run(victim, X, y)
    correct = np.asarray(victim.logits(X)).argmax(1) == y
    fooled = np.asarray(victim.logits(source(parent, X, y))).argmax(1) != y
    assert fooled[correct].any(), "else the comparison says nothing"
    np.testing.assert_array_equal(result.success, fooled | ~correct)
    assert result.norm[result.success].max() <= EPSILON + 1e-6


def test_the_result_says_how_far_the_file_is_from_its_parent(pair):
    net, path, y = pair
    victim = open_runtime_model(path)
    plan = ConvertedModel(athe_tf.victim(net), EPSILON, "linf")
    result = athe_tf.evaluate(
        victim, (X, y), attacks=plan.attacks(["square-20"]), epsilon=EPSILON, checks=False
    )
    names = [attack.name for attack in result.attacks]
    assert names == ["apgd-ce on the parent", "apgd-t on the parent", "square-20"]
    assert all(attack.not_run is None for attack in result.attacks)
    distance, parent, *_ = plan.remarks(result, victim, (X[:4], y[:4]))
    assert "predict the same class for" in distance and "100.0% clean" in parent


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
