"""Evaluation: flags, intervals, worst case, what is not run, and what a report says."""

import json

import numpy as np
import pytest
import tensorflow as tf
from scipy.stats import binomtest

import athe_tf
from athe_tf import attacks
from athe_tf.attacks.base import Attack
from athe_tf.errors import InputError, NotApplicable
from athe_tf.evaluation.statistics import wilson_interval
from tests.linear_case import grey_images, linear_model, predictions, radii

IMAGES = grey_images()


@pytest.fixture(scope="module")
def linear():
    return linear_model()


@pytest.mark.parametrize("successes, trials", [(0, 10), (10, 10), (3, 17), (510, 1000)])
def test_wilson_interval_equals_scipys(successes, trials):
    low, high = binomtest(successes, trials).proportion_ci(method="wilson")
    np.testing.assert_allclose(wilson_interval(successes, trials), (low, high), rtol=1e-9, atol=1e-12)


def test_an_accuracy_is_over_all_images_and_the_worst_case_over_all_attacks(linear):
    y = predictions(linear, IMAGES)
    y[:6] = (y[:6] + 1) % 5
    radius = radii(linear, IMAGES, y, "linf")
    epsilon = float(np.median(radius[6:]))
    report = athe_tf.evaluate(
        linear, (IMAGES, y), attacks=["fgsm", "cw-linf-40"], epsilon=epsilon, dataset="grey"
    )
    assert report.clean_accuracy == pytest.approx(54 / 60)
    flags = [attack.robust for attack in report.attacks]
    np.testing.assert_array_equal(report.robust, report.correct & flags[0] & flags[1])
    assert not report.robust[:6].any()
    assert report.worst_case_accuracy <= min(attack.accuracy for attack in report.attacks)
    clear = abs(radius / epsilon - 1) > 0.03
    np.testing.assert_array_equal(report["cw-linf-40"].robust[clear], (radius > epsilon)[clear])


def test_the_json_is_that_of_the_design(linear, tmp_path):
    y = predictions(linear, IMAGES)
    report = athe_tf.evaluate(linear, (IMAGES, y), attacks=["fgsm"], epsilon=8 / 255, seed=3)
    stored = json.loads(report.to_json())
    assert stored["epsilon"] == "8/255" and stored["norm"] == "linf" and stored["seed"] == 3
    assert stored["examples"] == 60 and stored["clean_accuracy"] == 1.0
    attack = stored["attacks"][0]
    assert attack["name"] == "fgsm" and attack["accuracy"] == report["fgsm"].accuracy
    assert attack["gradients"] == 60 and attack["settings"]["loss"] == "ce"
    assert stored["flags"]["fgsm"].count("1") == report["fgsm"].robust.sum()
    assert {"athe_tf", "tensorflow", "keras"} <= set(stored["versions"])


def test_the_table_shows_every_attack_with_its_interval(linear):
    y = predictions(linear, IMAGES)
    text = str(athe_tf.evaluate(linear, (IMAGES, y), attacks=["fgsm", "pgd-5"], epsilon=0.02))
    for word in ("clean", "fgsm", "pgd-5", "worst case", "95 % interval", "epsilon 0.02"):
        assert word in text


def test_an_attack_that_needs_more_than_the_victim_offers_is_not_run_and_says_why(linear):
    class NeedsFeatures(Attack):
        name = "needs-features"

        def check_victim(self, victim):
            victim.require_features("This attack")

    def logits_only(x):
        return linear(x)

    y = predictions(linear, IMAGES)
    report = athe_tf.evaluate(logits_only, (IMAGES, y), attacks=[NeedsFeatures(0.1), "fgsm"], epsilon=0.01)
    assert report["needs-features"].robust is None
    assert "offers logits only" in report["needs-features"].reason and "not run" in str(report)
    assert report.worst_case_accuracy == report["fgsm"].accuracy
    assert json.loads(report.to_json())["attacks"][0]["not_run"]


def test_a_model_without_gradients_is_not_silently_robust(linear):
    def rounded(x):
        return linear(tf.stop_gradient(x))

    with pytest.raises(NotApplicable, match="no gradient attack can be run"):
        attacks.get("fgsm", epsilon=0.1).run(rounded, IMAGES, predictions(linear, IMAGES))


def test_datasets_and_image_sets_are_data_too(linear):
    y = predictions(linear, IMAGES)
    pairs = athe_tf.evaluate(linear, (IMAGES, y), attacks=["pgd-3"], epsilon=0.03, max_examples=25)
    batches = tf.data.Dataset.from_tensor_slices((IMAGES, y)).batch(10)
    stream = athe_tf.evaluate(linear, batches, attacks=["pgd-3"], epsilon=0.03, max_examples=25)
    images = athe_tf.data.ImageSet(IMAGES, y.astype("int64"))
    held = athe_tf.evaluate(linear, images, attacks=["pgd-3"], epsilon=0.03, max_examples=25)
    assert pairs.examples == 25
    np.testing.assert_array_equal(pairs.robust, stream.robust)
    np.testing.assert_array_equal(pairs.robust, held.robust)


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"attacks": ["pdg-20"]}, "Did you mean 'pgd'"),
        ({"attacks": [3]}, "Expected the name of an attack"),
        ({"epsilon": 8}, "Did you mean 8/255"),
        ({"norm": "l3"}, "Received: norm='l3'"),
    ],
)
def test_impossible_requests_are_refused(linear, kwargs, message):
    with pytest.raises(InputError, match=message):
        athe_tf.evaluate(linear, (IMAGES, predictions(linear, IMAGES)), **kwargs)


def test_an_empty_data_set_is_refused(linear):
    empty = tf.data.Dataset.from_tensor_slices((IMAGES[:0], np.zeros(0, "int32"))).batch(4)
    with pytest.raises(InputError, match="no images"):
        athe_tf.evaluate(linear, empty)


def test_probabilities_are_refused_and_explained(linear):
    def softmax_model(x):
        return tf.nn.softmax(linear(x))

    with pytest.raises(InputError, match="look like probabilities.*Remove the softmax"):
        athe_tf.evaluate(softmax_model, (IMAGES, predictions(linear, IMAGES)), attacks=["fgsm"])


def test_raw_cosines_are_named_in_the_report(linear):
    def cosines(x):
        return tf.tanh(0.1 * linear(x))

    report = athe_tf.evaluate(cosines, (IMAGES, predictions(linear, IMAGES)), attacks=["fgsm"], epsilon=0.01)
    assert any("Cosine logits at scale 1" in text for text in report.warnings)
    assert "Warning: Cosine logits" in str(report)


def test_attacks_of_another_threat_model_do_not_count_in_the_worst_case(linear):
    y = predictions(linear, IMAGES)
    larger, other = attacks.get("fgsm", epsilon=0.3), attacks.get("pgd-3", epsilon=2.0, norm="l2")
    report = athe_tf.evaluate(
        linear, (IMAGES, y), attacks=["fgsm", larger, other, "spatial-3"], epsilon=0.005
    )
    assert [attack.counts for attack in report.attacks] == [True, False, False, False]
    assert report.attacks[1].accuracy < report.worst_case_accuracy == report.attacks[0].accuracy
    assert "another threat model" in str(report)
