"""What is computed from flags and logits, against independent arithmetic."""

import itertools

import numpy as np
import pytest

from athe_tf.evaluation.adversarial_examples import choose_examples
from athe_tf.evaluation.inputs import EvaluationInputs
from athe_tf.evaluation.measures import (
    EDGES,
    angle_counts,
    angles,
    calibration,
    confidences,
    describe_angles,
    describe_calibration,
    head_of,
)
from athe_tf.models.features import find_head
from athe_tf.results.intervals import per_class
from athe_tf.saving.opening import victim
from tests.small_runs import tiny_batch, tiny_net

X, Y = tiny_batch(40)


def test_the_calibration_error_is_the_weighted_gap_of_the_bins():
    rng = np.random.default_rng(0)
    confidence, correct = rng.uniform(0.2, 1.0, 500), rng.uniform(size=500) < 0.6
    found = calibration(confidence, correct, bins=8)
    edges = np.linspace(0, 1, 9)
    expected = 0.0
    for low, high in itertools.pairwise(edges):
        members = (confidence > low) & (confidence <= high)
        if members.any():
            expected += members.mean() * abs(confidence[members].mean() - correct[members].mean())
    assert found["ece"] == pytest.approx(expected)
    assert sum(row["count"] for row in found["bins"]) == 500


def test_a_model_that_is_right_as_often_as_it_says_has_no_calibration_error():
    correct = np.arange(100) < 75
    assert calibration(np.full(100, 0.75), correct)["ece"] == pytest.approx(0.0, abs=1e-12)


def test_a_confidence_at_the_edge_of_a_bin_belongs_to_the_lower_one():
    """Bins are open below, as in Guo et al.: with 4 bins, 0.5 and 0.3 share one, 0.51 is in the next."""
    found = calibration([0.5, 0.3, 0.51, 0.0, 1.0], [True, False, True, False, True], bins=4)
    assert [row["count"] for row in found["bins"]] == [1, 2, 1, 1]
    assert [row["accuracy"] for row in found["bins"]] == [0.0, 0.5, 1.0, 1.0]
    # |0 - 0| + 2 |0.4 - 0.5| + |0.51 - 1| + |1 - 1|, over 5 images.
    assert found["ece"] == pytest.approx((0.2 + 0.49) / 5)
    # The published number of bins.
    assert calibration([1 / 15, 1 / 15 + 1e-6], [True, True])["bins"][1]["count"] == 1


def test_confidences_are_those_of_a_softmax_in_float64():
    logits = np.random.default_rng(1).normal(scale=30, size=(20, 4))
    exact = np.exp(logits - logits.max(1, keepdims=True))
    np.testing.assert_allclose(confidences(logits), (exact / exact.sum(1, keepdims=True)).max(1))


def test_classes_without_images_have_no_accuracy():
    assert per_class(np.array([True, False, True]), np.array([2, 2, 0]), 4) == [1.0, None, 0.5, None]


@pytest.mark.parametrize("head", ["he", "mhe"])
def test_angles_are_those_between_features_and_class_weights(head):
    net = tiny_net(head)
    features = np.asarray(find_head(net).features(X), "float64")
    weights = np.asarray(net.layers[-1].kernel, "float64")
    cosines = features @ weights / np.linalg.norm(features, axis=1)[:, None] / np.linalg.norm(weights, axis=0)
    scale = victim(net).scale
    assert head_of(victim(net)) == head
    found = angles(net(X), head, scale)
    np.testing.assert_allclose(found, np.degrees(np.arccos(cosines)), atol=1e-3)
    counts = angle_counts(net(X), Y, head, scale)
    own = np.degrees(np.arccos(cosines))[np.arange(40), Y]
    assert counts["true"] == np.histogram(own, EDGES)[0].tolist()
    degrees = np.degrees(np.arccos(cosines))
    nearest = [np.delete(row, label).min() for row, label in zip(degrees, Y, strict=True)]
    assert counts["nearest_wrong"] == np.histogram(nearest, EDGES)[0].tolist()


def test_a_linear_head_has_no_angles_and_calibration_needs_no_attack():
    inputs = EvaluationInputs.open(victim(tiny_net("linear")), X, Y, "linf", 0.1, 0, 16)
    assert describe_angles(inputs, None) is None
    assert set(describe_calibration(inputs, None)) == {"clean"}


def test_examples_come_from_all_attacks_and_show_no_image_twice_without_need():
    def of(attack, indices):
        count = len(indices)
        return {"index": np.array(indices), "attack": np.array([attack] * count), "norm": np.ones(count)}

    chosen = choose_examples([of("a", [1, 2, 3, 4]), of("b", [1, 5]), of("c", [])], most=4)
    assert sorted(chosen["index"].tolist()) == [1, 2, 3, 5] and set(chosen["attack"]) == {"a", "b"}
    assert sorted(choose_examples([of("a", [1]), of("b", [1])], most=4)["index"].tolist()) == [1, 1]
    assert choose_examples([of("a", [])]) is None
