"""ONNX files as Keras models: the same logits as onnxruntime, gradients, and what is refused."""

import os

import keras
import numpy as np
import pytest
import tensorflow as tf

import athe_tf
from athe_tf.conversion import from_onnx
from athe_tf.conversion.onnx_file import read_onnx
from athe_tf.conversion.onnx_import import onnx_logits
from athe_tf.conversion.onnx_lowering import lower
from athe_tf.conversion.runtime_model import NOT_CONVERTED, open_runtime_model
from athe_tf.utils.errors import InputError

onnxruntime = pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")

from tests.conversion.onnx_models import model, residual_network, save, weights  # noqa: E402

IMAGES = np.random.default_rng(0).random((5, 8, 8, 3), "float32")


@pytest.mark.parametrize("single", [False, True])
def test_a_network_with_channels_first_has_the_logits_of_onnxruntime_for_any_batch(single, tmp_path):
    path = save(residual_network(single), tmp_path / "net.onnx")
    net = from_onnx(path)
    np.testing.assert_allclose(net(IMAGES), onnx_logits(path)(IMAGES), atol=1e-6)
    assert net.output_shape == (None, 4) and net.layers[-1].units == 4


def test_its_gradients_are_those_of_finite_differences(tmp_path):
    path = save(residual_network(), tmp_path / "net.onnx")
    victim = open_runtime_model(path)
    x, direction = IMAGES[:1], np.random.default_rng(1).normal(size=IMAGES[:1].shape).astype("float32")
    with tf.GradientTape() as tape:
        inputs = tf.constant(x)
        tape.watch(inputs)
        logit = victim.source.logits(inputs)[0, 2]
    slope = float(tf.reduce_sum(tape.gradient(logit, inputs) * direction))
    step = 1e-3
    ends = [float(victim.logits(x + sign * step * direction)[0, 2]) for sign in (1, -1)]
    assert slope == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-2)


def test_the_model_is_saved_without_code_and_trained_further(tmp_path):
    net = from_onnx(save(residual_network(), tmp_path / "net.onnx"))
    net.save(tmp_path / "net.keras")
    again = athe_tf.load_model(tmp_path / "net.keras")
    np.testing.assert_array_equal(again(IMAGES), net(IMAGES))
    # Kernels, biases and the head are trained, and the statistics of batch normalization are not.
    shapes = {tuple(weight.shape) for weight in again.trainable_weights}
    assert shapes == {(3, 3, 3, 6), (3, 3, 1, 6), (6,), (24, 4), (4,)}
    assert len(again.non_trainable_weights) == 2


def test_shapes_are_computed_when_the_file_is_read(tmp_path):
    left = lower(read_onnx(save(residual_network(), tmp_path / "net.onnx"))).nodes
    assert not {node.operator for node in left} & {"Shape", "Gather", "Concat", "Unsqueeze"}


def test_rows_of_an_image_may_come_before_the_batch(tmp_path):
    # As multi-head attention is written for one image: [tokens, 1, width] to [tokens, width] and back.
    nodes = [
        ("Reshape", ["x", "tokens"], "t", {}),
        ("Transpose", ["t"], "first", {"perm": [2, 0, 1]}),
        ("Reshape", ["first", "flat"], "rows", {}),
        ("Gemm", ["rows", "w", "b"], "mixed", {}),
        ("Reshape", ["mixed", "back"], "three", {}),
        ("ReduceMean", ["three"], "y", {"axes": [0], "keepdims": 0}),
    ]
    constants = {"w": weights(3, 4), "b": weights(4, seed=1)}
    constants |= {"tokens": np.array([1, 3, 64]), "flat": np.array([64, 3]), "back": np.array([64, 1, 4])}
    path = save(model(nodes, constants, shape=(1, 3, 8, 8), output=(1, 4)), tmp_path / "net.onnx")
    np.testing.assert_allclose(from_onnx(path)(IMAGES), onnx_logits(path)(IMAGES), atol=1e-6)


# Forms of inputs, outputs and products that files of others have, with the shape of their images.
FLAT = [("Gemm", ["x", "w"], "y", {"transB": 1})]
COLUMN = [
    ("Reshape", ["x", "to"], "f", {}),
    ("MatMul", ["w", "f"], "g", {}),
    ("Reshape", ["g", "row"], "y", {}),
]
VECTOR = [("Reshape", ["x", "to"], "f", {}), ("MatMul", ["f", "w"], "y", {})]
MAPS = [("Conv", ["x", "w"], "c", {"strides": [2, 2]}), ("GlobalAveragePool", ["c"], "y", {})]
WIDE = [("Flatten", ["x"], "f", {}), ("MatMul", ["f", "w"], "y", {})]
FORMS = {
    "flat": (FLAT, {"w": weights(4, 64)}, (1, 64), (1, 4), (8, 8, 1)),
    "flat, one more axis": (WIDE, {"w": weights(64, 4)}, ("N", 64, 1), ("N", 4), (8, 8, 1)),
    "no batch": (VECTOR, {"w": weights(192, 4), "to": np.array([-1])}, (3, 8, 8), (4,), (8, 8, 3)),
    "no channel": (WIDE, {"w": weights(64, 4)}, ("N", 8, 8), ("N", 4), (8, 8, 1)),
    "columns": (
        COLUMN,
        {"w": weights(4, 192), "to": np.array([192, 1]), "row": np.array([1, 4])},
        (1, 3, 8, 8),
        (1, 4),
        (8, 8, 3),
    ),
    "maps of logits": (MAPS, {"w": weights(4, 3, 1, 1)}, (1, 3, 8, 8), (1, 4, 1, 1), (8, 8, 3)),
    "double": (WIDE, {"w": weights(192, 4).astype("float64")}, (1, 3, 8, 8), (1, 4), (8, 8, 3)),
}


@pytest.mark.parametrize("form", FORMS)
def test_inputs_outputs_and_products_may_have_other_forms(form, tmp_path):
    nodes, constants, shape, output, image = FORMS[form]
    dtype = "DOUBLE" if form == "double" else "FLOAT"
    path = save(model(nodes, constants, shape, output, dtype=dtype), tmp_path / "net.onnx")
    victim, x = open_runtime_model(path), tf.constant(IMAGES[:, :, :, : image[-1]])
    assert x.shape[1:] == image
    # The file is called for each image as it is.
    session = onnxruntime.InferenceSession(str(path))
    kind, sizes = ("float64" if form == "double" else "float32"), [size for size in shape if size != "N"]
    planes = [one.transpose(2, 0, 1).astype(kind) for one in x.numpy()]
    sizes = sizes if len(sizes) == len(shape) else [1, *sizes]
    expected = np.stack([np.ravel(session.run(None, {"x": one.reshape(sizes)})[0]) for one in planes])
    np.testing.assert_allclose(victim.logits(x), expected, atol=1e-6)
    np.testing.assert_allclose(victim.source.logits(x), expected, atol=1e-6)
    # A product with the weights: the gradient of all logits is known from two calls of a linear model.
    with tf.GradientTape() as tape:
        tape.watch(x)
        total = tf.reduce_sum(victim.source.logits(x) * expected)
    slope = tf.reduce_sum(tape.gradient(total, x) * x).numpy()
    assert slope == pytest.approx(float((expected**2).sum()), rel=1e-4)
    victim.source.network.save(tmp_path / "net.keras")
    np.testing.assert_array_equal(athe_tf.load_model(tmp_path / "net.keras")(x), victim.source.logits(x))


def test_narrow_kernels_with_strides_are_trained(tmp_path):
    # TensorFlow 2.21 with oneDNN overwrites foreign memory in the gradient of such kernels themselves.
    net = from_onnx(save(model(MAPS, {"w": weights(4, 3, 1, 1)}), tmp_path / "net.onnx"))
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(net(IMAGES))
    (slope,) = tape.gradient(total, net.trainable_variables)
    channels = IMAGES[:, ::2, ::2].mean(axis=(1, 2)).sum(axis=0)
    np.testing.assert_allclose(slope, np.tile(channels[:, None], [1, 4])[None, None], rtol=1e-5)


def test_weights_beside_the_file_are_read_and_outside_of_its_folder_refused(tmp_path):
    settings = {"save_as_external_data": True, "location": "net.data", "size_threshold": 100}
    path = save(residual_network(), tmp_path / "net.onnx", **settings)
    np.testing.assert_allclose(from_onnx(path)(IMAGES), onnx_logits(path)(IMAGES), atol=1e-6)
    made = onnx.load(str(path), load_external_data=False)
    for place in ("../net.data", "/etc/passwd", "sub/net.data", "link"):
        for entry in (one for tensor in made.graph.initializer for one in tensor.external_data):
            entry.value = place if entry.key == "location" else entry.value
        (tmp_path / "bad.onnx").write_bytes(made.SerializeToString())
        if place == "link":
            os.symlink("/etc/passwd", tmp_path / "link")
        with pytest.raises(InputError, match="outside of its folder, and are refused"):
            open_runtime_model(tmp_path / "bad.onnx")


def test_external_weights_that_do_not_fit_are_refused(tmp_path):
    settings = {"save_as_external_data": True, "location": "net.data", "size_threshold": 100}
    path = save(residual_network(), tmp_path / "net.onnx", **settings)
    data = (tmp_path / "net.data").read_bytes()
    (tmp_path / "net.data").write_bytes(data[: len(data) // 2])
    with pytest.raises(InputError, match=r"do not fit .* bytes at .* of 'net.data'"):
        from_onnx(path)


def test_an_unknown_operation_is_named_with_its_node_and_the_file_has_no_gradients(tmp_path):
    nodes = [("GlobalLpPool", ["x"], "p", {}), ("Flatten", ["p"], "f", {}), ("Gemm", ["f", "w"], "y", {})]
    path = save(model(nodes, {"w": weights(3, 4)}), tmp_path / "net.onnx")
    with pytest.raises(
        InputError, match=r"no conversion for GlobalLpPool \(node 'the_p'\).*Export the model"
    ):
        from_onnx(path)
    victim = open_runtime_model(path)
    assert not victim.differentiable and "GlobalLpPool" in victim.facts[NOT_CONVERTED]


def test_what_a_node_asks_for_and_is_not_supported_is_named(tmp_path):
    nodes = [
        ("Resize", ["x", "", "", "sizes"], "p", {"mode": "linear", "antialias": 1}),
        ("Flatten", ["p"], "f", {}),
        ("Gemm", ["f", "w"], "y", {}),
    ]
    constants = {"sizes": np.array([1, 3, 2, 2]), "w": weights(12, 4)}
    path = save(model(nodes, constants, opset=18), tmp_path / "net.onnx")
    with pytest.raises(InputError, match=r"The operation Resize \(node 'the_p'\) has antialias=1"):
        from_onnx(path)


def test_a_constant_that_would_fill_the_memory_is_refused(tmp_path):
    nodes = [("ConstantOfShape", ["huge"], "c", {}), ("Add", ["x", "c"], "y", {})]
    path = save(model(nodes, {"huge": np.array([2**20, 2**20])}), tmp_path / "net.onnx")
    with pytest.raises(InputError, match="makes a tensor of 1,099,511,627,776 elements"):
        lower(read_onnx(path))


def test_a_file_that_is_not_onnx_or_too_large_is_refused(tmp_path):
    (tmp_path / "net.onnx").write_bytes(b"no model")
    with pytest.raises(InputError, match="is not an ONNX file, or is damaged"):
        from_onnx(tmp_path / "net.onnx")
    with open(tmp_path / "large.onnx", "wb") as file:
        file.truncate(2**31)  # sparse: takes no space
    with pytest.raises(InputError, match=r"has 2.0 GiB.*weights in a file of their own"):
        from_onnx(tmp_path / "large.onnx")


def test_a_white_box_attack_breaks_the_same_images_as_on_the_parent(tmp_path):
    pytest.importorskip("tf2onnx")
    net = athe_tf.models.build("small_cnn", 4, head="he", input_shape=(8, 8, 3))
    athe_tf.saving.convert(net, tmp_path / "net.onnx", "onnx")
    labels = np.asarray(net(IMAGES)).argmax(axis=1)
    settings = {"attacks": ["swift"], "epsilon": 0.3, "checks": False}
    parent = athe_tf.evaluate(net, IMAGES, labels, **settings)
    result = athe_tf.evaluation.evaluate_converted(tmp_path / "net.onnx", (IMAGES, labels), **settings)
    assert result.worst_case_accuracy == parent.worst_case_accuracy < 1
    np.testing.assert_array_equal(result.attacks[0].robust, parent.attacks[0].robust)
    assert result.gradient_source["kind"] == "its Keras twin" and "White box" in str(result)


def test_normalization_outside_of_the_file_holds_for_judge_and_gradients(tmp_path):
    path = save(residual_network(), tmp_path / "net.onnx")
    mean, std = [0.4, 0.5, 0.6], [0.2, 0.3, 0.25]
    opened = athe_tf.saving.open_model(path, mean=mean, std=std)
    expected = onnx_logits(path)(((IMAGES - mean) / std).astype("float32"))
    for victim in (opened.victim, opened.victim.source):
        np.testing.assert_allclose(victim.logits(IMAGES), expected, atol=1e-5)
    assert opened.card["normalization"] == {"mean": mean, "std": std}
    net = athe_tf.models.with_input_range(from_onnx(path), (0, 1), mean, std)
    np.testing.assert_allclose(net(IMAGES), expected, atol=1e-5)
    assert isinstance(net.layers[1], keras.layers.Normalization)
    with pytest.raises(InputError, match="Mean and standard deviation go together.*for 3 channels"):
        athe_tf.models.with_input_range(from_onnx(path), (0, 1), [0.5], [0.5])
