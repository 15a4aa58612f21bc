"""CosineDense: geometry, gradients, numerics, serialization, errors."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from athe_tf import CosineDense, InputError
from athe_tf.layers.cosine_dense import unit_vectors

RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(6, 5)).astype("float32")


def built(**kwargs):
    keras.utils.set_random_seed(0)  # at angles near 0, float32 has fewer digits than some tests ask for
    layer = CosineDense(4, **kwargs)
    layer.build((None, 5))
    return layer


def numpy_cosines(features, kernel):
    features, kernel = features.astype("float64"), kernel.astype("float64")
    features = features / np.linalg.norm(features, axis=1, keepdims=True)
    return features @ (kernel / np.linalg.norm(kernel, axis=0, keepdims=True))


@pytest.mark.parametrize("fn", [True, False])
@pytest.mark.parametrize("wn", [True, False])
def test_output_is_the_scaled_similarity_of_float64_numpy(fn, wn):
    layer = built(scale=7.0, normalize_features=fn, normalize_weights=wn)
    z, w = FEATURES.astype("float64"), layer.kernel.numpy().astype("float64")
    z = z / np.linalg.norm(z, axis=1, keepdims=True) if fn else z
    w = w / np.linalg.norm(w, axis=0, keepdims=True) if wn else w
    np.testing.assert_allclose(layer(FEATURES), 7.0 * z @ w, rtol=1e-5, atol=1e-5)


def test_angular_output_is_minus_scale_times_the_angle():
    layer = built(scale=15.0, angular=True)
    expected = -15.0 * np.arccos(numpy_cosines(FEATURES, layer.kernel.numpy()))
    np.testing.assert_allclose(layer(FEATURES), expected, rtol=1e-5)


def test_the_angle_and_its_gradient_are_those_of_the_arc_cosine():
    # Two classes on the axes: the features decide the cosines.
    layer = CosineDense(2, scale=1.0, angular=True)
    layer.build((None, 2))
    layer.kernel.assign(np.eye(2))
    angles = np.linspace(0.002, np.pi - 0.002, 999)
    features = tf.constant(np.stack([np.cos(angles), np.sin(angles)], 1), tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(features)
        found = -layer(features)[:, 0]
    np.testing.assert_allclose(found, angles, atol=2e-4)  # the cosine of a small angle is rounded
    np.testing.assert_allclose(found[100:-100], angles[100:-100], atol=1e-6)
    # The angle grows by as much as the features turn.
    turn = np.stack([-np.sin(angles), np.cos(angles)], 1)
    slope = (tape.gradient(found, features).numpy() * turn).sum(axis=1)
    np.testing.assert_allclose(slope[100:-100], 1, atol=3e-6)


@pytest.mark.parametrize("angular", [False, True])
def test_lengths_of_features_and_weights_do_not_matter(angular):
    layer = built(scale=1.0, angular=angular)
    before = layer(FEATURES).numpy()
    layer.kernel.assign(layer.kernel.numpy() * np.array([0.01, 1.0, 30.0, 4e3]))
    after = layer(FEATURES * RNG.uniform(1e-3, 1e3, (6, 1)).astype("float32")).numpy()
    np.testing.assert_allclose(after, before, atol=1e-6)


def test_there_is_no_bias_and_cosines_stay_within_one():
    layer = built(scale=1.0)
    assert [w.name for w in layer.weights] == ["kernel"]
    aligned = layer.kernel.numpy().T * 1e3
    cosines = layer(aligned).numpy()
    assert abs(cosines).max() <= 1 + 1e-6
    np.testing.assert_allclose(np.diag(cosines), 1.0, atol=1e-6)


@pytest.mark.parametrize("angular", [False, True])
@pytest.mark.parametrize("case", ["zero", "aligned", "opposite", "tiny", "huge"])
def test_values_and_gradients_are_finite_at_the_edges(angular, case):
    layer = built(angular=angular)
    w = layer.kernel.numpy().T
    z = {"zero": 0 * w, "aligned": w, "opposite": -w, "tiny": w * 1e-20, "huge": w * 1e15}[case]
    z = tf.constant(z, tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(z)
        out = layer(z)
        total = tf.reduce_sum(out)
    gradients = tape.gradient(total, [z, layer.kernel.value])
    assert np.isfinite(out).all()
    assert all(np.isfinite(g).all() for g in gradients)


def weight_gradient(layer, upstream):
    with tf.GradientTape() as tape:
        value = tf.reduce_sum(layer(FEATURES) * upstream)
    return tape.gradient(value, layer.kernel.value).numpy()


def test_differentiable_weight_norm_has_no_radial_gradient():
    layer = built()
    gradient = weight_gradient(layer, RNG.normal(size=(6, 4)).astype("float32"))
    radial = (layer.kernel.numpy() * gradient).sum(axis=0)
    np.testing.assert_allclose(radial, 0.0, atol=1e-4)


def test_straight_through_gradient_is_the_gradient_at_the_unit_weight():
    upstream = RNG.normal(size=(6, 4)).astype("float32")
    layer = built(scale=3.0, weight_norm="straight_through")
    unit_features = FEATURES / np.linalg.norm(FEATURES, axis=1, keepdims=True)
    expected = 3.0 * unit_features.T.astype("float64") @ upstream
    np.testing.assert_allclose(weight_gradient(layer, upstream), expected, rtol=1e-4, atol=1e-5)
    plain = built(scale=3.0)
    plain.kernel.assign(layer.kernel)
    np.testing.assert_array_equal(layer(FEATURES), plain(FEATURES))


def test_project_has_the_euclidean_gradient_of_a_unit_kernel():
    upstream = RNG.normal(size=(6, 4)).astype("float32")
    layer = built(scale=3.0, weight_norm="project")
    unit_features = FEATURES / np.linalg.norm(FEATURES, axis=1, keepdims=True)
    expected = 3.0 * unit_features.T.astype("float64") @ upstream
    gradient = weight_gradient(layer, upstream)
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-5)
    radial = (layer.kernel.numpy() * gradient).sum(axis=0)
    assert abs(radial).min() > 0.01, "a gradient through W / ||W|| would have no radial part"


def test_a_zero_vector_has_a_zero_gradient():
    x = tf.zeros([1, 5])
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = tf.reduce_sum(unit_vectors(x, axis=-1))
    np.testing.assert_array_equal(tape.gradient(value, x), np.zeros([1, 5]))
    tiny = tf.constant([[3e-12, 4e-12]])  # just above the 1e-12 of PyTorch's `normalize`
    np.testing.assert_allclose(unit_vectors(tiny, axis=-1), [[0.6, 0.8]], rtol=1e-5)
    np.testing.assert_array_equal(unit_vectors(0.1 * tiny, axis=-1), [[0.0, 0.0]])


def test_angles_end_a_millionth_of_the_cosine_before_0_and_pi():
    layer = CosineDense(2, scale=1.0, angular=True, dtype="float64")
    layer.build((None, 2))
    layer.kernel.assign([[1.0, -1.0], [0.0, 0.0]])
    np.testing.assert_allclose(layer(np.array([[1.0, 0.0]])), [-np.arccos([1 - 1e-6, -1 + 1e-6])], rtol=1e-9)


def test_defaults_are_those_of_the_paper_and_of_pytorch():
    layer = CosineDense(300)
    layer.build((None, 25))
    kernel = layer.kernel.numpy()
    assert (layer.scale, layer.weight_norm, layer.angular, layer.sub_centers) == (
        15.0,
        "differentiable",
        False,
        1,
    )
    # Uniform in +-1/sqrt(25): the largest of 7,500 is close to the bound.
    assert 0.199 < abs(kernel).max() <= 0.2
    np.testing.assert_allclose(kernel.std(), 0.2 / np.sqrt(3), rtol=0.03)


def test_project_keeps_unit_norms_after_build_and_after_every_update():
    inputs = keras.Input((5,))
    model = keras.Model(inputs, CosineDense(4, weight_norm="project")(inputs))
    kernel = model.layers[-1].kernel
    np.testing.assert_allclose(np.linalg.norm(kernel, axis=0), 1.0, rtol=1e-6)
    model.compile(keras.optimizers.SGD(0.5), loss=keras.losses.SparseCategoricalCrossentropy(True))
    before = kernel.numpy()
    for _ in range(3):
        model.train_on_batch(FEATURES, np.array([0, 1, 2, 3, 0, 1]))
        np.testing.assert_allclose(np.linalg.norm(kernel, axis=0), 1.0, rtol=1e-6)
    assert abs(kernel.numpy() - before).max() > 1e-3


def test_round_trips_through_its_config_and_a_keras_file(tmp_path):
    inputs = keras.Input((5,))
    outputs = CosineDense(4, scale=9.0, angular=True, weight_norm="straight_through", name="head")(inputs)
    model = keras.Model(inputs, outputs)
    model.save(tmp_path / "m.keras")
    loaded = keras.models.load_model(tmp_path / "m.keras")
    np.testing.assert_array_equal(model(FEATURES), loaded(FEATURES))
    assert loaded.layers[-1].get_config() == model.layers[-1].get_config()


@pytest.mark.parametrize("policy, expected", [("mixed_float16", "float32"), ("float64", "float64")])
def test_arithmetic_is_never_half_precision(policy, expected):
    layer = CosineDense(4, dtype=policy)
    half = tf.cast(FEATURES, tf.float16 if policy == "mixed_float16" else tf.float64)
    out = layer(half)
    assert out.dtype == expected and layer.kernel.dtype == expected
    reference = 15.0 * numpy_cosines(half.numpy(), layer.kernel.numpy())
    np.testing.assert_allclose(out, reference, rtol=1e-5, atol=1e-5)


def test_sequences_of_features_are_classified_position_by_position():
    layer = built()
    sequence = RNG.normal(size=(2, 3, 5)).astype("float32")
    assert layer.compute_output_shape((2, 3, 5)) == (2, 3, 4)
    np.testing.assert_allclose(layer(sequence)[1], layer(sequence[1]), rtol=1e-5)


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"scale": 0.0}, "`scale` must be larger than 0"),
        ({"scale": "adacoss"}, "larger than 0, or 'adacos'"),
        ({"scale": "adacos", "units": 2}, "0 for two classes. Received: units=2"),
        ({"sub_centers": 0}, "Expected an integer of at least 1"),
        ({"units": 0}, "`units` must be a positive integer"),
        ({"weight_norm": "projekt"}, "Expected one of .*'project'.* Received: weight_norm='projekt'"),
        ({"angular": True, "normalize_weights": False}, "`angular=True` needs cosines"),
    ],
)
def test_impossible_arguments_are_refused(kwargs, message):
    with pytest.raises(InputError, match=message):
        CosineDense(**({"units": 4} | kwargs))


def test_the_nearest_of_several_centers_counts():
    layer = built(scale=3.0, sub_centers=2)
    cosines = numpy_cosines(FEATURES, layer.kernel.numpy())
    assert cosines.shape == (6, 8)
    np.testing.assert_allclose(
        layer(FEATURES), 3.0 * cosines.reshape(6, 4, 2).max(axis=2), rtol=1e-5, atol=1e-5
    )
    sequence = np.stack([FEATURES, -FEATURES])
    assert layer(sequence).shape == layer.compute_output_shape(sequence.shape) == (2, 6, 4)


def test_adacos_is_the_scale_of_the_number_of_classes():
    layer = CosineDense(1000, scale="adacos")
    np.testing.assert_allclose(layer.scale, np.sqrt(2) * np.log(999), rtol=1e-12)
    assert CosineDense.from_config(layer.get_config()).scale == layer.scale


def test_a_config_of_one_center_is_what_it_always_was():
    """The digest that identifies a model contains its config."""
    assert "sub_centers" not in CosineDense(4).get_config()
    assert CosineDense.from_config(CosineDense(4, sub_centers=3).get_config()).sub_centers == 3
