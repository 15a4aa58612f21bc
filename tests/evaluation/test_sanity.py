"""The sanity checks: an honest model passes, and each way of looking robust without being it is found."""

import json

import numpy as np
import pytest
import tensorflow as tf

import athe_tf
from athe_tf.evaluation import sanity
from athe_tf.evaluation.inputs import EvaluationInputs
from athe_tf.evaluation.sanity import CHECKS, SanityProbe, run_checks
from athe_tf.report.reading import schema
from athe_tf.results.attack_outcome import AttackOutcome
from athe_tf.results.json_files import check_schema
from athe_tf.saving.opening import victim
from tests.linear_case import gray_images, linear_model, predictions, radii

IMAGES = gray_images(80)
LINEAR = linear_model()
LABELS = predictions(LINEAR, IMAGES)
# Half of the images can be moved across their boundary.
EPSILON = float(np.median(radii(LINEAR, IMAGES, LABELS, "linf")))


def probe_of(model, labels=LABELS, epsilon=EPSILON, outcomes=(), **settings):
    inputs = EvaluationInputs.open(victim(model, num_classes=5), IMAGES, labels, "linf", epsilon, 0, 40)
    return SanityProbe(inputs, list(outcomes), **settings)


def status(function, probe):
    return function(probe).status


@tf.custom_gradient
def backwards(x):
    return tf.identity(x), lambda upstream: -upstream


@tf.custom_gradient
def flat(x):
    return tf.identity(x), tf.zeros_like


def test_an_honest_model_passes_all_checks_and_the_numbers_are_there():
    result = athe_tf.evaluate(LINEAR, (IMAGES, LABELS), attacks=["cw-linf-40"], epsilon=EPSILON)
    checks = {check["name"]: check for check in result.to_dict()["checks"]}
    assert list(checks) == list(CHECKS)
    failed = {name: check["detail"] for name, check in checks.items() if check["status"] == "failed"}
    assert not failed
    not_run = {name for name, check in checks.items() if check["status"] == "not run"}
    assert not_run == {"a larger epsilon does not help the defender", "independent code agrees"}
    assert checks["a huge epsilon reaches zero accuracy"]["numbers"]["accuracy"] == 0.0
    noise = checks["random noise is weaker than FGSM"]["numbers"]
    # In 40 dimensions a random direction does almost nothing of what the worst one does.
    assert noise["random noise"] > noise["FGSM"] + 0.2
    cost = result.settings["cost_of_checks"]
    assert cost["images"] == 80 and cost["gradients"] > 80 and "Sanity checks: 16 passed" in str(result)
    assert set(result.calibration) == {"clean", "adversarial"}
    assert result.calibration["adversarial"]["examples"] == 80
    check_schema(json.loads(result.to_json()), schema("evaluation"))


def test_gradients_that_point_the_wrong_way_are_found():
    def model(x):
        return LINEAR(backwards(x))

    probe = probe_of(model, epsilon=6 * EPSILON)
    probe.longer_pgd = probe.sweep = probe.pgd  # all of them climb the wrong way
    assert status(sanity.noise_is_weaker, probe) == "failed"
    assert status(sanity.black_box_is_weaker, probe) == "failed"
    assert status(sanity.huge_epsilon_reaches_zero, probe) == "failed"


def test_gradients_of_zero_are_found():
    def model(x):
        return LINEAR(flat(x))

    check = sanity.gradients_are_usable(probe_of(model))
    assert check.status == "failed" and check.numbers["zero"] == 1.0


def test_a_model_without_gradients_fails_where_it_should_and_is_not_run_elsewhere():
    def model(x):
        return LINEAR(tf.stop_gradient(x))

    checks, _ = run_checks(probe_of(model))
    found = {check.name: check.status for check in checks}
    assert found["gradients are nonzero and finite"] == "failed"
    assert found["FGSM is weaker than PGD"] == "not run"
    assert found["outputs are logits"] == "passed"


def test_saturated_margins_are_found():
    check = sanity.margins_are_not_saturated(probe_of(linear_model(scale=100.0)))
    logits = 100 * np.asarray(LINEAR(IMAGES), "float64")
    top = np.sort(logits, axis=1)
    assert check.status == "failed"
    assert check.numbers["share"] == pytest.approx((top[:, -1] - top[:, -2] >= 16).mean(), abs=0.02)


def test_cosines_and_probabilities_are_not_logits():
    def cosines(x):
        return tf.tanh(0.1 * LINEAR(x))

    def probabilities(x):
        return tf.nn.softmax(LINEAR(x))

    for model, word in ((cosines, "cosines"), (probabilities, "probabilities")):
        check = sanity.outputs_are_logits(probe_of(model))
        assert check.status == "failed" and word in check.detail


def test_what_another_scale_finds_is_found():
    """At a thousandfold scale, cross-entropy is rounded to zero and its gradient with it."""
    probe = probe_of(linear_model(scale=1000.0))
    check = sanity.scale_does_not_matter(probe)
    assert check.status == "failed"
    assert check.numbers["overestimate at scale 1"] > 0.2 and check.numbers["missed"] > 0.2
    # An attack on the margin, which does not depend on the scale, leaves nothing to be found.
    margin = athe_tf.attacks.get("cw-linf-20", epsilon=EPSILON).run(probe.inputs.victim, IMAGES, LABELS)
    probe.noise = probe.fgsm = probe.longer_pgd = probe.square = probe.pgd
    probe.outcomes = [AttackOutcome("cw-linf-20", ~margin.success, norms=margin.norm)]
    assert status(sanity.scale_does_not_matter, probe) == "passed"
    assert status(sanity.attacks_are_strong_enough, probe) == "passed"
    probe.outcomes = [AttackOutcome("weak", np.ones(80, bool), norms=margin.norm)]
    weak = sanity.attacks_are_strong_enough(probe)
    assert weak.status == "failed" and "Use more restarts" in weak.detail


def test_images_that_depend_on_their_batch_are_found():
    def model(x):
        logits = LINEAR(x)
        return logits - tf.reduce_mean(logits, axis=0, keepdims=True)

    assert status(sanity.images_are_independent, probe_of(model)) == "failed"
    assert status(sanity.images_are_independent, probe_of(LINEAR)) == "passed"


def test_a_randomised_model_is_named_in_the_report():
    def model(x):
        return LINEAR(x) + tf.random.normal([tf.shape(x)[0], 5], stddev=0.3)

    probe = probe_of(model)
    assert status(sanity.model_is_deterministic, probe) == "failed"
    result = athe_tf.evaluate(
        model, (IMAGES, LABELS), attacks=["fgsm"], epsilon=EPSILON, checks=False, max_examples=20
    )
    assert any("The model is randomized" in text for text in result.warnings)
    assert "Read the warnings" in result.to_dict()["verdict"]


def test_a_model_that_wants_normalized_inputs_is_named_in_the_report():
    rng = np.random.default_rng(0)
    kernel = tf.constant(rng.normal(size=(40, 5)), tf.float32)

    def model(x):
        return tf.reshape(x, [-1, 40]) @ kernel

    inside = (IMAGES - IMAGES.mean((0, 1, 2))) / IMAGES.std((0, 1, 2))
    labels = np.asarray(model(inside)).argmax(1).astype("int32")
    probe = probe_of(model, labels)
    check = sanity.inputs_are_images(probe)
    assert check.status == "failed" and check.numbers["accuracy otherwise"] == 1.0
    assert any("expect other inputs" in text for text in probe.inputs.diagnosis.warnings)


def test_accuracies_that_rise_with_epsilon_are_found():
    flags = np.arange(80) < 40
    outcomes = [
        AttackOutcome("pgd-5", flags, epsilon=0.1),
        AttackOutcome("pgd-5 @ 0.2", np.ones(80, bool), epsilon=0.2),
        AttackOutcome("fgsm", flags, epsilon=0.1),
    ]
    check = sanity.larger_epsilon_is_stronger(probe_of(LINEAR, outcomes=outcomes))
    assert check.status == "failed" and check.numbers["largest rise"] == pytest.approx(0.5)


def test_stronger_independent_code_is_found():
    entry = {"tool": "x", "attack": "pgd-20", "ours": 0.5, "theirs": 0.4, "difference": 0.1}
    assert status(sanity.independent_code_agrees, probe_of(LINEAR, verify=[entry])) == "failed"


def test_a_model_that_is_never_right_has_nothing_to_check():
    checks, _ = run_checks(probe_of(LINEAR, (LABELS + 1) % 5))
    assert {check.status for check in checks} == {"not run"}


@pytest.mark.parametrize(
    ("weak_alone", "strong_alone", "status"),
    [
        (0, 30, "passed"),
        (2, 0, "passed"),
        (3, 0, "passed"),
        (5, 0, "failed"),
        (12, 5, "passed"),
        (40, 20, "failed"),
    ],
)
def test_an_order_is_broken_by_what_chance_does_not_explain(weak_alone, strong_alone, status):
    by_weak, by_strong = np.zeros(200, bool), np.zeros(200, bool)
    by_weak[:weak_alone] = True
    by_strong[weak_alone : weak_alone + strong_alone] = True
    both = slice(100, 150)
    by_weak[both] = by_strong[both] = True
    check = sanity._ordered(("weak", by_weak), ("strong", by_strong))
    assert check.status == status
    np.testing.assert_allclose(check.numbers["weak"], 1 - (50 + weak_alone) / 200)
