"""The head of a classifier is found where it is, or said not to be found."""

import keras
import numpy as np
import pytest

import athe_tf
from athe_tf import attacks, training
from athe_tf.models.card import describe
from athe_tf.models.features import find_head
from athe_tf.utils.errors import InputError, NotApplicable
from tests.small_runs import SHAPE, tiny_batch, tiny_net

X, Y = tiny_batch()


class Subclassed(keras.Model):
    """Layers in another order than they are called in."""

    def __init__(self, net):
        super().__init__()
        self.net = net
        self.before = keras.layers.Rescaling(0.5)

    def call(self, x, training=False):
        return self.net(self.before(x), training=training)


def inside(net, depth=1):
    for _ in range(depth):
        net = keras.Sequential([keras.Input(SHAPE), keras.layers.Rescaling(0.5), net])
    return net


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("head", ["he", "linear"])
def test_the_head_and_the_features_of_a_nested_model_are_those_of_the_inner_one(head, depth):
    net = tiny_net(head)
    model = inside(net, depth)
    found = find_head(model)
    assert found.layer is net.layers[-1]
    # The features of the inner net, by another way than `find_head`.
    expected = keras.Model(net.inputs[0], net.get_layer("head").input)(X * 0.5**depth)
    np.testing.assert_allclose(found.features(X), expected, rtol=1e-6)
    np.testing.assert_allclose(found.layer(found.features(X)), model(X), rtol=1e-5, atol=1e-6)


def test_card_victim_and_trainer_of_a_nested_model_have_the_scale_of_its_head(tmp_path):
    model = inside(tiny_net("he"))
    assert describe(model)["head"] == "he" and describe(model)["scale"] == 15.0
    assert athe_tf.victim(model).scale == 15.0
    assert training.Standard(model, margin=0.2).scale == 15.0
    athe_tf.export(model, tmp_path / "export")
    saved = athe_tf.victim(tmp_path / "export")
    assert saved.scale == 15.0
    np.testing.assert_allclose(saved.features(X), find_head(model).features(X), rtol=1e-5)


def test_an_activation_that_changes_nothing_is_looked_through():
    net = tiny_net("linear")
    end = keras.layers.Activation("linear", dtype="float32")
    assert find_head(keras.Sequential([keras.Input(SHAPE), net, end])).layer is net.layers[-1]


def unknown():
    images = keras.Input(SHAPE)
    convolution = keras.layers.Conv2D(4, 8)(images)
    return {
        "subclassed": keras.Model(images, Subclassed(tiny_net())(images)),
        "flatten": keras.Model(images, keras.layers.Flatten()(convolution)),
        "temperature": keras.Sequential([images, tiny_net("linear"), keras.layers.Rescaling(2.0)]),
    }


@pytest.mark.parametrize("name", unknown())
def test_what_is_not_understood_is_not_offered(name, tmp_path):
    model = unknown()[name]
    assert find_head(model).features is None
    assert describe(model)["head"] == "unknown" and describe(model)["scale"] is None
    athe_tf.export(model, tmp_path / "export")
    assert not athe_tf.victim(tmp_path / "export").has_features
    with pytest.raises(NotApplicable, match="ends in a Dense or CosineDense"):
        attacks.FeatureAttack(0.1, n_targets=1, steps=1).run(model, X, Y)


def test_a_softmax_inside_a_nested_model_is_refused():
    probabilities = keras.Sequential([keras.Input(SHAPE), tiny_net("linear"), keras.layers.Softmax()])
    with pytest.raises(InputError, match="ends in a softmax"):
        training.Standard(inside(probabilities))


def test_a_subclassed_model_is_refused_with_the_line_that_wraps_it():
    with pytest.raises(InputError, match=r"keras.Model\(images, net\(images\)\)"):
        training.Standard(Subclassed(tiny_net()))


def test_to_hypersphere_finds_a_nested_dense():
    net = tiny_net("linear")
    converted = athe_tf.models.to_hypersphere(inside(net), scale=10.0)
    features = np.asarray(find_head(inside(net)).features(X), "float64")
    kernel = np.asarray(net.layers[-1].kernel, "float64")
    cosines = (features @ kernel) / np.outer(np.linalg.norm(features, axis=1), np.linalg.norm(kernel, axis=0))
    np.testing.assert_allclose(converted(X), 10 * cosines, rtol=1e-4, atol=1e-4)
