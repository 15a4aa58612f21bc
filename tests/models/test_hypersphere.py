"""`to_hypersphere`: any Keras classifier gets a hypersphere head."""

import keras
import numpy as np
import pytest

from athe_tf import models
from athe_tf.layers.cosine_dense import CosineDense
from athe_tf.utils.errors import InputError


def trunk():
    return [keras.Input((6,)), keras.layers.Dense(5, activation="tanh", name="hidden")]


def classifiers():
    inputs = keras.Input((6,))
    hidden = keras.layers.Dense(5, activation="tanh", name="hidden")(inputs)
    return {
        "sequential": keras.Sequential([*trunk(), keras.layers.Dense(3)]),
        "softmax inside": keras.Sequential([*trunk(), keras.layers.Dense(3, activation="softmax")]),
        "softmax layer": keras.Sequential([*trunk(), keras.layers.Dense(3), keras.layers.Softmax()]),
        "softmax activation": keras.Model(
            inputs, keras.layers.Activation("softmax")(keras.layers.Dense(3)(hidden))
        ),
        "functional": keras.Model(inputs, keras.layers.Dense(3)(hidden)),
    }


def last_dense(model):
    return [layer for layer in model.layers if isinstance(layer, keras.layers.Dense)][-1]


@pytest.mark.parametrize("kind", classifiers())
@pytest.mark.parametrize("weight_norm", ["differentiable", "project"])
def test_logits_are_the_scaled_cosines_of_the_old_features_and_weights(kind, weight_norm):
    model = classifiers()[kind]
    net = models.to_hypersphere(model, scale=7.0, weight_norm=weight_norm)
    x = np.random.default_rng(0).normal(size=(4, 6)).astype("float32")
    z = np.array(model.get_layer("hidden")(x))
    kernel = np.array(last_dense(model).kernel)
    cosines = (z @ kernel) / np.linalg.norm(z, axis=1, keepdims=True) / np.linalg.norm(kernel, axis=0)
    np.testing.assert_allclose(net(x), 7 * cosines, atol=1e-4)
    assert net.get_layer("hidden") is model.get_layer("hidden")
    assert isinstance(net.layers[-1], CosineDense)


def test_angular_head_and_our_own_models():
    net = models.to_hypersphere(models.build("small_cnn", 4, input_shape=(8, 8, 1)), angular=True)
    assert net.layers[-1].angular
    assert net(np.zeros((1, 8, 8, 1), "float32")).shape == (1, 4)


class Subclassed(keras.Model):
    def call(self, x):
        return x


def refused():
    inputs = keras.Input((6,))
    dense = keras.layers.Dense(3)
    image = keras.Input((4, 4, 6))
    return [
        (Subclassed(), "class 'Subclassed'"),
        (keras.Sequential([keras.layers.Dense(3)]), "no input shape yet"),
        (keras.Model(inputs, [dense(inputs), dense(inputs)]), "1 inputs and 2 outputs"),
        (keras.Sequential([*trunk(), keras.layers.Dense(3), keras.layers.ReLU()]), "ends in .* a ReLU"),
        (keras.Model(image, keras.layers.Flatten()(keras.layers.Conv2D(3, 1)(image))), "4, 4, 6"),
        (keras.Sequential([*trunk(), keras.layers.Dense(3, activation="sigmoid")]), "activation 'sigmoid'"),
        (keras.Model(image, keras.layers.Dense(3)(image)), r"features of shape \(None, 4, 4, 6\)"),
        (models.build("small_cnn", 3, head="he", input_shape=(8, 8, 1)), "a CosineDense"),
        (keras.Model(inputs, inputs), "an InputLayer|a InputLayer"),
    ]


@pytest.mark.parametrize(("model", "message"), refused())
def test_models_it_cannot_handle_are_refused(model, message):
    with pytest.raises(InputError, match=message):
        models.to_hypersphere(model)


def pointwise_classifier():
    """The end of MobileNetV3: a 1x1 convolution of one pixel, flattened, and a softmax."""
    inputs = keras.Input((4, 4, 2))
    pooled = keras.layers.GlobalAveragePooling2D(keepdims=True, name="pooled")(inputs)
    logits = keras.layers.Conv2D(3, 1, name="logits")(pooled)
    return keras.Model(inputs, keras.layers.Activation("softmax")(keras.layers.Flatten()(logits)))


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("layer", [None, "logits"])
def test_a_convolution_of_one_pixel_is_a_classifier(layer, nested):
    model = pointwise_classifier()
    kernel = np.array(model.get_layer("logits").kernel).reshape(2, 3)
    if nested:
        model = keras.Sequential([keras.Input((4, 4, 2)), keras.layers.Rescaling(1.0), model])
    net = models.to_hypersphere(model, scale=5.0, layer=layer)
    x = np.random.default_rng(0).uniform(size=(3, 4, 4, 2)).astype("float32")
    z = x.mean(axis=(1, 2))
    cosines = (z @ kernel) / np.linalg.norm(z, axis=1, keepdims=True) / np.linalg.norm(kernel, axis=0)
    np.testing.assert_allclose(net(x), 5 * cosines, atol=1e-5)


def test_a_named_layer_is_replaced_with_all_that_follows():
    dense = keras.layers.Dense(3, name="logits")
    model = keras.Sequential([*trunk(), dense, keras.layers.Rescaling(0.5), keras.layers.Softmax()])
    for layer in ("logits", dense):
        net = models.to_hypersphere(model, layer=layer)
        assert [type(each).__name__ for each in net.layers] == ["InputLayer", "Dense", "CosineDense"]
    with pytest.raises(InputError, match="No layer 'logit' leads to the output of"):
        models.to_hypersphere(model, layer="logit")
