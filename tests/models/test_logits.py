"""`to_logits` and `with_input_range`: classifiers that others trained, as attacks need them."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import athe_tf
from athe_tf import InputError, models
from tests.models.test_hypersphere import Subclassed, classifiers, pointwise_classifier, trunk

X = np.random.default_rng(0).normal(size=(4, 6)).astype("float32")


def nested():
    inner = keras.Sequential([*trunk(), keras.layers.Dense(3, activation="softmax")])
    return keras.Sequential([keras.Input((6,)), keras.layers.Rescaling(2.0), inner])


@pytest.mark.parametrize("model", [*classifiers().values(), nested()])
def test_the_softmax_of_the_logits_is_what_the_model_returned(model):
    net = models.to_logits(model)
    logits = np.asarray(net(X))
    outputs = np.asarray(model(X))
    if net is model:  # it returned logits
        assert not np.allclose(outputs.sum(axis=1), 1)
    else:
        exponentials = np.exp(logits.astype("float64"))
        np.testing.assert_allclose(exponentials / exponentials.sum(axis=1, keepdims=True), outputs, rtol=1e-5)
        assert not np.allclose(logits.sum(axis=1), 1)
    assert models.to_logits(net) is net


def test_what_comes_before_the_softmax_may_be_any_layer():
    model = pointwise_classifier()
    assert isinstance(models.to_logits(model).layers[-1], keras.layers.Flatten)


def test_a_model_whose_layers_are_not_known_is_refused():
    with pytest.raises(InputError, match="The last layer of .* is not known"):
        models.to_logits(Subclassed())


def test_a_model_of_another_range_takes_images_in_0_1():
    inner = models.build("small_cnn", 3, head="he", input_shape=(8, 8, 1))
    net = models.with_input_range(inner, (-1, 255))
    x = np.random.default_rng(0).uniform(size=(2, 8, 8, 1)).astype("float32")
    np.testing.assert_allclose(net(x), inner(256 * x - 1), rtol=1e-5, atol=1e-5)
    victim = athe_tf.victim(net)
    assert victim.scale == 15.0 and victim.has_features and victim.num_classes == 3


@pytest.mark.parametrize("input_range", [(0,), (1, 0), (0, float("nan")), (0, 1, 2)])
def test_a_range_that_is_none_is_refused(input_range):
    with pytest.raises(InputError, match="two rising numbers"):
        models.with_input_range(classifiers()["functional"], input_range)


def of_integers(kind, dtype="uint8"):
    """A classifier of pixels from 0 to 255, and the logits of an image in [0, 1] in NumPy."""
    inputs = keras.Input((2, 2, 1), dtype=dtype)
    layers = [keras.layers.Rescaling(1 / 255), keras.layers.Flatten(), keras.layers.Dense(3)]
    if kind == "sequential":
        model = keras.Sequential([inputs, *layers])
    else:
        outputs = inputs
        for layer in layers:
            outputs = layer(outputs)
        model = keras.Model(inputs, outputs)
    kernel = np.random.default_rng(3).normal(size=(4, 3)).astype("float32")
    layers[-1].set_weights([kernel, np.zeros(3, "float32")])
    return model, kernel


PIXELS = np.random.default_rng(1).integers(0, 256, (5, 2, 2, 1)).astype("uint8")


@pytest.mark.parametrize("kind", ["functional", "sequential"])
@pytest.mark.parametrize("dtype", ["uint8", "int32"])
def test_a_model_of_integers_gets_a_gradient_by_with_input_range_and_shares_its_weights(kind, dtype):
    model, kernel = of_integers(kind, dtype)
    net = models.with_input_range(model, (0, 255))
    images = tf.constant(PIXELS / np.float32(255))
    with tf.GradientTape() as tape:
        tape.watch(images)
        logits = net(images)[:, 1]
    np.testing.assert_allclose(net(images), model(PIXELS), rtol=1e-5, atol=1e-5)
    # The logits are linear: the gradient is the column of the kernel.
    slope = np.reshape(tape.gradient(logits, images), [5, 4])
    np.testing.assert_allclose(slope, np.tile(kernel[:, 1], [5, 1]), rtol=1e-4)
    assert [each is other for each, other in zip(net.weights, model.weights, strict=True)] == [True, True]
    assert athe_tf.victim(net).num_classes == 3


def test_a_model_of_integers_inside_another_one_is_named_and_mended():
    model, _ = of_integers("functional")
    outer = keras.Sequential([keras.Input((2, 2, 1)), keras.layers.Rescaling(255.0), model])
    with pytest.raises(
        InputError, match=r"contains the model .* dtype uint8.*with_input_range\(model, \(0, 1"
    ):
        athe_tf.victim(outer)
    net = models.with_input_range(outer, (0, 1))
    found = athe_tf.attacks.FGSM(epsilon=0.2).run(
        net, PIXELS / np.float32(255), np.asarray(net(PIXELS / 255)).argmax(1)
    )
    assert (found.gradients == 1).all()


def test_to_logits_removes_the_softmax_of_a_model_of_integers_and_its_integers():
    inner, kernel = of_integers("functional")
    model = keras.Model(inner.inputs, keras.layers.Softmax()(inner.outputs[0]))
    net = models.to_logits(model)
    assert net.input.dtype == "float32" and models.to_logits(net) is net
    np.testing.assert_allclose(net(PIXELS), PIXELS.reshape(5, 4) / 255 @ kernel, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "use",
    [
        athe_tf.victim,
        lambda model: athe_tf.evaluate(model, PIXELS / np.float32(255), np.zeros(5, int)),
        lambda model: athe_tf.attacks.PGD(0.1).run(model, PIXELS / np.float32(255), np.zeros(5, int)),
        lambda model: athe_tf.training.PGDAT(model, athe_tf.attacks.PGD(0.1)),
    ],
)
def test_a_model_of_integers_is_refused_with_the_line_that_helps(use):
    model, _ = of_integers("functional", "int16")
    with pytest.raises(InputError, match=r"dtype int16.*with_input_range\(model, \(0, 255\)\)"):
        use(model)
