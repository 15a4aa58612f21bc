"""Evaluation: flags, intervals, worst case, what is not run, and what a report says."""

import json

import numpy as np
import pytest
import tensorflow as tf
from scipy.stats import binomtest

import athe_tf
from athe_tf import attacks
from athe_tf.attacks.engine.attack import Attack
from athe_tf.evaluation.intervals import wilson_interval
from athe_tf.utils.errors import InputError, NotApplicable
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
        linear, (IMAGES, y), attacks=["fgsm", "cw-linf-40"], epsilon=epsilon, dataset="grey", checks=False
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
    report = athe_tf.evaluate(linear, (IMAGES, y), attacks=["fgsm"], epsilon=8 / 255, seed=3, checks=False)
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
    text = str(athe_tf.evaluate(linear, (IMAGES, y), attacks=["fgsm", "pgd-5"], epsilon=0.02, checks=False))
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
    report = athe_tf.evaluate(
        logits_only, (IMAGES, y), attacks=[NeedsFeatures(0.01), "fgsm"], epsilon=0.01, checks=False
    )
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
    settings = {"attacks": ["pgd-3"], "epsilon": 0.03, "max_examples": 25, "checks": False}
    pairs = athe_tf.evaluate(linear, (IMAGES, y), **settings)
    batches = tf.data.Dataset.from_tensor_slices((IMAGES, y)).batch(10)
    stream = athe_tf.evaluate(linear, batches, **settings)
    images = athe_tf.data.ImageSet(IMAGES, y.astype("int64"))
    held = athe_tf.evaluate(linear, images, **settings)
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
        ({"attacks": []}, "There are no attacks"),
        ({"attacks": ["fgsm"], "protocol": "quick"}, "either attacks or a protocol"),
        ({"protocol": "quik"}, "Did you mean 'quick'"),
        ({"protocol": "transfer"}, "needs other models"),
        ({"epsilons": (0.1, 0.0)}, "must be larger than 0"),
        ({"verify_with": ["foolbax"]}, "Did you mean 'foolbox'"),
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

    report = athe_tf.evaluate(
        cosines, (IMAGES, predictions(linear, IMAGES)), attacks=["fgsm"], epsilon=0.01, checks=False
    )
    assert any("Cosine logits at scale 1" in text for text in report.warnings)
    assert "Warning: Cosine logits" in str(report)


def test_attacks_of_another_threat_model_do_not_count_in_the_worst_case(linear):
    y = predictions(linear, IMAGES)
    larger, other = attacks.get("fgsm", epsilon=0.3), attacks.get("pgd-3", epsilon=2.0, norm="l2")
    report = athe_tf.evaluate(
        linear, (IMAGES, y), attacks=["fgsm", larger, other, "spatial-3"], epsilon=0.005, checks=False
    )
    assert [attack.counts for attack in report.attacks] == [True, False, False, False]
    assert report.attacks[1].accuracy < report.worst_case_accuracy == report.attacks[0].accuracy
    assert "another threat model" in str(report)
    assert list(report.to_dict()["flags"]) == ["clean", "fgsm", "fgsm @ 0.3", "pgd-3 @ 2", "spatial-3"]


def exact_epsilons(radius, count):
    """Radii between two neighbouring distances, as far from both as possible: there the verdict is sure."""
    ordered = np.sort(radius)
    gaps = ordered[1:] / ordered[:-1]
    places = np.array_split(np.arange(5, len(gaps) - 5), count)
    chosen = [part[gaps[part].argmax()] for part in places]
    return [float(np.sqrt(ordered[i] * ordered[i + 1])) for i in chosen]


def test_a_curve_is_the_share_of_images_whose_boundary_is_further_away(linear):
    y = predictions(linear, IMAGES)
    radius = radii(linear, IMAGES, y, "linf")
    low, middle, high = exact_epsilons(radius, 3)
    report = athe_tf.evaluate(
        linear,
        (IMAGES, y),
        attacks=["fgsm", "cw-linf-40"],
        epsilon=middle,
        epsilons=(high, low),
        checks=False,
    )
    points = report.to_dict()["curve"]
    assert [point["epsilon"] for point in points] == [0.0, low, middle, high]
    expected = [1.0, *((radius > e).mean() for e in (low, middle, high))]
    np.testing.assert_allclose([point["accuracy"] for point in points], expected)
    assert points[2]["accuracy"] == report.worst_case_accuracy
    assert [a.name for a in report.attacks[:3]] == ["fgsm", *(f"fgsm @ {e:g}" for e in (low, high))]


def test_least_norms_are_in_the_output_and_are_those_of_the_closed_form(linear):
    y = predictions(linear, IMAGES)
    y[:3] = (y[:3] + 1) % 5
    report = athe_tf.evaluate(linear, (IMAGES, y), attacks=["deepfool"], epsilon=0.02, checks=False)
    norms = report.to_dict()["attacks"][0]["norms"]
    assert norms[:3] == [0.0] * 3
    # DeepFool goes two per cent beyond the boundary, and a little more.
    np.testing.assert_allclose(norms[3:], radii(linear, IMAGES, y, "linf")[3:], rtol=0.025, atol=2e-5)


def test_every_class_has_its_accuracies(linear):
    y = predictions(linear, IMAGES)
    y[::7] = (y[::7] + 1) % 5
    report = athe_tf.evaluate(linear, (IMAGES, y), attacks=["cw-linf-20"], epsilon=0.01, checks=False)
    stored = report.to_dict()
    assert stored["labels"] == y.tolist() and stored["classes"] == 5
    for index in range(5):
        mine = y == index
        assert stored["per_class"]["count"][index] == mine.sum()
        assert stored["per_class"]["clean"][index] == pytest.approx(report.correct[mine].mean())
        assert stored["per_class"]["worst_case"][index] == pytest.approx(report.robust[mine].mean())


def test_pictures_show_images_that_fell_and_what_they_became(linear, tmp_path):
    y = predictions(linear, IMAGES)
    report = athe_tf.evaluate(linear, (IMAGES, y), attacks=["fgsm", "pgd-5"], epsilon=0.05, checks=False)
    report.save(tmp_path)
    with np.load(tmp_path / "examples.npz", allow_pickle=False) as stored:
        shown = {name: stored[name] for name in stored.files}
    assert 2 <= len(shown["label"]) <= 10 and set(shown["attack"]) == {"fgsm", "pgd-5"}
    np.testing.assert_array_equal(shown["clean"], IMAGES[shown["index"]])
    np.testing.assert_array_equal(shown["clean_prediction"], shown["label"])
    np.testing.assert_array_equal(predictions(linear, shown["adversarial"]), shown["adversarial_prediction"])
    assert (shown["adversarial_prediction"] != shown["label"]).all()
    moved = np.abs(shown["adversarial"] - shown["clean"]).max(axis=(1, 2, 3))
    np.testing.assert_allclose(moved, shown["norm"], atol=1e-6)
    assert "<html" in report._repr_html_() and "data:image/png" in report.to_html()


def test_a_report_without_attacks_says_that_nothing_is_known(linear):
    class NeverApplies(Attack):
        name = "never"

        def check_victim(self, victim):
            raise NotApplicable("it never applies.")

    report = athe_tf.evaluate(
        linear, (IMAGES, predictions(linear, IMAGES)), attacks=[NeverApplies(0.1)], epsilon=0.1, checks=False
    )
    assert report.worst_case_accuracy is None and "worst case" not in str(report)
    assert "nothing is known of its robustness" in report.to_dict()["verdict"]


def test_an_attack_that_needs_more_classes_is_refused_before_anything_is_run():
    two = linear_model(classes=2)
    ran = []
    with pytest.raises(InputError, match="needs at least 3 classes"):
        athe_tf.evaluate(
            two, (IMAGES, predictions(two, IMAGES)), protocol="pas", finished=ran.append, checks=False
        )
    assert not ran


def test_images_of_another_shape_and_labels_of_another_set_are_refused(linear):
    other = np.zeros((3, 6, 6, 2), "float32")
    with pytest.raises(InputError, match="cannot be called with images of shape"):
        athe_tf.evaluate(linear, (other, np.zeros(3, "int32")), attacks=["fgsm"])

    def callable_model(x):
        return linear(x)

    with pytest.raises(InputError, match="has 5 classes. Received: a label 7"):
        athe_tf.evaluate(callable_model, (IMAGES, np.full(60, 7)), attacks=["fgsm"])

    def one_number(x):
        return linear(x)[:, 0]

    with pytest.raises(InputError, match="one row of logits an image"):
        athe_tf.evaluate(one_number, (IMAGES, np.zeros(60, "int32")), attacks=["fgsm"])


def test_probabilities_can_be_attacked_by_their_logarithms_and_the_report_says_so(linear):
    softened = linear_model(scale=0.1)  # its softmax is not rounded to 0 and 1

    def softmax_model(x):
        return tf.nn.softmax(softened(x))

    y = predictions(softened, IMAGES)
    settings = {"attacks": ["cw-linf-20"], "epsilon": 0.02, "checks": False}
    report = athe_tf.evaluate(softmax_model, (IMAGES, y), probabilities=True, **settings)
    plain = athe_tf.evaluate(softened, (IMAGES, y), **settings)
    np.testing.assert_array_equal(report.robust, plain.robust)
    assert any("outputs probabilities" in text for text in report.warnings)
    assert "Read the warnings" in report.to_dict()["verdict"]
