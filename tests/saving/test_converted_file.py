"""`convert`: other runtimes compute the logits of Keras."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import athe_tf
from athe_tf.conversion.converted_file import convertible
from athe_tf.conversion.torch_checkpoint import read_safetensors
from athe_tf.saving import convert
from athe_tf.utils.errors import InputError
from tests.small_runs import tiny_batch

X, _ = tiny_batch(40)
HEADS = ("linear", "he", "mhe")


NETS = ("wrn-10-1", "preact_resnet18-2", "preact_resnet18_fast-2")
CASES = [(name, head) for name in NETS for head in HEADS]


def small_net(head, name="wrn-10-1"):
    """A narrow network whose batch normalization has statistics, as after training."""
    keras.utils.set_random_seed(1)
    net = athe_tf.models.build(name, 4, input_shape=(8, 8, 1), head=head, mean=(0.3,), std=(0.5,))
    rng = np.random.default_rng(1)
    for variable in net.non_trainable_variables:
        if "moving" in variable.path:
            low, high = (0.5, 1.5) if "variance" in variable.path else (-0.1, 0.1)
            variable.assign(rng.uniform(low, high, variable.shape))
    assert np.ptp(np.asarray(net(X)), axis=0).min() > 1e-2, "the logits must depend on the images"
    return net


def litert_logits(path, x):
    interpreter = tf.lite.Interpreter(str(path))
    images, logits = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    interpreter.resize_tensor_input(images["index"], x.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(images["index"], x)
    interpreter.invoke()
    return interpreter.get_tensor(logits["index"])


@pytest.mark.parametrize("head", HEADS)
def test_the_copy_for_converters_computes_the_same_logits(head):
    net = small_net(head)
    np.testing.assert_allclose(convertible(net)(X), net(X), atol=1e-4)
    assert not any(isinstance(layer, keras.layers.Normalization) for layer in convertible(net).layers)


def test_a_normalization_that_was_adapted_is_converted():
    """Its mean and variance are weights, which the copy does not have."""
    normalize = keras.layers.Normalization()
    normalize.adapt(X)
    layers = [keras.Input(X.shape[1:]), normalize, keras.layers.Flatten(), keras.layers.Dense(3)]
    net = keras.Sequential(layers)
    np.testing.assert_allclose(convertible(net)(X), net(X), atol=1e-4)


def test_the_members_of_an_ensemble_keep_their_weights():
    members = [small_net("he"), small_net("mhe")]
    members[1].get_layer("head").kernel.assign(-members[1].get_layer("head").kernel)
    net = athe_tf.models.ensemble_of(members)
    np.testing.assert_allclose(convertible(net)(X), net(X), atol=1e-4)


@pytest.mark.parametrize(("name", "head"), CASES)
def test_litert_computes_the_logits_of_keras(name, head, tmp_path):
    net = small_net(head, name)
    card = convert(net, tmp_path / "net.tflite", "litert", margin=0.2)
    np.testing.assert_allclose(litert_logits(tmp_path / "net.tflite", X), net(X), atol=1e-4)
    assert json.loads((tmp_path / "net.tflite.json").read_text()) == card
    assert (card["format"], card["head"], card["margin"]) == ("litert", head, 0.2)


def test_eight_bits_are_smaller_and_mostly_agree(tmp_path):
    net = small_net("he")
    for format in ("litert", "litert_int8"):
        convert(net, tmp_path / f"{format}.tflite", format, images=X)
    sizes = [(tmp_path / f"{format}.tflite").stat().st_size for format in ("litert", "litert_int8")]
    assert sizes[1] < sizes[0] / 2
    logits, expected = litert_logits(tmp_path / "litert_int8.tflite", X), np.asarray(net(X))
    assert 0 < np.abs(logits - expected).max() < 1.5  # logits lie in [-15, 15]
    assert np.mean(logits.argmax(1) == expected.argmax(1)) > 0.8


@pytest.mark.parametrize(("name", "head"), CASES)
def test_onnx_computes_the_logits_of_keras(name, head, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("tf2onnx")
    net = small_net(head, name)
    convert(net, tmp_path / "net.onnx", "onnx")
    session = onnxruntime.InferenceSession(tmp_path / "net.onnx")
    assert len(session.get_inputs()) == 1
    logits = session.run(None, {session.get_inputs()[0].name: X})[0]
    np.testing.assert_allclose(logits, net(X), atol=1e-4)


def test_a_state_dict_is_written_without_torch(tmp_path):
    net = small_net("he")
    card = convert(net, tmp_path / "net.safetensors", "torch")
    state = athe_tf.models.to_torch(net)
    written = read_safetensors(tmp_path / "net.safetensors")
    assert set(written) == set(state) and "AT_HE" in card["layout"] and card["scale"] == 15
    for name, value in state.items():
        np.testing.assert_array_equal(written[name], value)


@pytest.mark.parametrize(
    ("path", "format", "message"),
    [
        ("net.tflite", "tflite", "format='tflite'"),
        ("net.pb", "onnx", "must end with .onnx. Received: '.*net.pb'"),
        ("net.tflite", "litert_int8", r"Expected `images` of shape \(N, 8, 8, 1\). Received: None"),
    ],
)
def test_bad_arguments_are_refused(path, format, message, tmp_path):
    with pytest.raises(InputError, match=message):
        convert(small_net("linear"), tmp_path / path, format)
    assert not any(tmp_path.iterdir())


def test_a_model_without_a_counterpart_in_pytorch_is_refused(tmp_path):
    net = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Flatten(), keras.layers.Dense(3)])
    with pytest.raises(InputError, match="has the layers of no known PyTorch network. Known: wide ResNet"):
        convert(net, tmp_path / "net.safetensors", "torch")


def test_a_plain_export_of_an_angular_head_converts(tmp_path):
    net = athe_tf.models.build("small_cnn", 4, head="mhe", input_shape=X.shape[1:])
    net.export(tmp_path / "plain", verbose=False)
    content = tf.lite.TFLiteConverter.from_saved_model(str(tmp_path / "plain")).convert()
    (tmp_path / "net.tflite").write_bytes(content)
    np.testing.assert_allclose(litert_logits(tmp_path / "net.tflite", X), net(X), atol=1e-4)


def test_what_was_trained_in_mixed_precision_is_converted_to_float32():
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        net = athe_tf.models.build("small_cnn", 4, head="mhe", input_shape=X.shape[1:])
    finally:
        keras.config.set_dtype_policy("float32")
    copy = convertible(net)
    assert {layer.dtype_policy.name for layer in copy.layers} == {"float32"}
    np.testing.assert_allclose(copy(X), net(X), atol=0.2)
    for one, other in zip(copy.weights, net.weights, strict=True):
        np.testing.assert_array_equal(one, other)
