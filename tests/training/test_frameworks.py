"""Each framework's objective in NumPy, its gradient by finite differences, and what one step costs."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import athe_tf
from athe_tf import attacks, training
from athe_tf.losses import logit_pairing
from athe_tf.utils.errors import InputError
from tests.small_runs import tiny_batch, tiny_net

FRAMEWORKS = ("standard", "pgd_at", "alp", "trades", "free_at", "fast_at", "mart")
ONE_STEP = ("free_at", "fast_at", "n_fgsm", "gradalign")
HEADS = ("linear", "fn", "wn", "he", "mhe")
SHAPE, CLASSES, COUNT = (3, 3, 1), 4, 6
SCALE, MARGIN = 15.0, 0.2
BETA, PAIRING, STEPS, REPLAYS = 6.0, 0.5, 3, 2


def make_attack(framework, epsilon=0.1, norm="linf"):
    steps = 1 if framework in ONE_STEP else STEPS
    return attacks.PGD(epsilon, norm, steps=steps)


def make_trainer(framework, net, **kwargs):
    options = {
        "alp": {"pairing": PAIRING},
        "trades": {"beta": BETA},
        "mart": {"beta": BETA},
        "free_at": {"replays": REPLAYS, "batch_size": COUNT},
    }.get(framework, {})
    trainer = training.get(framework)(net, make_attack(framework), **options | kwargs)
    trainer.compile(training.TorchSGD(0.01, momentum=0.0))
    return trainer


# -- a network that NumPy can follow ------------------------------------------------------------------------


def double_net(head):
    """Dense, batch norm, tanh and a head, in float64 and with fixed weights."""
    inputs = keras.Input(SHAPE, dtype="float64")
    h = keras.layers.Flatten(dtype="float64")(inputs)
    h = keras.layers.Dense(5, dtype="float64")(h)
    h = athe_tf.BatchNorm(dtype="float64")(h)
    h = keras.layers.Activation("tanh", dtype="float64")(h)
    if head == "linear":
        outputs = keras.layers.Dense(CLASSES, dtype="float64")(h)
    else:
        outputs = athe_tf.CosineDense(
            CLASSES,
            scale=SCALE,
            normalize_features=head != "wn",
            normalize_weights=head != "fn",
            angular=head == "mhe",
            dtype="float64",
        )(h)
    net = keras.Model(inputs, outputs)
    rng = np.random.default_rng(0)
    for weight in net.trainable_variables:
        weight.assign(rng.normal(size=weight.shape))
    return net


def numpy_logits(head, weights, x):
    """What `double_net` computes with batch statistics."""
    kernel, bias, gamma, beta, *last = weights
    h = x.reshape(len(x), -1) @ kernel + bias
    h = (h - h.mean(0)) / np.sqrt(h.var(0) + 1e-5) * gamma + beta
    z = np.tanh(h)
    if head == "linear":
        return z @ last[0] + last[1]
    if head != "wn":
        z = z / np.linalg.norm(z, axis=1, keepdims=True)
    directions = last[0]
    if head != "fn":
        directions = directions / np.linalg.norm(directions, axis=0)
    similarities = z @ directions
    return -SCALE * np.arccos(similarities) if head == "mhe" else SCALE * similarities


def log_softmax(logits):
    shifted = logits - logits.max(1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(1, keepdims=True))


def crossentropy(logits, y, shift):
    onehot = np.eye(CLASSES)[y]
    return -(onehot * log_softmax(logits - shift * onehot)).sum(1).mean()


def numpy_loss(framework, head, weights, x, x_adv, y):
    """Table 1 of the paper; KL in TRADES and the mean square in ALP, as the released code has them."""
    scale = 1.0 if head == "linear" else SCALE
    shift = 0.0 if head == "linear" else SCALE * MARGIN
    clean, adversarial = numpy_logits(head, weights, x), numpy_logits(head, weights, x_adv)
    if framework == "standard":
        return crossentropy(clean, y, shift)
    if framework == "alp":
        pairing = np.square((clean - adversarial) / scale).sum() / (COUNT * CLASSES)
        both = 0.5 * crossentropy(clean, y, shift) + 0.5 * crossentropy(adversarial, y, shift)
        return both + PAIRING * pairing
    if framework == "trades":
        p, q = log_softmax(clean), log_softmax(adversarial)
        return crossentropy(clean, y, shift) + BETA * (np.exp(p) * (p - q)).sum() / COUNT
    if framework == "mart":
        onehot = np.eye(CLASSES)[y]
        runner_up = np.exp(log_softmax(adversarial - shift * onehot))[onehot == 0].reshape(COUNT, -1).max(1)
        p, q = log_softmax(clean), log_softmax(adversarial)
        weight = 1.0000001 - np.exp(p)[onehot == 1]
        stability = (np.exp(p) * (p - q)).sum(1)
        boosted = crossentropy(adversarial, y, shift) - np.log(1.0001 - runner_up).mean()
        return boosted + BETA * (stability * weight).mean()
    return crossentropy(adversarial, y, shift)


def batch(dtype="float64", seed=1):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.2, 0.8, (COUNT, *SHAPE))
    x_adv = x + rng.uniform(-0.2, 0.2, x.shape)
    return x.astype(dtype), x_adv.astype(dtype), rng.integers(0, CLASSES, COUNT).astype("int32")


def finite_differences(function, weights, step=1e-5):
    gradients = []
    for index, weight in enumerate(weights):
        gradient = np.zeros_like(weight)
        for place in np.ndindex(weight.shape):
            moved = [w.copy() for w in weights]
            moved[index][place] += step
            above = function(moved)
            moved[index][place] -= 2 * step
            gradient[place] = (above - function(moved)) / (2 * step)
        gradients.append(gradient)
    return gradients


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_loss_and_weight_gradients_equal_the_formula(framework, head):
    net = double_net(head)
    trainer = make_trainer(framework, net, margin=0.0 if head == "linear" else MARGIN)
    x, x_adv, y = batch()
    weights = [np.array(w) for w in net.trainable_variables]
    _, loss, gradients = trainer.gradients(x, x_adv, y)

    def formula(values):
        return numpy_loss(framework, head, values, x, x_adv, y)

    # float64 throughout, so far closer than the 1e-5 that is asked for.
    np.testing.assert_allclose(float(loss), formula(weights), rtol=1e-9)
    for gradient, expected in zip(gradients, finite_differences(formula, weights), strict=True):
        scale = max(np.abs(expected).max(), 1e-3)
        np.testing.assert_allclose(gradient, expected, rtol=1e-3, atol=1e-5 * scale)


def test_alp_in_the_papers_form_pairs_by_the_length_of_the_difference():
    net = double_net("he")
    x, x_adv, y = batch()
    losses = {}
    for pairing in (0.0, 2.0):
        trainer = training.ALP(net, make_attack("alp"), pairing=pairing, pairing_form="l2")
        losses[pairing] = trainer.training_loss(x, x_adv, y).losses.numpy()
    weights = [np.array(w) for w in net.trainable_variables]
    difference = (numpy_logits("he", weights, x) - numpy_logits("he", weights, x_adv)) / SCALE
    lengths = np.linalg.norm(difference, axis=1)
    np.testing.assert_allclose(losses[2.0] - losses[0.0], 2 * lengths, rtol=1e-6)


@pytest.mark.parametrize("form", ["mse", "l2"])
def test_pairing_of_equal_logits_is_zero_with_a_zero_gradient(form):
    logits = tf.constant([[1.0, -2.0, 3.0]])
    with tf.GradientTape() as tape:
        tape.watch(logits)
        distance = logit_pairing(logits, tf.stop_gradient(logits), form)
    np.testing.assert_allclose(distance, [0.0], atol=1e-11)
    np.testing.assert_array_equal(tape.gradient(distance, logits), np.zeros((1, 3)))


def test_trades_where_nothing_moved_is_the_crossentropy():
    net = double_net("he")
    x, _, y = batch()
    trainer = make_trainer("trades", net, margin=MARGIN)
    expected = numpy_loss("standard", "he", [np.array(w) for w in net.trainable_variables], x, x, y)
    np.testing.assert_allclose(tf.reduce_mean(trainer.training_loss(x, x, y).losses), expected, rtol=1e-9)


def test_trades_survives_a_softmax_that_underflows():
    net = double_net("linear")
    net.layers[-1].kernel.assign(1e6 * net.layers[-1].kernel)
    x, x_adv, y = batch()
    _, loss, gradients = make_trainer("trades", net).gradients(x, x_adv, y)
    assert np.isfinite(float(loss)) and all(np.isfinite(g).all() for g in gradients)


def test_mart_takes_the_second_class_where_the_first_is_right():
    trainer = make_trainer("mart", double_net("linear"))
    logits = np.log([[0.7, 0.2, 0.06, 0.04], [0.7, 0.2, 0.06, 0.04]])
    expected = -np.log(1.0001 - np.array([0.2, 0.7]))
    np.testing.assert_allclose(trainer.runner_up_loss(np.array([0, 1]), tf.constant(logits)), expected)


def test_mart_counts_an_image_by_how_wrong_it_is():
    net = double_net("linear")
    x, x_adv, y = batch()
    losses = [make_trainer("mart", net, beta=b).training_loss(x, x_adv, y).losses for b in (0.0, 1.0)]
    weights = [np.array(w) for w in net.trainable_variables]
    p, q = (log_softmax(numpy_logits("linear", weights, images)) for images in (x, x_adv))
    divergence = (np.exp(p) * (p - q)).sum(1)
    wrong = 1 - np.exp(p[np.arange(COUNT), y])
    np.testing.assert_allclose((losses[1] - losses[0]) / divergence, wrong, rtol=1e-5, atol=1e-6)


def test_label_smoothing_is_in_the_loss():
    net = double_net("he")
    x, x_adv, y = batch()
    smooth = training.PGDAT(net, make_attack("pgd_at"), label_smoothing=0.3)
    logits = numpy_logits("he", [np.array(w) for w in net.trainable_variables], x_adv)
    target = 0.7 * np.eye(CLASSES)[y] + 0.3 / CLASSES
    expected = -(target * log_softmax(logits)).sum(1)
    np.testing.assert_allclose(smooth.training_loss(x, x_adv, y).losses, expected, rtol=1e-9)


# -- what one step does -------------------------------------------------------------------------------------


class CountingBatchNorm(athe_tf.BatchNorm):
    """Counts the updates of its moving mean."""

    def build(self, input_shape):
        super().build(input_shape)
        self.updates = self.add_weight(name="updates", shape=(), initializer="zeros", trainable=False)

    def _update(self, variable, value, kept):
        super()._update(variable, value, kept)
        if variable is self.moving_mean:
            self.updates.assign_add(1.0)


class PassCounter(keras.layers.Layer):
    """The identity; counts how often something goes through it: forward, back, and back along a way back."""

    def build(self, input_shape):
        # Not weights of the network: AWP puts those back to what they were before its pass.
        with tf.init_scope():
            self.forward, self.backward = (tf.Variable(0.0, trainable=False) for _ in range(2))

    def call(self, inputs):
        self.forward.assign_add(1.0)

        def back(upstream):
            self.backward.assign_add(1.0)

            @tf.custom_gradient
            def counted(x):
                return tf.identity(x), back

            return counted(upstream)

        @tf.custom_gradient
        def identity(x):
            return tf.identity(x), back

        return identity(inputs)


def counting_net():
    inputs = keras.Input(SHAPE)
    h = CountingBatchNorm()(keras.layers.Dense(5)(keras.layers.Flatten()(inputs)))
    counter = PassCounter()
    net = keras.Model(inputs, athe_tf.CosineDense(CLASSES)(counter(h)))
    return net, net.layers[3], counter


# Updates of the statistics, and further options.
STEPS_TO_COUNT = {
    "standard": (1, {}),
    "pgd_at": (1, {}),
    "alp": (2, {}),
    "trades": (2, {}),
    "mart": (2, {}),
    "llr": (1, {}),
    "cure": (1, {}),
    "free_at": (REPLAYS, {}),
    "fast_at": (2, {}),
    "n_fgsm": (2, {}),
    "gradalign": (3, {}),
    # Once more through the loss, and nothing else; the statistics of that pass are forgotten.
    "pgd_at awp": (1, {"weight_perturbation": training.AWP(0.01)}),
    "trades awp": (2, {"weight_perturbation": training.AWP(0.01)}),
    "free_at awp": (REPLAYS, {"weight_perturbation": training.AWP(0.01)}),
}


@pytest.mark.parametrize("case", STEPS_TO_COUNT)
def test_a_step_updates_statistics_and_passes_the_network_as_often_as_it_says(case):
    net, norm, counter = counting_net()
    framework, (updates, options) = case.split()[0], STEPS_TO_COUNT[case]
    trainer = make_trainer(framework, net, **options)
    # Attacks compile their own loop; the other steps are quicker run eagerly than compiled.
    trainer.compile(training.TorchSGD(0.01), run_eagerly=framework not in ONE_STEP)
    x, _, y = batch("float32")
    for variable in (norm.updates, counter.forward, counter.backward):
        variable.assign(0.0)
    trainer.train_on_batch(x, y)
    assert float(norm.updates) == updates
    cost = trainer.cost()
    assert float(counter.forward) == cost.forward
    assert float(counter.backward) == cost.backward_input
    assert int(trainer.optimizer.iterations) == trainer.options.updates_per_step
    assert trainer.options.updates_per_step == (REPLAYS if framework == "free_at" else 1)


@pytest.mark.parametrize("framework, norm", [("fast_at", "linf"), ("fast_at", "l2"), ("trades", "l2")])
def test_crafted_images_stay_in_the_ball_and_in_the_box(framework, norm):
    epsilon = 0.3
    net, *_ = counting_net()
    trainer = training.get(framework)(net, make_attack(framework, epsilon, norm))
    trainer.compile(training.TorchSGD(0.01))
    x, _, y = batch("float32")
    x_adv = tf.function(trainer.craft)(tf.constant(x), tf.constant(y))
    distance = trainer.attack.threat.distance(x, x_adv).numpy()
    assert distance.max() <= epsilon * (1 + 1e-5) and distance.min() > 0.1 * epsilon
    assert x_adv.numpy().min() >= 0 and x_adv.numpy().max() <= 1


def test_the_attack_of_a_framework_knows_neither_margin_nor_label_smoothing():
    x, _, y = batch("float32")
    for framework in ("pgd_at", "trades"):
        crafted = []
        for margin in (0.0, 0.5):
            net = double_net("he")
            trainer = make_trainer(framework, net, margin=margin, label_smoothing=margin)
            crafted.append(trainer.craft(tf.constant(x), tf.constant(y)))
        np.testing.assert_array_equal(*crafted)


@pytest.mark.parametrize(
    "make, message",
    [
        (
            lambda net: training.ALP(net, make_attack("alp"), pairing=-1.0),
            "pairing must be finite",
        ),
        (lambda net: training.ALP(net, make_attack("alp"), pairing_form="l3"), "Unknown pairing_form 'l3'"),
        (lambda net: training.FastAT(net, attacks.PGD(0.1, steps=10)), "steps=10, restarts=1. Use 'pgd_at'"),
        (
            lambda net: training.FreeAT(net, attacks.PGD(0.1, steps=1, restarts=2), batch_size=4),
            "restarts=2. Use `replays`",
        ),
        (lambda net: training.FreeAT(net, attacks.FGSM(0.1, "l1"), batch_size=4), "norm='l1'. Use 'pgd_at'"),
        (
            lambda net: training.FreeAT(net, attacks.FGSM(0.1), batch_size=4, replays=0),
            "replays must be at least",
        ),
        (
            lambda net: training.FreeAT(net, attacks.FGSM(0.1), batch_size=4, bn_mode="eval"),
            "crafts with bn_mode='train'",
        ),
    ],
)
def test_impossible_combinations_are_refused_with_a_remedy(make, message):
    with pytest.raises(InputError, match=message):
        make(double_net("he"))


def both_logits(trainer, seed=0):
    """The terms of one training loss, and log-probabilities of clean and adversarial images."""
    x, y = tiny_batch(seed=seed)
    moved = np.clip(x + 0.1, 0, 1)
    terms = trainer.training_loss(x, moved, y)
    return terms, y, *(log_softmax(np.asarray(z)) for z in (terms.clean_logits, terms.adversarial_logits))


def test_alpha_of_alp_weighs_clean_against_adversarial_images():
    trainer = training.ALP(tiny_net("linear"), make_attack("alp"), clean_weight=0.3, pairing=0.0)
    terms, y, clean, adversarial = both_logits(trainer)
    rows = np.arange(len(y))
    expected = -0.3 * clean[rows, y] - 0.7 * adversarial[rows, y]
    np.testing.assert_allclose(terms.losses, expected, rtol=1e-5)


def test_trades_with_cross_entropy_is_the_form_of_table_1():
    trainer = training.TRADES(tiny_net("linear"), make_attack("trades"), beta=2.0, divergence="ce")
    terms, y, clean, adversarial = both_logits(trainer)
    expected = -clean[np.arange(len(y)), y] - 2.0 * (np.exp(clean) * adversarial).sum(1)
    np.testing.assert_allclose(terms.losses, expected, rtol=1e-5)
