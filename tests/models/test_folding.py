"""Folded networks: the same logits and gradients as the network, from fewer operations."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import athe_tf
from athe_tf.evaluation import EvaluationOptions
from athe_tf.layers.batch_norm import BatchNorm
from athe_tf.models.folding import cheaper_gradients, folded, mark_built
from athe_tf.models.victim import victim_of
from athe_tf.programs.build import dtype_policy
from athe_tf.utils.choices import GRADIENTS
from athe_tf.utils.errors import InputError

RNG = np.random.default_rng(0)
X = tf.constant(RNG.uniform(size=(3, 16, 16, 3)), tf.float32)
Y = tf.constant([0, 1, 2])
PIXELS = {"mean": (0.5, 0.4, 0.3), "std": (0.2, 0.3, 0.4)}


def with_statistics(net):
    """The network with batch normalizations that do something: also with scales that are negative or zero."""
    for layer in net.layers:
        if isinstance(layer, BatchNorm):
            size = layer.gamma.shape[0]
            layer.gamma.assign(np.where(np.arange(size) % 5 == 3, 0.0, RNG.normal(size=size)))
            layer.beta.assign(RNG.normal(size=size) / 3)
            layer.moving_mean.assign(RNG.normal(size=size) / 5)
            layer.moving_variance.assign(RNG.uniform(0.5, 2.0, size))
    return net


def built(name="wrn-10-1", **settings):
    return with_statistics(athe_tf.models.build(name, 4, input_shape=(16, 16, 3), **PIXELS, **settings))


def logits_and_gradient(victim, fold=False, x=X):
    @tf.function
    def compute(x):
        inside = folded(victim) if fold else victim
        with tf.GradientTape() as tape:
            tape.watch(x)
            logits = inside.logits(x)
            loss = tf.nn.sparse_softmax_cross_entropy_with_logits(Y, logits)
        return logits, tape.gradient(loss, x), inside.features(x)

    return [each.numpy() for each in compute(x)]


@pytest.mark.parametrize(
    "name, settings",
    [
        ("wrn-10-1", {}),
        ("wrn-10-1", {"activation": "silu", "head": "he"}),
        ("preact_resnet18_fast-2", {"activation": "leaky_relu"}),
        ("resnet18-2", {"activation": "softplus"}),
        ("small_cnn", {"head": "mhe"}),
        ("dm_wrn-10-1", {}),
        ("lenet-4", {}),
    ],
)
def test_logits_features_and_gradients_are_those_of_the_network(name, settings):
    net = built(name, **settings)
    plain, fewer = (logits_and_gradient(victim_of(net), fold) for fold in (False, True))
    for expected, received in zip(plain, fewer, strict=True):
        # Rounding in float32: an error of one scale, shift or channel would be of the order of 1.
        np.testing.assert_allclose(received, expected, atol=1e-5 * np.abs(expected).max())


def test_the_gradient_is_that_of_float64():
    with dtype_policy("float64"):
        whole = built()
    net = built()
    net.set_weights(whole.get_weights())
    assert folded(victim_of(whole)).logits(tf.cast(X, tf.float64)).dtype == tf.float64
    expected = logits_and_gradient(victim_of(whole), x=tf.cast(X, tf.float64))
    for one, received in zip(expected, logits_and_gradient(victim_of(net), fold=True), strict=True):
        np.testing.assert_allclose(received, one, atol=1e-5 * np.abs(one).max())


def test_half_precision_computes_in_half_precision_with_rounding_errors_only():
    with dtype_policy("mixed_bfloat16"):
        half = built(activation="softplus")
    net = built(activation="softplus")
    net.set_weights(half.get_weights())
    expected = logits_and_gradient(victim_of(net))
    for one, received in zip(expected, logits_and_gradient(victim_of(half), fold=True), strict=True):
        # Eight bits, through a dozen layers.
        np.testing.assert_allclose(received, one, atol=0.05 * np.abs(one).max())


def operations(victim) -> list[str]:
    def gradient(x):
        inside = folded(victim)
        with tf.GradientTape() as tape:
            tape.watch(x)
            logits = inside.logits(x)
        return tape.gradient(logits, x)

    graph = tf.function(gradient).get_concrete_function(tf.TensorSpec((None, 16, 16, 3))).graph
    return [op.type for op in graph.get_operations()]


def test_four_of_seven_batch_normalizations_of_a_wrn_are_left():
    """Of seven, the inner one of each of three blocks becomes a part of its convolution."""
    assert operations(victim_of(built())).count("FusedBatchNormV3") == 4


def test_a_model_of_a_user_is_left_as_it_is():
    images = keras.Input((16, 16, 3))
    x = BatchNorm()(keras.layers.Conv2D(4, 3)(images))
    own = keras.Model(images, keras.layers.Dense(3)(keras.layers.GlobalAveragePooling2D()(x)))
    victim = victim_of(own)
    assert folded(victim) is victim
    assert folded(victim_of(lambda x: x)).network is None
    wrapped = keras.Sequential([keras.Input((16, 16, 3)), built()])
    assert folded(victim_of(wrapped)).network is wrapped


def test_what_only_looks_like_a_convolution_and_its_normalization_is_not_folded():
    """A convolution that something else sees too, one with groups, and a normalization before an addition."""
    images = keras.Input((16, 16, 4))
    shared = keras.layers.Conv2D(4, 3, padding="same", use_bias=True, bias_initializer="ones")(images)
    first = BatchNorm(name="first")(shared)
    grouped = BatchNorm(name="second")(keras.layers.Conv2D(4, 3, groups=2, padding="same")(shared))
    x = keras.layers.Activation("relu")(keras.layers.Add()([first, grouped]))
    x = keras.layers.GlobalAveragePooling2D()(keras.layers.Conv2D(4, 3, 2, dilation_rate=1)(x))
    net = mark_built(with_statistics(keras.Model(images, keras.layers.Dense(3)(x))))
    x = tf.concat([X, X[..., :1]], axis=-1)
    plain, fewer = (logits_and_gradient(victim_of(net), fold, x) for fold in (False, True))
    for expected, received in zip(plain, fewer, strict=True):
        np.testing.assert_allclose(received, expected, atol=1e-5 * np.abs(expected).max())


def test_second_derivatives_are_refused():
    victim = folded(victim_of(built()))
    with tf.GradientTape() as outer:
        outer.watch(X)
        with tf.GradientTape() as tape:
            tape.watch(X)
            logits = victim.logits(X)
        slope = tape.gradient(logits, X)
    with pytest.raises(NotImplementedError, match="no second derivative"):
        outer.gradient(slope, X)


def test_crafting_sees_the_weights_of_its_step():
    """Two steps of PGD-AT: the second crafts with the weights that the first left."""
    net = built()
    attack = athe_tf.attacks.PGD(8 / 255, steps=2, start="zero")
    trainer = athe_tf.training.PGDAT(net, attack)
    trainer.compile(keras.optimizers.SGD(0.5))
    craft = tf.function(trainer.craft)
    for _ in range(2):
        expected = attack(victim_of(net), X, Y)
        received = craft(X, Y)
        # Signs of gradients near zero may differ.
        assert np.mean(np.abs(received - expected) > 1e-6) < 0.01
        trainer.train_on_batch(X, Y)


def test_cheaper_gradients_leave_the_verdict_to_the_model():
    """What a result calls adversarial, the model itself misclassifies."""
    net = keras.models.clone_model(plain := built(activation="softplus"))
    net.set_weights(plain.get_weights())
    labels = np.argmax(net(X), axis=1)
    attack = athe_tf.attacks.PGD(4 / 255, steps=3)
    found = {}
    for kind in GRADIENTS:
        victim = cheaper_gradients(victim_of(net), kind)
        result = found[kind] = attack.run(victim, X.numpy(), labels)
        assert np.array_equal(np.argmax(net(result.x_adv), axis=1) != labels, result.success)
        assert (victim.source is victim) == (kind == "model")
        assert kind == "model" or victim.digest().endswith(f", {kind}")
    np.testing.assert_array_equal(found["folded"].success, found["model"].success)
    source = cheaper_gradients(victim_of(net), "bfloat16").source
    assert source.network.get_layer("conv1").compute_dtype == "bfloat16"
    np.testing.assert_allclose(source.logits(X), net(X), atol=0.05 * np.abs(net(X)).max())


def test_an_evaluation_names_its_gradients():
    net, labels = built("small_cnn"), np.zeros(3, int)
    options = EvaluationOptions(gradients="folded")
    data = (X.numpy(), np.argmax(net(X), axis=1))
    result = athe_tf.evaluate(net, data, attacks=["fgsm"], epsilon=8 / 255, checks=False, options=options)
    assert result.gradient_source["name"] == "small_cnn, folded"
    assert result.settings["gradients"] == "folded"
    with pytest.raises(InputError, match="gradients='bfloat16' needs a functional Keras model"):
        options = EvaluationOptions(gradients="bfloat16")
        athe_tf.evaluate(lambda x: x[:, 0, 0, :], (X, labels), attacks=["fgsm"], options=options)
