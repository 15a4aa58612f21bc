"""Analyses of small models against NumPy, in more than one batch."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import athe_tf
from athe_tf.analysis import AnalysisOptions
from athe_tf.analysis.class_bias import ClassBias
from athe_tf.analysis.decision_map import _widest_place
from athe_tf.analysis.gradient_scattering import _cosines
from athe_tf.analysis.perturbations import Perturbations
from athe_tf.analysis.subject import Subject
from athe_tf.analysis.weights import WeightLoss, top_eigenpairs
from athe_tf.models.features import find_head
from tests.linear_case import gray_images, linear_model, predictions
from tests.small_runs import tiny_batch, tiny_net

ATTACK = athe_tf.attacks.PGD(0.1, steps=1, start="zero", step_size=0.1)
# Six images are two batches of different sizes.
BATCHES = AnalysisOptions(batch_size=4)


def facts(**more):
    return {"model": "m", "images": 6, "settings": {}, **more}


def test_angles_are_those_of_numpy():
    net, (x, y) = tiny_net("he"), tiny_batch(6)
    found = athe_tf.analysis.angles(net, (x, y), ATTACK, BATCHES)
    weights = np.asarray(net.layers[-1].kernel, "float64")
    unit = weights / np.linalg.norm(weights, axis=0)
    features = np.asarray(find_head(net).features(x), "float64")

    def own(images):
        z = np.asarray(find_head(net).features(images), "float64")
        cosines = (z / np.linalg.norm(z, axis=1, keepdims=True)) @ unit
        return np.degrees(np.arccos(cosines[np.arange(6), y]))

    np.testing.assert_allclose(found.clean, own(x), atol=1e-3)
    np.testing.assert_allclose(found.adversarial, own(ATTACK(net, x, y)), atol=1e-3)
    np.testing.assert_allclose(found.feature_norms, np.linalg.norm(features, axis=1), rtol=1e-5)
    pairs = [(unit[:, a] * unit[:, b]).sum() for a in range(4) for b in range(a + 1, 4)]
    np.testing.assert_allclose(found.between_classes, np.degrees(np.arccos(pairs)), atol=1e-4)
    # Of four classes, the corners of a tetrahedron.
    assert found.simplex == pytest.approx(109.47122063449069)


def biased(factors):
    """A linear model of three classes whose weights have these lengths, and images."""
    model = linear_model(classes=3)
    kernel, _ = model.layers[-1].get_weights()
    kernel -= kernel.mean(axis=0)  # so that gray images have no class
    bias = np.array([0.3, -0.3, 0.0])
    model.layers[-1].set_weights([kernel / np.linalg.norm(kernel, axis=0) * factors, bias])
    return model


def test_wrong_labels_are_counted_with_the_lengths_as_they_are_and_with_equal_ones():
    attack = athe_tf.attacks.PGD(0.02, steps=1, start="zero", step_size=0.02)
    model, equal = biased([1.0, 2.0, 4.0]), biased([7 / 3] * 3)
    x = gray_images(12)
    y = predictions(model, x)

    def labels(net):
        after = predictions(net, attack(net, x, y))
        return np.bincount(after[after != y], minlength=3)

    found = athe_tf.analysis.class_bias(model, (x, y), attack, AnalysisOptions(batch_size=5))
    np.testing.assert_array_equal(found.labels, labels(model))
    np.testing.assert_array_equal(found.labels_unit_weights, labels(equal))
    assert 0 < found.labels.sum() < 12 and (found.labels != found.labels_unit_weights).any()


def test_the_correlation_of_lengths_and_labels_is_by_rank():
    def correlation(norms, labels):
        counts = np.array(labels)
        names = tuple("abc")
        return ClassBias(
            **facts(), norms=np.array(norms), labels=counts, labels_unit_weights=counts, class_names=names
        ).correlation

    assert correlation([1.0, 2.0, 30.0], [0, 1, 2]) == pytest.approx(1.0)
    assert correlation([1.0, 2.0, 30.0], [2, 1, 0]) == pytest.approx(-1.0)
    assert correlation([1.0, 1.0, 1.0 + 1e-7], [0, 1, 2]) == correlation([1.0, 2.0, 3.0], [4, 4, 4]) == 0.0


def test_the_distance_from_the_tangent_is_that_of_numpy():
    """Two classes: cross-entropy is log(1 + exp(-m)) of the margin m, which is linear in the image."""
    model, x = linear_model(classes=2, scale=0.1), gray_images(6)
    y = predictions(model, x)
    found = athe_tf.analysis.linearity(model, (x, y), ATTACK, BATCHES, epsilons=(0.05, 0.1))
    kernel, bias = (w.astype("float64") for w in model.layers[-1].get_weights())
    sign = np.where(y == 0, 1.0, -1.0)
    margin = sign * ((x.reshape(6, -1) @ kernel + bias) @ [1.0, -1.0])
    slope = np.abs(kernel[:, 0] - kernel[:, 1]).sum()
    # A step of 0.1 is cut to the ball of 0.05.
    for epsilon, gap, gamma in zip((0.05, 0.1), found.along_attack, found.gamma, strict=True):
        moved = margin - epsilon * slope
        tangent = np.log1p(np.exp(-margin)) + epsilon * slope / (1 + np.exp(margin))
        expected = np.abs(np.log1p(np.exp(-moved)) - tangent).mean()
        assert gap == pytest.approx(expected, rel=1e-3)
        assert gamma >= gap * (1 - 1e-6)


def test_the_difference_of_gradients_is_that_of_all_images():
    net, (x, y) = tiny_net(), tiny_batch(6)
    settings = {"epsilons": (0.0,), "distance": 0.1}
    found = athe_tf.analysis.gradient_scattering(net, (x, y), ATTACK, BATCHES, **settings)
    loss = WeightLoss(net, x, y, 6)
    here = loss.gradient()
    with loss.moved(0.1 * loss.filter_normalized(0)):
        expected = np.linalg.norm(here - loss.gradient())
    assert found.gradient_differences[0] == pytest.approx(expected, rel=1e-4)
    assert np.isnan(found.perturbation_cosines[0])


def test_cosines_of_perturbations_are_per_image():
    a = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]).reshape(3, 1, 2, 1)
    b = np.array([[0.0, 2.0], [-1.0, -1.0], [1.0, 0.0]]).reshape(3, 1, 2, 1)
    np.testing.assert_allclose(_cosines(a, b), [0.0, -1.0, np.nan])


def test_the_plane_of_weights_has_the_first_direction_across_and_the_second_along():
    net, (x, y) = tiny_net(), tiny_batch(6)
    options = AnalysisOptions(batch_size=4, seed=2)
    found = athe_tf.analysis.landscape(net, (x, y), ATTACK, options, points=3)
    np.testing.assert_allclose(found.steps, [-0.5, 0.0, 0.5])
    loss = WeightLoss(net, ATTACK(net, x, y, seed=2), y, 6)
    first, second = loss.filter_normalized(4), loss.filter_normalized(5)
    for (row, column), move in (
        ((1, 2), 0.5 * first),
        ((2, 1), 0.5 * second),
        ((0, 2), 0.5 * (first - second)),
    ):
        with loss.moved(move):
            assert found.losses[row, column] == pytest.approx(loss.value(), rel=1e-4)
    assert found.key_numbers["loss in the middle"] == pytest.approx(loss.value(), rel=1e-4)


def test_directions_in_pixels_have_length_one_in_the_norm_of_the_attack():
    delta = np.zeros((2, 2, 2, 1), np.float32)
    delta[0, 0, 0], delta[1, 1, :, 0] = 3.0, [3.0, 4.0]

    def subject(norm):
        """What the directions need of a subject: the attack, and the shape of an image."""
        found = Subject.__new__(Subject)
        found.attack, found.x = athe_tf.attacks.PGD(0.1, norm), np.zeros((1, 4, 4, 1))
        return found

    for norm, lengths in (("linf", (1 / 3, 1 / 4)), ("l2", (1 / 3, 1 / 5)), ("l1", (1 / 3, 1 / 7))):
        unit = subject(norm).unit_perturbations(delta)
        np.testing.assert_allclose(unit, delta * np.array(lengths).reshape(2, 1, 1, 1), rtol=1e-6)
    one, same, other = (subject("linf").random_signs(seed) for seed in (0, 0, 1))
    assert set(np.unique(one)) == {-1.0, 1.0} and (one == same).all() and (one != other).any()


def test_the_largest_eigenvalues_are_the_most_positive_ones():
    values = np.array([1.0, -9.0, 3.0, 2.0, 0.5, -1.0])
    found, vectors = top_eigenpairs(lambda v: values * v, 6, 2)
    np.testing.assert_allclose(found, [3.0, 2.0], rtol=1e-4)
    np.testing.assert_allclose(np.abs(vectors), np.eye(6)[:, [2, 3]], atol=1e-3)


def test_perturbations_are_shown_around_gray_each_at_its_own_scale():
    clean = np.full((2, 1, 2, 1), 0.5)
    adversarial = clean + np.array([[0.1, -0.05], [0.02, -0.02]]).reshape(2, 1, 2, 1)
    shown = Perturbations(
        **facts(), clean=clean, adversarial=adversarial, labels=np.array([0, 1]), predicted=np.array([1, 1]),
        class_names=("a", "b"),
    )  # fmt: skip
    np.testing.assert_allclose(shown.normalized[..., 0], [[[1.0, 0.25]], [[1.0, 0.0]]])
    assert shown.key_numbers == {"misclassified after the attack": 1.0}


def test_a_name_stands_where_its_class_has_the_most_room():
    region = np.zeros((5, 7), bool)
    region[:, 2:] = True
    assert _widest_place(region, np.ones_like(region)) == (2, 4)
    outside = np.zeros_like(region)
    outside[0, 6] = True
    assert _widest_place(region, outside) == (0, 6)


def test_models_of_training_are_in_the_order_of_their_steps():
    images = gray_images(6)
    models = {7: linear_model(classes=3, seed=1), 2: linear_model(classes=3, seed=2)}
    labels = predictions(models[2], images)
    found = athe_tf.analysis.training_steps(models, (images, labels), ATTACK, BATCHES)
    assert found.steps == (2, 7)
    for steps, accuracy in zip(found.steps, found.accuracies, strict=True):
        success = ATTACK.run(models[steps], images, labels).success
        assert accuracy == pytest.approx(1 - success.mean())


def test_results_of_other_numbers_of_images_are_not_compared():
    results = []
    for images in (4, 6):
        x = gray_images(images)
        model = linear_model(classes=2)
        results.append(athe_tf.analysis.attack_steps(model, (x, predictions(model, x)), ATTACK, steps=(1,)))
    with pytest.raises(athe_tf.InputError, match="differ in: images"):
        athe_tf.analysis.compare(results)


def test_the_ratio_of_gradients_is_averaged_over_batches():
    net, (x, y) = tiny_net("linear"), tiny_batch(8)
    found = athe_tf.analysis.gradient_ratio(net, (x, y), ATTACK, BATCHES)

    def norm(images, labels):
        with tf.GradientTape() as tape:
            loss = keras.losses.sparse_categorical_crossentropy(labels, net(images), from_logits=True)
            loss = tf.reduce_mean(loss)
        return np.linalg.norm(tape.gradient(loss, net.layers[-1].kernel.value))

    moved = ATTACK(net, x, y)
    ratios = [norm(moved[part], y[part]) / norm(x[part], y[part]) for part in (slice(4), slice(4, 8))]
    assert found.kernels["head"] == pytest.approx(np.mean(ratios), rel=1e-4)


def test_the_seed_of_an_analysis_is_that_of_its_attack():
    net, (x, y) = tiny_net(), tiny_batch(6)
    noisy = athe_tf.attacks.PGD(0.1, steps=0, start="uniform")
    for seed in (0, 5):
        options = AnalysisOptions(batch_size=4, seed=seed)
        shown = athe_tf.analysis.perturbations(net, (x, y), noisy, options, count=6)
        np.testing.assert_allclose(
            shown.adversarial, noisy(net, x, y, ids=np.arange(6), seed=seed), atol=1e-7
        )
