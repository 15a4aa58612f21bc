"""`BatchNorm`: PyTorch's numbers, exact derivatives, and the four modes."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from athe_tf.layers.batch_norm import (
    BatchNorm,
    batch_statistics_without_update,
    capture_batch_statistics,
    frozen_batch_statistics,
    third_party_batch_norms,
)
from athe_tf.utils.errors import InputError
from tests.warm_processes import exit_code_of

SHAPE = (6, 4, 5, 3)


def images(seed=0, shape=SHAPE, dtype="float32"):
    return (np.random.default_rng(seed).normal(size=shape) * 2 + 1).astype(dtype)


def layer_with_weights(**kwargs):
    layer = BatchNorm(**kwargs)
    layer.build(SHAPE)
    rng = np.random.default_rng(7)
    layer.set_weights(
        [rng.uniform(0.5, 2, 3), rng.normal(size=3), rng.normal(size=3), rng.uniform(0.5, 2, 3)]
    )
    return layer


def normalized(layer, x, mean, variance):
    gamma, beta = (np.array(w) for w in layer.weights[:2])
    return gamma * (x - mean) / np.sqrt(variance + layer.epsilon) + beta


def moving(layer):
    return [np.array(w) for w in (layer.moving_mean, layer.moving_variance)]


@pytest.mark.parametrize("shape", [SHAPE, (6, 3), (6, 5, 3)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_training_normalizes_by_the_biased_and_remembers_the_unbiased_variance(shape, dtype):
    layer = BatchNorm(dtype=dtype)
    x = images(shape=shape, dtype=dtype)
    y = layer(x, training=True)
    axes = tuple(range(x.ndim - 1))
    mean, biased, unbiased = x.mean(axes), x.var(axes), x.var(axes, ddof=1)
    np.testing.assert_allclose(y, normalized(layer, x, mean, biased), atol=1e-5)
    np.testing.assert_allclose(layer.moving_mean, 0.1 * mean, atol=1e-6)
    np.testing.assert_allclose(layer.moving_variance, 0.9 + 0.1 * unbiased, atol=1e-5)


def test_inference_uses_and_keeps_the_moving_statistics():
    layer, x = layer_with_weights(), images()
    before = moving(layer)
    np.testing.assert_allclose(layer(x, training=False), normalized(layer, x, *before), atol=1e-5)
    np.testing.assert_array_equal(moving(layer), before)


def test_a_frozen_layer_stays_in_inference_mode():
    layer, x = layer_with_weights(trainable=False), images()
    before = moving(layer)
    np.testing.assert_allclose(layer(x, training=True), normalized(layer, x, *before), atol=1e-5)
    np.testing.assert_array_equal(moving(layer), before)


def test_without_center_and_scale_it_only_standardizes():
    y = BatchNorm(center=False, scale=False)(images(), training=True)
    np.testing.assert_allclose(tf.reduce_mean(y, (0, 1, 2)), np.zeros(3), atol=1e-5)
    np.testing.assert_allclose(tf.math.reduce_std(y, (0, 1, 2)), np.ones(3), atol=1e-4)


def test_without_update_uses_batch_statistics_and_changes_nothing():
    layer, x = layer_with_weights(), images()
    before = moving(layer)
    with batch_statistics_without_update():
        y = layer(x, training=True)
    np.testing.assert_allclose(y, normalized(layer, x, x.mean((0, 1, 2)), x.var((0, 1, 2))), atol=1e-5)
    np.testing.assert_array_equal(moving(layer), before)
    layer(x, training=True)
    assert not np.array_equal(moving(layer), before), "the mode must end with its context"


def test_capture_is_a_normal_pass_that_remembers_its_statistics():
    plain, layer, x = layer_with_weights(), layer_with_weights(), images()
    with capture_batch_statistics() as statistics:
        y = layer(x, training=True)
    np.testing.assert_allclose(y, plain(x, training=True), atol=1e-5)
    np.testing.assert_allclose(moving(layer), moving(plain), rtol=1e-5)
    mean, variance = statistics[layer]
    np.testing.assert_allclose(mean, x.mean((0, 1, 2)), atol=1e-5)
    np.testing.assert_allclose(variance, x.var((0, 1, 2)), atol=1e-4)


def test_frozen_statistics_are_used_inside_a_compiled_loop_and_nothing_is_updated():
    layer, clean, other = layer_with_weights(), images(0), images(1)

    @tf.function
    def craft(clean, x):
        with capture_batch_statistics() as statistics:
            layer(clean, training=True)
        with frozen_batch_statistics(statistics):
            return tf.while_loop(
                lambda i, x: i < 3, lambda i, x: (i + 1, layer(x, training=True)), (tf.constant(0), x)
            )[1]

    reference = layer_with_weights()
    reference(clean, training=True)
    expected = other
    for _ in range(3):
        expected = normalized(layer, expected, clean.mean((0, 1, 2)), clean.var((0, 1, 2)))
    np.testing.assert_allclose(craft(clean, other), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(moving(layer), moving(reference), rtol=1e-5)


def test_gradients_flow_through_captured_statistics():
    layer, clean, other = layer_with_weights(dtype="float64"), images(0, dtype="float64"), images(1)
    clean = tf.constant(clean)

    def loss(clean):
        with capture_batch_statistics() as statistics:
            layer(clean, training=True)
        with frozen_batch_statistics(statistics):
            return tf.reduce_sum(tf.square(layer(other)))

    _, gradient = tf_value_and_gradient(loss, clean)
    direction = tf.constant(images(3, dtype="float64"))
    slope = (loss(clean + 1e-5 * direction) - loss(clean - 1e-5 * direction)) / 2e-5
    np.testing.assert_allclose(tf.reduce_sum(gradient * direction), slope, rtol=1e-6)


def test_the_fused_kernel_has_the_same_gradients_through_captured_statistics():
    gradients = []
    for dtype in ("float64", "float32"):
        layer, clean, other = layer_with_weights(dtype=dtype), tf.constant(images(0, dtype=dtype)), images(1)
        with tf.GradientTape() as tape:
            tape.watch(clean)
            with capture_batch_statistics() as statistics:
                layer(clean, training=True)
            with frozen_batch_statistics(statistics):
                value = tf.reduce_sum(tf.square(layer(other.astype(dtype))))
        gradients.append(tape.gradient(value, [clean, *layer.trainable_variables]))
    for expected, received in zip(*gradients, strict=True):
        np.testing.assert_allclose(received, expected, atol=2e-5 * np.abs(expected).max())


def test_frozen_statistics_of_another_model_are_refused():
    layer = layer_with_weights(name="mine")
    with frozen_batch_statistics({}), pytest.raises(InputError, match="layer 'mine' were captured"):
        layer(images())


def test_two_passes_in_one_capture_are_refused():
    layer = layer_with_weights()
    with capture_batch_statistics(), pytest.raises(InputError, match="was called twice"):
        layer(images(), training=True)
        layer(images(), training=True)


def tf_value_and_gradient(function, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = function(x)
    return value, tape.gradient(value, x)


def penalty(layer, x, training=True):
    """A function of the input gradient, as in LLR: its own gradient is of second order."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = tf.reduce_sum(tf.nn.softplus(layer(x, training=training)) * images(5, dtype=x.dtype.name))
    return tf.reduce_sum(tf.square(tape.gradient(value, x)) * images(6, dtype=x.dtype.name))


def test_second_derivatives_equal_finite_differences():
    # Central differences of step 1e-5 in float64 are exact to about 1e-8; the gradient stop in
    # tf.nn.moments would be an error of 3e-3.
    layer, x = layer_with_weights(dtype="float64"), tf.constant(images(dtype="float64"))
    _, gradient = tf_value_and_gradient(lambda x: penalty(layer, x), x)
    direction = tf.constant(images(9, dtype="float64"))
    slope = (penalty(layer, x + 1e-5 * direction) - penalty(layer, x - 1e-5 * direction)) / 2e-5
    np.testing.assert_allclose(tf.reduce_sum(gradient * direction), slope, rtol=1e-6)


@pytest.mark.parametrize("training", [True, False])
def test_the_fused_kernels_have_the_same_second_derivatives(training):
    exact, fused = layer_with_weights(dtype="float64"), layer_with_weights()
    gradients = []
    for layer, dtype in ((exact, "float64"), (fused, "float32")):
        x = tf.constant(images(dtype=dtype))
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = tf.function(penalty)(layer, x, training)
        gradients.append(tape.gradient(value, [x, *layer.trainable_variables]))
    for expected, received in zip(*gradients, strict=True):
        np.testing.assert_allclose(received, expected, atol=2e-5 * np.abs(expected).max())


def test_statistics_stay_float32_under_mixed_precision():
    layer = BatchNorm(dtype="mixed_float16")
    x = images() * 200  # its variance of 160000 overflows half precision
    y = layer(x, training=True)
    assert y.dtype == tf.float16
    assert layer.moving_variance.dtype == "float32"
    np.testing.assert_allclose(layer.moving_variance, 0.9 + 0.1 * x.var((0, 1, 2), ddof=1), rtol=1e-3)


def test_config_round_trips_and_other_axes_are_refused():
    layer = BatchNorm(momentum=0.8, epsilon=1e-3, scale=False, name="bn")
    again = BatchNorm.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    assert (again.momentum, again.epsilon, again.scale) == (0.8, 1e-3, False)
    with pytest.raises(InputError, match="last axis"):
        BatchNorm(axis=1)


def test_defaults_are_those_of_pytorch():
    layer = BatchNorm()
    assert (layer.momentum, layer.epsilon, layer.synchronized) == (0.9, 1e-5, False)


def test_a_capture_without_update_leaves_the_moving_statistics_alone():
    layer, x = layer_with_weights(), images()
    before = moving(layer)
    with capture_batch_statistics(update=False) as statistics:
        layer(x, training=True)
    np.testing.assert_array_equal(moving(layer), before)
    np.testing.assert_allclose(statistics[layer][0], x.mean((0, 1, 2)), atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_value_per_channel_has_a_variance_of_zero(dtype):
    layer = BatchNorm(dtype=dtype)
    np.testing.assert_array_equal(
        layer(np.full((1, 1, 1, 2), 3.0, dtype), training=True), np.zeros((1, 1, 1, 2))
    )
    np.testing.assert_allclose(layer.moving_variance, [0.9, 0.9], rtol=1e-6)


def test_foreign_batch_norms_are_found_in_nested_models():
    inner = keras.Sequential([keras.Input((4,)), keras.layers.BatchNormalization(name="theirs"), BatchNorm()])
    assert [layer.name for layer in third_party_batch_norms(keras.Sequential([inner]))] == ["theirs"]
    assert third_party_batch_norms(keras.Sequential([keras.Input((4,)), BatchNorm()])) == []


def two_replicas_synchronise():
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    x = np.random.default_rng(0).normal(size=(8, 2, 2, 3)).astype("float32") * 2 + 1
    halves = strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(x.reshape(2, 4, 2, 2, 3)[context.replica_id_in_sync_group])
    )
    with strategy.scope():
        layer = BatchNorm(synchronized=True)
        layer.build(x.shape)

    @tf.function
    def crafted(batch):
        with batch_statistics_without_update():
            return layer(batch, training=True)

    @tf.function
    def run(step, batch):
        return tf.concat(strategy.experimental_local_results(strategy.run(step, (batch,))), 0)

    expected = (x - x.mean((0, 1, 2))) / np.sqrt(x.var((0, 1, 2)) + 1e-5)
    np.testing.assert_allclose(run(crafted, halves), expected, atol=1e-4)
    np.testing.assert_array_equal(layer.moving_mean.numpy(), np.zeros(3))
    run(lambda batch: layer(batch, training=True), halves)
    for moving in strategy.experimental_local_results(layer.moving_variance.value):
        np.testing.assert_allclose(moving, 0.9 + 0.1 * x.var((0, 1, 2), ddof=1), rtol=1e-4)


def test_replicas_synchronise_and_see_their_own_mode():
    # Logical devices must exist before TensorFlow starts: hence the process of its own.
    assert exit_code_of(two_replicas_synchronise) == 0
