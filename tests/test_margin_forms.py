"""The forms of the margin loss against NumPy in float64: values, gradients, labels, heads, Keras programs."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import athe_tf
from athe_tf import CosineDense, InputError, MarginCrossentropy
from tests.margin_reference import crossentropy, plain_logit, true_logit

CLASSES = 4
SCALE = 15.0
# Two of them turn some of the angles below beyond pi.
MARGINS = [0.0, 0.2, 0.5, 2.0]
ANGLES = np.concatenate([np.linspace(0.01, np.pi - 0.01, 41), [np.pi - 0.2, np.pi - 0.5]])


def numpy_loss(theta, others, margin, form):
    """Cross-entropy of class 0 with the other logits given."""
    logits = np.concatenate([true_logit(theta, margin, form, SCALE)[:, None], others], axis=1)
    return crossentropy(logits, np.zeros(len(theta), int))


def tensor_logit(theta, form):
    return -SCALE * theta if form == "angle" else SCALE * tf.cos(theta)


def others_for(count, form):
    angles = np.random.default_rng(0).uniform(0.3, np.pi - 0.3, (count, CLASSES - 1))
    return plain_logit(angles, form, SCALE)


@pytest.mark.parametrize("margin", MARGINS)
@pytest.mark.parametrize("form", ["cosine", "angle", "arc"])
def test_values_and_gradients_are_those_of_the_definition(form, margin):
    others = others_for(len(ANGLES), form)
    loss = MarginCrossentropy(margin, SCALE, form=form, reduction="none", dtype="float64")
    theta = tf.constant(ANGLES)
    with tf.GradientTape() as tape:
        tape.watch(theta)
        logits = tf.concat([tensor_logit(theta, form)[:, None], others], axis=1)
        values = loss(np.zeros(len(ANGLES), int), logits)
    np.testing.assert_allclose(values, numpy_loss(ANGLES, others, margin, form), rtol=0, atol=1e-6)
    step = 1e-6
    slope = numpy_loss(ANGLES + step, others, margin, form) - numpy_loss(ANGLES - step, others, margin, form)
    found = tape.gradient(values, theta)
    np.testing.assert_allclose(found, slope / (2 * step), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("margin", MARGINS)
def test_float32_loses_nothing_beyond_its_last_digits(margin):
    logits = np.float32(SCALE) * np.cos(ANGLES).astype("float32")
    theta = np.arccos(logits.astype("float64") / SCALE)
    target = np.tile(np.eye(CLASSES, dtype="float32")[0], (len(ANGLES), 1))
    batch = np.concatenate([logits[:, None], np.zeros([len(ANGLES), CLASSES - 1], "float32")], axis=1)
    found = athe_tf.losses.add_margin(target, batch, margin, SCALE, "arc").numpy()
    np.testing.assert_allclose(found[:, 0] / SCALE, true_logit(theta, margin, "arc", 1.0), atol=1e-6)
    np.testing.assert_array_equal(found[:, 1:], batch[:, 1:])


def test_the_arc_falls_without_a_jump_from_0_to_pi():
    theta = np.linspace(0, np.pi, 2001)
    logits = np.stack([np.cos(theta), np.zeros_like(theta)], axis=1)
    turned = athe_tf.losses.add_margin(np.tile([1.0, 0.0], (2001, 1)), logits, 0.8, 1.0, "arc").numpy()[:, 0]
    steps = np.diff(turned)
    assert steps.max() < 1e-6 and steps.min() > -2 * np.pi / 2000


@pytest.mark.parametrize("form", ["cosine", "angle", "arc"])
@pytest.mark.parametrize("case", ["zero", "aligned", "opposite"])
def test_loss_and_gradients_are_finite_at_the_ends(form, case):
    layer = CosineDense(3, angular=form == "angle")
    layer.build((None, 5))
    w = layer.kernel.numpy().T
    z = tf.constant({"zero": 0 * w, "aligned": 7 * w, "opposite": -w}[case])
    loss = MarginCrossentropy.for_head(layer, 0.5, form=form)
    with tf.GradientTape() as tape:
        tape.watch(z)
        value = loss(np.arange(3), layer(z))
    gradients = tape.gradient(value, [z, layer.kernel.value])
    assert np.isfinite(value) and all(np.isfinite(g).all() for g in gradients)
    exact = MarginCrossentropy(0.5, 15.0, form=form)(np.arange(3), tf.constant([[15.0, 0, 0]] * 3))
    assert np.isfinite(exact)


@pytest.mark.parametrize("form", ["cosine", "angle", "arc"])
@pytest.mark.parametrize("margin", [0.3, [0.1, 0.2, 0.3, 0.4]])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_one_hot_labels_are_integer_labels(form, margin, label_smoothing):
    logits = np.random.default_rng(1).uniform(-15, 0, (6, CLASSES)).astype("float32")
    labels = np.array([0, 1, 2, 3, 3, 0])
    loss = MarginCrossentropy(margin, SCALE, label_smoothing, form=form, reduction="none")
    np.testing.assert_array_equal(loss(np.eye(CLASSES)[labels], logits), loss(labels, logits))


@pytest.mark.parametrize("form", ["cosine", "arc"])
def test_soft_labels_share_the_margin(form):
    theta = np.array([[0.4, 1.0, 2.0, 2.9]])
    label = np.array([[0.7, 0.3, 0.0, 0.0]])
    margin = [0.5, 0.4, 0.3, 0.2]
    plain = SCALE * np.cos(theta)
    moved = (1 - label) * plain + label * true_logit(theta, np.array(margin), form, SCALE)
    expected = -(label * (moved - np.log(np.exp(moved).sum()))).sum()
    found = MarginCrossentropy(margin, SCALE, form=form, dtype="float64")(label, plain)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_margin_per_class_is_that_of_the_label():
    logits = np.random.default_rng(1).normal(size=(4, 4)).astype("float32")
    margins = np.array([0.1, 0.2, 0.0, 0.7])
    each = MarginCrossentropy(margins, SCALE, reduction="none")(np.arange(4), logits).numpy()
    for label, margin in enumerate(margins):
        alone = MarginCrossentropy(margin, SCALE)(np.array([label]), logits[label : label + 1])
        np.testing.assert_allclose(each[label], alone, rtol=1e-6)
    with pytest.raises(InputError, match="one for each class. Expected: 3. Received: 4"):
        MarginCrossentropy(margins)(np.array([0]), np.zeros([1, 3]))


def test_sample_weights_weight_the_losses():
    logits = np.random.default_rng(1).normal(size=(3, 4)).astype("float32")
    loss = MarginCrossentropy(0.3, SCALE, form="arc")
    labels = np.arange(3)
    alone = loss(labels[1:2], logits[1:2])
    np.testing.assert_allclose(loss(labels, logits, np.array([0.0, 3.0, 0.0])), alone, rtol=1e-6)


@pytest.mark.parametrize("label", [[0.5, 0.1, 0.0], [1.5, -0.5, 0.0], [0.0, 0.0, 0.0], [np.nan, 0.5, 0.5]])
@pytest.mark.parametrize("eager", [True, False])
def test_soft_labels_that_are_no_probabilities_are_an_error(label, eager):
    loss = MarginCrossentropy()
    call = loss if eager else tf.function(loss)
    with pytest.raises((InputError, tf.errors.InvalidArgumentError), match="add up to 1 for every image"):
        call(tf.constant([[1.0, 0, 0], label]), tf.zeros([2, 3]))


@pytest.mark.parametrize("form", ["cosine", "arc"])
def test_where_xla_drops_assertions_a_wrong_label_is_not_a_number(form):
    loss = tf.function(MarginCrossentropy(0.2, form=form, reduction="none"), jit_compile=True)
    assert np.isnan(loss(tf.constant([0, 3]), tf.zeros([2, 3]))).tolist() == [False, True]
    soft = loss(tf.constant([[1.0, 0, 0], [0.2, 0.2, 0.2]]), tf.zeros([2, 3]))
    assert np.isnan(soft).tolist() == [False, True]


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"form": "arcface"}, "Expected one of .*'arc'.* Received: form='arcface'"),
        ({"margin": [0.1, -0.1]}, "`margin` must not be negative"),
        ({"margin": "0.2"}, "`margin` must not be negative"),
        ({"margin": 4.0, "form": "arc"}, "must not exceed pi"),
    ],
)
def test_impossible_arguments_are_refused(kwargs, message):
    with pytest.raises(InputError, match=message):
        MarginCrossentropy(**kwargs)


# -- the head and the loss in Keras programs ---------------------------------------------------------------

X = np.random.default_rng(3).normal(size=(16, 6)).astype("float32")
Y = np.arange(16) % CLASSES


def headed(scale=20.0, **kwargs):
    inputs = keras.Input((6,))
    hidden = keras.layers.Dense(5, activation="tanh")(inputs)
    return keras.Model(inputs, CosineDense(CLASSES, scale=scale, name="head", **kwargs)(hidden))


class Subclassed(keras.Model):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def call(self, x):
        return self.net(x)


NETS = {
    "functional": headed,
    "nested": lambda: keras.Sequential([keras.Input((6,)), keras.layers.Rescaling(2.0), headed()]),
    "subclassed": lambda: Subclassed(headed()),
}


@pytest.mark.parametrize("kwargs", [{}, {"jit_compile": True}, {"run_eagerly": True}])
@pytest.mark.parametrize("make", NETS.values(), ids=list(NETS))
def test_another_scale_than_the_heads_is_named_at_the_first_step(make, kwargs):
    net = make()
    net.compile("sgd", loss=MarginCrossentropy(0.2, 15.0), **kwargs)
    with pytest.raises(
        InputError, match="Expected: scale=20, that of the CosineDense 'head'. Received: scale=15"
    ):
        net.fit(X, Y, verbose=0)


@pytest.mark.parametrize("make", NETS.values(), ids=list(NETS))
def test_for_head_finds_the_scale(make):
    assert MarginCrossentropy.for_head(make(), 0.3).scale == 20.0


def test_for_head_takes_the_form_of_an_angular_head():
    loss = MarginCrossentropy.for_head(CosineDense(4, angular=True), 0.1)
    assert (loss.form, loss.scale, loss.margin) == ("angle", 15.0, 0.1)


@pytest.mark.parametrize(
    "head, kwargs, message",
    [
        (CosineDense(4), {"form": "angle"}, "needs logits that are angles.*Use form='cosine' or 'arc'"),
        (CosineDense(4, angular=True), {"form": "arc"}, "which are angles. Use form='angle'"),
        (CosineDense(4, normalize_weights=False), {"form": "arc"}, "not normalized on both sides"),
        (CosineDense(4), {"margin": [0.1, 0.2]}, "Expected: 4. Received: 2"),
        (keras.layers.Dense(4), {}, "exactly one. Received: Dense with 0"),
        ("net", {}, "exactly one. Received: str with 0"),
    ],
)
def test_a_head_that_does_not_fit_is_refused(head, kwargs, message):
    with pytest.raises(InputError, match=message):
        MarginCrossentropy.for_head(head, **kwargs)


@pytest.mark.parametrize("kwargs", [{"normalize_features": False}, {"normalize_weights": False}])
def test_the_arc_of_logits_that_are_no_cosines_is_refused_when_it_is_called(kwargs):
    logits = CosineDense(CLASSES, **kwargs)(X)
    with pytest.raises(InputError, match="not normalized on both sides"):
        MarginCrossentropy(0.2, form="arc")(Y, logits)


def test_scales_that_differ_by_a_percent_are_different():
    with pytest.raises(InputError, match="Expected: scale=15, .* Received: scale=15.15"):
        MarginCrossentropy(0.2, 15.15)(Y, CosineDense(CLASSES)(X))


def test_an_arc_of_exactly_pi_is_allowed():
    assert MarginCrossentropy(np.pi, form="arc").margin == np.pi


PROGRAMS = {
    "graph": ({}, {}),
    "xla": ({"jit_compile": True}, {}),
    "eager": ({"run_eagerly": True}, {}),
    "steps_per_execution": ({"steps_per_execution": 2}, {}),
    "mixed precision": ({}, {"dtype": "mixed_float16"}),
    "sub_centers": ({}, {"sub_centers": 3}),
    "adacos": ({}, {"scale": "adacos"}),
}


@pytest.mark.parametrize("form", ["cosine", "angle", "arc"])
@pytest.mark.parametrize("compiled, head", PROGRAMS.values(), ids=list(PROGRAMS))
def test_fit_lowers_the_loss(compiled, head, form):
    keras.utils.set_random_seed(0)
    net = headed(**{"angular": form == "angle"} | head)
    net.compile(keras.optimizers.Adam(0.05), MarginCrossentropy.for_head(net, 0.3, form=form), **compiled)
    losses = net.fit(X, np.eye(CLASSES)[Y], batch_size=4, epochs=4, verbose=0).history["loss"]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("form", ["cosine", "angle", "arc"])
def test_a_compiled_model_comes_back_whole(form, tmp_path):
    net = headed(angular=form == "angle", sub_centers=2)
    net.compile("sgd", loss=MarginCrossentropy.for_head(net, [0.1, 0.2, 0.3, 0.4], form=form))
    net.save(tmp_path / "net.keras")
    again = keras.models.load_model(tmp_path / "net.keras")
    np.testing.assert_array_equal(again(X), net(X))
    assert again.loss.get_config() == net.loss.get_config()
    np.testing.assert_allclose(again.evaluate(X, Y, verbose=0), net.evaluate(X, Y, verbose=0), rtol=1e-6)
    clone = keras.models.clone_model(net)
    clone.set_weights(net.get_weights())
    np.testing.assert_array_equal(clone(X), net(X))
    net.export(tmp_path / "saved", verbose=False)
    loaded = tf.saved_model.load(tmp_path / "saved")
    np.testing.assert_allclose(loaded.serve(tf.constant(X)), net(X), rtol=1e-5, atol=1e-5)
