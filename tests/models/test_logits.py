"""`to_logits` and `with_input_range`: classifiers that others trained, as attacks need them."""

import keras
import numpy as np
import pytest

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
