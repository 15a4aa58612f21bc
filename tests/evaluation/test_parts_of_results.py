"""What an evaluation computes on the way to a `Result`, on arrays and models that are written down."""

import types

import numpy as np
import pytest
import tensorflow as tf

import athe_tf
from athe_tf.attacks.engine.results import AttackResult, Stage, misclassified
from athe_tf.evaluation.adversarial_examples import examples_of
from athe_tf.evaluation.attack_run import _accuracy_after_stages
from athe_tf.evaluation.converted_model import _differences, _masking
from athe_tf.evaluation.inputs import read_images
from athe_tf.evaluation.model_diagnosis import (
    MAX_EXAMPLES,
    _kind_of,
    find_better_inputs,
    predict_clean_images,
)
from athe_tf.evaluation.protocols import AttackSpec
from athe_tf.evaluation.state_folder import FinishedAttack, merged
from athe_tf.models.victim import Victim
from athe_tf.results.pictures import EXAMPLE_ARRAYS
from tests.linear_case import gray_images, linear_model, predictions, radii


def cascade():
    """Six images: wrong when clean; lost in round 1 of the first stage, in 2, in 3 of the second; robust."""
    result = AttackResult.before(np.zeros((6, 1, 1, 1)), np.array([True, False, False, False, False, False]))
    result.success = np.array([True, True, True, True, True, False])
    result.rounds = np.array([0, 1, 2, 3, 4, 4])
    result.norm = np.array([0.0, 0.1, 0.2, 0.3, 0.4, np.inf], np.float32)
    result.stages = [Stage("first", 0, 2, 1.234), Stage("second", 2, 2, 5.0)]
    return result


def test_an_image_counts_for_the_stage_in_whose_last_round_it_fell():
    result = cascade()
    assert result.robust_after(result.stages[0]).tolist() == [False, False, False, True, True, True]
    assert result.robust_after(result.stages[1]).tolist() == [False] * 5 + [True]
    assert _accuracy_after_stages(result) == [
        {"name": "first", "accuracy": 0.5, "seconds": 1.23},
        {"name": "second", "accuracy": 1 / 6, "seconds": 5.0},
    ]
    # Those that were attacked when a round began.
    assert [result.survivors(index).tolist() for index in range(4)] == [
        [1, 2, 3, 4, 5], [2, 3, 4, 5], [3, 4, 5], [4, 5]
    ]  # fmt: skip
    assert result.found.tolist() == [1, 2, 3, 4]
    result.stages = result.stages[:1]
    assert _accuracy_after_stages(result) == []


def test_shards_are_put_back_in_the_order_of_the_images():
    whole, rows = cascade(), [np.array([0, 3]), np.array([1, 4]), np.array([2, 5])]
    parts = []
    for number, own in enumerate(rows):
        examples = dict.fromkeys(EXAMPLE_ARRAYS, own)
        flags = own % 2 == 1, own == 4
        parts.append(FinishedAttack(whole.part(own), *flags, 1.5 * (number + 1), examples).arrays())
    found = FinishedAttack.from_arrays(merged(parts, rows), cascade())
    for name in ("success", "rounds", "norm", "queries"):
        np.testing.assert_array_equal(getattr(found.result, name), getattr(whole, name))
    assert found.eight_bit.tolist() == [False, True, False, True, False, True]
    assert found.nan_logits.tolist() == [False] * 4 + [True, False]
    assert found.seconds == pytest.approx(9.0)
    assert [stage.seconds for stage in found.result.stages] == pytest.approx([3 * 1.234, 15.0])
    assert found.examples["index"].tolist() == found.examples["label"].tolist() == list(range(6))
    never = FinishedAttack(not_run="no gradients").arrays()
    assert (
        FinishedAttack.from_arrays(merged([parts[0], never], rows[:2]), cascade()).not_run == "no gradients"
    )


def test_logits_that_are_not_finite_are_wrong():
    logits = np.array([[2.0, 1.0], [np.nan, 3.0], [1.0, np.inf], [1.0, 1.0]])
    assert misclassified(logits, [0, 1, 1, 0]).numpy().tolist() == [False, True, True, False]


def test_an_attack_on_the_first_images_leaves_the_others_as_they_are():
    """Six clean errors, four of them among the images that are not attacked."""
    model, images = linear_model(), gray_images(60)
    y = predictions(model, images)
    wrong = [3, 11, 25, 40, 41, 59]
    y[wrong] = (y[wrong] + 1) % 5
    epsilon = float(np.median(radii(model, images, y, "linf")))
    settings = {"epsilon": epsilon, "checks": False, "batch_size": 16}
    limited = athe_tf.evaluate(model, (images, y), attacks=[AttackSpec("fgsm", limit=20)], **settings)
    whole = athe_tf.evaluate(model, (images, y), attacks=["fgsm"], **settings)
    np.testing.assert_array_equal(limited["fgsm"].robust, whole["fgsm"].robust[:20])
    assert limited["fgsm"].settings == {**whole["fgsm"].settings, "images": 20}
    expected = whole.correct.copy()
    expected[:20] = whole.robust[:20]
    np.testing.assert_array_equal(limited.robust, expected)
    assert not limited.robust[wrong].any() and limited.robust[20:].sum() == 36
    more = athe_tf.evaluate(model, (images, y), attacks=[AttackSpec("fgsm", limit=60)], **settings)
    assert "images" not in more["fgsm"].settings and len(more["fgsm"].robust) == 60


def first_pixel(x):
    """Two logits: the first pixel, and a half."""
    return tf.stack([x[:, 0, 0, 0], tf.fill([tf.shape(x)[0]], 0.5)], axis=1)


def test_all_images_are_predicted_and_the_first_logits_kept():
    count = MAX_EXAMPLES + 30
    images = np.linspace(0, 1, count, dtype=np.float32).reshape(-1, 1, 1, 1)
    labels = np.zeros(count, np.int32)
    found = predict_clean_images(Victim(first_pixel, num_classes=2), images, labels, 300)
    np.testing.assert_array_equal(found.correct, images.ravel() >= 0.5)
    np.testing.assert_allclose(found.logits[:, 0], images.ravel()[:MAX_EXAMPLES])
    larger = np.maximum(images.ravel(), 0.5) - np.minimum(images.ravel(), 0.5)
    np.testing.assert_allclose(found.confidence, 1 / (1 + np.exp(-larger)), rtol=1e-5)
    assert MAX_EXAMPLES == 1000 and len(found.confidence) == count


def test_the_first_ten_adversarial_examples_are_kept_with_their_places_in_the_data():
    images = np.full((40, 1, 1, 1), 0.75, np.float32)
    labels = np.zeros(40, np.int32)
    inputs = types.SimpleNamespace(images=images, labels=labels, victim=Victim(first_pixel, num_classes=2))
    rows = np.arange(1, 40, 2)  # a shard
    result = AttackResult.before(images[rows], np.zeros(20, bool))
    result.success[2:14] = True
    result.norm[2:14] = 0.5
    result.x_adv[2:14] = 0.25
    found = examples_of(result, rows, inputs, "mine")
    assert found["index"].tolist() == list(range(5, 25, 2)) and set(found["attack"]) == {"mine"}
    assert (
        found["clean"].ravel().tolist() == [0.75] * 10
        and found["adversarial"].ravel().tolist() == [0.25] * 10
    )
    assert (
        found["clean_prediction"].tolist() == [0] * 10
        and found["adversarial_prediction"].tolist() == [1] * 10
    )
    assert found["norm"].tolist() == [0.5] * 10 and found["label"].tolist() == [0] * 10


def test_a_file_is_compared_with_its_parent_image_by_image():
    file, parent = (
        np.array([[1.0, 0.0], [0.0, 2.0], [0.0, 1.0]]),
        np.array([[1.0, 0.5], [3.0, 2.0], [0.0, 1.0]]),
    )
    assert _differences(file, parent) == {
        "same_predictions": pytest.approx(2 / 3), "mean_difference": pytest.approx(3.5 / 6),
        "largest_difference": 3.0,
    }  # fmt: skip


def test_only_a_file_that_seems_more_robust_than_its_parent_is_suspicious():
    assert _masking(0.5, 0.5) == _masking(0.4, 0.5) == _masking(None, 0.5) == _masking(0.5, None) == []
    (warning,) = _masking(0.51, 0.5)
    assert "more robust than its parent (51.0% against 50.0%)" in warning


def test_outputs_between_minus_one_and_one_are_cosines():
    assert _kind_of(np.array([[1.0, -1.0]])) == "cosines without a scale"
    assert _kind_of(np.array([[1.001, -1.0]])) == _kind_of(np.array([[0.5, -1.2]])) == "logits"
    assert _kind_of(np.array([[0.25, 0.75]])) == "probabilities"


# 200 images: 60 right of them have a Wilson interval that ends at 36.7%.
@pytest.mark.parametrize("right, better", [(79, None), (80, None), (81, "scaled to [0, 255]")])
def test_other_inputs_must_be_better_by_a_tenth(right, better, monkeypatch):
    accuracies = {2.0: 0.3, 1.0: 0.3, 255.0: right / 200}
    monkeypatch.setattr(
        "athe_tf.evaluation.model_diagnosis._accuracy",
        lambda victim, x, y: accuracies.get(float(x.max()), 0.0),
    )
    images = np.ones((200, 1, 1, 1), np.float32)
    found = find_better_inputs(None, images, np.zeros(200), accuracy=0.3)
    assert (found and found[0]) == better


def test_as_many_images_are_read_as_asked_for_from_any_kind_of_data():
    images, labels = np.zeros((10, 1, 1, 1), np.float32), np.arange(10)
    batches = tf.data.Dataset.from_tensor_slices((images, labels)).batch(4)
    for data in ((images, labels), batches, athe_tf.data.ImageSet(images, labels)):
        for wanted in (3, 4, 5, 8, 10, 11, None):
            assert len(read_images(data, wanted, 10)[1]) == min(wanted or 10, 10)
        np.testing.assert_array_equal(read_images(data, 7, 10)[1], np.arange(7))
