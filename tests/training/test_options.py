"""Options of the frameworks: perturbed weights, N-FGSM, GradAlign, averages over epochs."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import athe_tf
from athe_tf import attacks, training
from athe_tf.training import awp
from athe_tf.training.averaging import SWA, StatisticsPass
from athe_tf.training.fast_at import Aligned, cosine, gradalign_weight
from athe_tf.utils.errors import InputError
from tests.small_runs import assert_equal_weights, get_weights, tiny_batch, tiny_net
from tests.training.test_frameworks import finite_differences

X, Y = tiny_batch()
EPSILON = 0.1


# -- adversarial weight perturbation ------------------------------------------------------------------------


def perturbed_by_hand(net, gradients, gamma):
    """The weights w + v of every kernel; what has one axis stays."""
    moved = []
    for variable, gradient in zip(net.trainable_variables, gradients, strict=True):
        w, g = np.array(variable, "float64"), np.array(gradient, "float64")
        step = gamma * np.linalg.norm(w) / np.linalg.norm(g) * g if w.ndim > 1 else 0.0
        moved.append(w + step)
    return moved


@pytest.mark.parametrize("framework", ["pgd_at", "trades"])
def test_awp_takes_the_gradient_at_weights_moved_by_gamma_and_puts_them_back(framework):
    gamma = 0.05
    net = tiny_net()
    options = {"attack": attacks.PGD(EPSILON, steps=1), "margin": 0.2}
    plain = training.get(framework)(net, **options)
    with_awp = training.get(framework)(net, weight_perturbation=training.AWP(gamma), **options)
    for trainer in (plain, with_awp):
        trainer.compile(training.TorchSGD(0.0))
    x_adv = plain.craft(tf.constant(X), tf.constant(Y))
    before = get_weights(net)
    _, _, gradients = plain.gradients(X, x_adv, Y)
    net.set_weights(before)  # the moving statistics
    _, loss, found = with_awp.gradients(X, x_adv, Y)
    trainable = [np.array(v) for v in net.trainable_variables]
    moved = perturbed_by_hand(net, gradients, gamma)
    after = get_weights(net)
    for variable, value in zip(net.trainable_variables, moved, strict=True):
        variable.assign(value)
    _, expected_loss, expected = plain.gradients(X, x_adv, Y)
    np.testing.assert_allclose(loss, expected_loss, rtol=1e-4)
    assert float(expected_loss) > 0
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4 * np.abs(other).max() + 1e-7)
    net.set_weights(after)
    assert_equal_weights(trainable, [np.array(v) for v in net.trainable_variables])


def test_inside_every_kernel_is_gamma_of_its_length_away_and_afterwards_nowhere():
    net = tiny_net()
    before = [np.array(v) for v in net.trainable_variables]
    gradients = [tf.constant(np.random.default_rng(0).normal(size=w.shape), tf.float32) for w in before]
    with awp.moved_up(net.trainable_variables, gradients, 0.01):
        inside = [np.array(v) for v in net.trainable_variables]
    for old, new, gradient in zip(before, inside, gradients, strict=True):
        if old.ndim == 1:
            np.testing.assert_array_equal(old, new)
            continue
        v = (new - old).astype("float64")
        np.testing.assert_allclose(np.linalg.norm(v) / np.linalg.norm(old), 0.01, rtol=1e-4)
        np.testing.assert_allclose(
            np.sum(v * gradient), np.linalg.norm(v) * np.linalg.norm(gradient), rtol=1e-4
        )
    assert_equal_weights(before, [np.array(v) for v in net.trainable_variables])


def test_a_compiled_awp_step_with_rate_zero_leaves_the_weights_bit_for_bit():
    trainer = training.PGDAT(
        tiny_net(), attacks.PGD(EPSILON, steps=1), weight_perturbation=training.AWP(0.01)
    )
    trainer.compile(training.TorchSGD(0.0))
    before = [np.array(v) for v in trainer.net.trainable_variables]
    trainer.train_on_batch(X, Y)
    assert_equal_weights(before, [np.array(v) for v in trainer.net.trainable_variables])


def test_awp_begins_when_it_is_told_to():
    results = []
    for perturbation in (None, training.AWP(0.1, start=1), training.AWP(0.1)):
        trainer = training.Standard(tiny_net(), weight_perturbation=perturbation)
        trainer.compile(training.TorchSGD(0.1), run_eagerly=True)
        trainer.train_on_batch(X, Y)
        first = get_weights(trainer.net)
        trainer.train_on_batch(X, Y)
        results.append((first, get_weights(trainer.net)))
    (plain, plain_after), (late, late_after), (early, _) = results
    assert_equal_weights(plain, late, atol=1e-7)
    assert max(np.abs(a - b).max() for a, b in zip(plain_after, late_after, strict=True)) > 1e-5
    assert max(np.abs(a - b).max() for a, b in zip(plain, early, strict=True)) > 1e-5


def test_a_gradient_that_is_zero_or_infinite_moves_nothing():
    weight = tf.constant([[3.0, 4.0]])
    for gradient in (tf.zeros((1, 2)), tf.constant([[np.inf, 1.0]])):
        np.testing.assert_array_equal(awp.perturbation(weight, gradient, 0.1), [[0.0, 0.0]])
    np.testing.assert_allclose(awp.perturbation(weight, tf.constant([[0.0, 2.0]]), 0.1), [[0.0, 0.5]])


def test_awp_refuses_a_projected_head():
    inputs = keras.Input((8, 8, 1))
    head = athe_tf.CosineDense(4, weight_norm="project")
    net = keras.Model(inputs, head(keras.layers.Flatten()(inputs)))
    with pytest.raises(InputError, match="off the sphere.*Use weight_norm='differentiable'"):
        training.Standard(net, weight_perturbation=training.AWP(0.01))


# -- N-FGSM -------------------------------------------------------------------------------------------------


def fast(framework, net, step_size=EPSILON, norm="linf", **kwargs):
    trainer = training.get(framework)(net, attacks.PGD(EPSILON, norm, steps=1, step_size=step_size), **kwargs)
    trainer.compile(training.TorchSGD(0.01))
    return trainer


def two_class_net():
    """A linear model of two classes: the gradient of every image has one of two directions."""
    inputs = keras.Input((2, 2, 1))
    head = keras.layers.Dense(2)
    net = keras.Model(inputs, head(keras.layers.Flatten()(inputs)))
    head.kernel.assign(np.random.default_rng(1).normal(size=(4, 2)))
    return net


def test_nfgsm_is_noise_plus_a_step_without_projection():
    net = two_class_net()
    rng = np.random.default_rng(2)
    x = rng.uniform(size=(64, 2, 2, 1)).astype("float32")
    y = rng.integers(0, 2, 64).astype("int32")
    trainer = fast("n_fgsm", net, noise=2.0)
    x_adv = trainer.craft(tf.constant(x), tf.constant(y)).numpy()
    noise = trainer.attack.threat.uniform_start(tf.constant(x), tf.range(64), trainer.step_seed())
    start = np.clip(x + 2 * noise.numpy(), 0, 1)
    kernel = np.array(net.layers[-1].kernel)
    upwards = np.sign(kernel[:, 1] - kernel[:, 0])[None] * np.where(y == 0, 1, -1)[:, None]
    expected = np.clip(start + EPSILON * upwards.reshape(-1, 2, 2, 1), 0, 1)
    np.testing.assert_allclose(x_adv, expected, atol=1e-6)
    distance = np.abs(x_adv - x).max()
    assert EPSILON * 2 < distance <= EPSILON * 3 + 1e-6  # beyond the ball, within (k + 1) epsilon


# -- GradAlign ----------------------------------------------------------------------------------------------


def numpy_losses(weights, x, y):
    """Cross-entropy of a net of one hidden layer; complex numbers pass through."""
    kernel, bias, head = weights
    logits = np.tanh(x.reshape(len(x), -1) @ kernel + bias) @ head
    return np.log(np.exp(logits).sum(1)) - logits[np.arange(len(x)), y]


def numpy_gradient(weights, x, y):
    columns = []
    for place in range(4):
        moved = x.reshape(len(x), 4).astype(complex)
        moved[:, place] += 1e-30j
        columns.append(numpy_losses(weights, moved, y).imag / 1e-30)
    return np.stack(columns, axis=1)


def test_gradalign_adds_one_minus_the_cosine_of_two_gradients_and_learns_through_the_second():
    rng = np.random.default_rng(0)
    inputs = keras.Input((2, 2, 1))
    hidden = keras.layers.Dense(6, activation="tanh")(keras.layers.Flatten()(inputs))
    net = keras.Model(inputs, keras.layers.Dense(3, use_bias=False)(hidden))
    weights = [rng.normal(size=w.shape) for w in net.trainable_variables]
    for variable, value in zip(net.trainable_variables, weights, strict=True):
        variable.assign(value)
    x = rng.uniform(0.3, 0.7, (8, 2, 2, 1)).astype("float32")
    y = rng.integers(0, 3, 8).astype("int32")
    trainer = fast("gradalign", net, step_size=1.25 * EPSILON, alignment=2.0)
    crafted = trainer.craft(tf.constant(x), tf.constant(y))
    clean = numpy_gradient(weights, x, y)
    np.testing.assert_allclose(np.reshape(crafted.gradient, (8, 4)), clean, rtol=1e-3, atol=1e-5)
    # The step of 1.25 epsilon from the image itself ends on the ball.
    step = (crafted.images - x).numpy().reshape(8, 4)
    np.testing.assert_allclose(step, EPSILON * np.sign(clean), atol=1e-6)
    seed = athe_tf.utils.rng.fold(trainer.step_seed(), 1)
    eta = trainer.attack.threat.uniform_start(tf.constant(x), tf.range(8), seed).numpy()

    def formula(values):
        other = numpy_gradient(values, x + eta, y)
        lengths = np.linalg.norm(clean, axis=1) * np.linalg.norm(other, axis=1)
        misaligned = 1 - (clean * other).sum(1) / lengths
        assert (misaligned >= 0).all() and (misaligned <= 2).all() and misaligned.max() > 1e-3
        return np.mean(numpy_losses(values, np.array(crafted.images), y).real + 2.0 * misaligned)

    _, loss, gradients = trainer.gradients(tf.constant(x), crafted, y)
    np.testing.assert_allclose(loss, formula(weights), rtol=1e-5)
    for gradient, expected in zip(gradients, finite_differences(formula, weights), strict=True):
        np.testing.assert_allclose(gradient, expected, atol=1e-3 * np.abs(expected).max())


def test_gradalign_is_zero_where_the_gradient_is_the_same_everywhere_or_missing():
    net = two_class_net()
    # So wrong that the loss is linear: the gradient is the same at every point.
    net.layers[-1].bias.assign([-40.0, 40.0])
    x = np.full((4, 2, 2, 1), 0.5, "float32")
    for label in (0, 1):  # for the other label the loss and its gradient are zero
        y = np.full(4, label, "int32")
        trainer = fast("gradalign", net, alignment=1.0)
        crafted = trainer.craft(tf.constant(x), tf.constant(y))
        np.testing.assert_allclose(
            trainer.gradient_cosine(tf.constant(x), crafted.gradient, y), 1.0, atol=1e-6
        )
        _, _, gradients = trainer.gradients(tf.constant(x), crafted, y)
        assert all(np.isfinite(g).all() for g in gradients)


def test_a_cosine_lies_between_minus_one_and_one():
    one = tf.constant([1.0, 2.0, 0.0, 0.0], shape=(1, 2, 2, 1))
    for factor, expected in ((3.0, 1.0), (-0.5, -1.0), (1e-15, 1.0), (0.0, 1.0)):
        np.testing.assert_allclose(cosine(one, factor * one), [expected], rtol=1e-6)


def test_second_derivatives_through_batch_norm_in_float32_equal_those_in_float64():
    """The fused kernel of float32 has a derivative of its own; float64 is computed step by step."""
    gradients, weights = [], None
    for dtype in ("float32", "float64"):
        keras.utils.set_random_seed(0)
        inputs = keras.Input((8, 8, 1), dtype=dtype)
        h = keras.layers.Conv2D(3, 3, strides=2, dtype=dtype)(inputs)
        h = keras.layers.Activation("softplus", dtype=dtype)(athe_tf.BatchNorm(dtype=dtype)(h))
        net = keras.Model(inputs, keras.layers.Dense(4, dtype=dtype)(keras.layers.Flatten(dtype=dtype)(h)))
        weights = weights or net.get_weights()
        net.set_weights(weights)
        trainer = fast("gradalign", net, alignment=1.0)
        x = tf.constant(X.astype(dtype))
        direction = tf.constant(np.random.default_rng(0).normal(size=X.shape).astype(dtype))
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.cast(trainer.gradient_cosine(x, direction, Y), dtype))
        gradients.append(tape.gradient(loss, net.trainable_variables))
    for one, other in zip(*gradients, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-3 * np.abs(other).max() + 1e-5)


def test_the_weights_of_gradalign_are_the_papers():
    np.testing.assert_allclose([gradalign_weight(e / 255) for e in (8, 16)], [0.2, 2.0])


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: fast("n_fgsm", tiny_net(), noise=-1.0), "noise must be a finite number larger than 0"),
        (lambda: fast("gradalign", tiny_net(), alignment=-1.0), "alignment must be finite and not negative"),
        (lambda: training.AWP(1.5), r"gamma must lie in \[0, 1\)"),
        (lambda: training.EMA(1.0), r"decay must lie in \[0, 1\)"),
        (lambda: SWA(0, None), "start must be a finite number larger than 0"),
        (
            lambda: training.TRADES(tiny_net(), attacks.PGD(0.1), betta=3.0),
            "Unknown argument 'betta' of TRADES",
        ),
    ],
)
def test_impossible_options_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_what_is_crafted_for_gradalign_has_two_parts():
    crafted = fast("gradalign", tiny_net(), alignment=0.1).craft(tf.constant(X), tf.constant(Y))
    assert isinstance(crafted, Aligned) and crafted.images.shape == crafted.gradient.shape == X.shape


# -- stochastic weight averaging ----------------------------------------------------------------------------


def test_swa_is_the_mean_over_epochs_and_has_statistics_of_its_own():
    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(8)
    swa = SWA(1, lambda epoch: data)
    trainer = training.Standard(tiny_net(), average=swa, validation_attack=attacks.PGD(0.05, steps=1))
    trainer.compile(training.TorchSGD(0.5))
    ends, shipped = [], []

    class Watch(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            ends.append([np.array(v) for v in trainer.net.trainable_variables])
            shipped.append(get_weights(trainer.shipped))
            if epoch == 0:
                assert_equal_weights(shipped[0], get_weights(trainer.net))

    trainer.fit(data, epochs=4, verbose=0, callbacks=[swa, Watch()])
    # Epochs 2, 3 and 4 count.
    expected = [np.mean(values, axis=0) for values in zip(*ends[1:], strict=True)]
    assert_equal_weights(expected, [np.array(v) for v in trainer.averaged.trainable_variables], atol=1e-6)
    kernel = np.array(trainer.averaged.layers[1].kernel)
    outputs = [tf.nn.conv2d(X[i : i + 8], kernel, 2, "VALID").numpy() for i in (0, 8)]
    norm = next(layer for layer in trainer.averaged.layers if isinstance(layer, athe_tf.BatchNorm))
    np.testing.assert_allclose(norm.moving_mean, np.mean([o.mean((0, 1, 2)) for o in outputs], 0), atol=1e-5)
    unbiased = np.mean([o.reshape(-1, 4).var(0, ddof=1) for o in outputs], 0)
    np.testing.assert_allclose(norm.moving_variance, unbiased, rtol=1e-4)
    assert norm.momentum == 0.9


def test_statistics_of_a_model_without_batch_norm_need_no_pass():
    def no_batches():
        raise AssertionError("passed over the images")
        yield

    StatisticsPass(tiny_net(batch_norm=False))(no_batches())


def test_swa_needs_a_trainer_with_an_average():
    trainer = training.Standard(tiny_net())
    trainer.compile(training.TorchSGD(0.1))
    with pytest.raises(InputError, match="Give it to the trainer too"):
        trainer.fit(X, Y, verbose=0, callbacks=[SWA(1, lambda epoch: [])])
