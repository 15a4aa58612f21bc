"""The victim of benchmarks/attackbench.py counts exactly, and optimality is what the definition says."""

import json
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

import athe_tf
from benchmarks.attackbench import Bench, measure, optimality, rows, summary
from benchmarks.counting_victim import BUDGET, CountingVictim
from benchmarks.timing import table
from tests.linear_case import gray_images, linear_model, predictions, radii

ROOT = pathlib.Path(__file__).parents[1]
FILES = ROOT / "results" / "attackbench"
MEASURED = list(FILES.glob("*.json"))
LINEAR = linear_model()
IMAGES = gray_images(12)
LABELS = predictions(LINEAR, IMAGES)


def asked(victim, images):
    with tf.GradientTape() as tape:
        images = tf.constant(images)
        tape.watch(images)
        loss = tf.reduce_sum(
            keras.losses.sparse_categorical_crossentropy(
                tf.argmax(victim(images), 1), victim(images), from_logits=True
            )
        )
    return tape.gradient(loss, images).numpy()


def test_passes_are_counted_for_each_image_in_any_order_and_batch():
    victim = CountingVictim(LINEAR, IMAGES, LABELS, "linf")
    victim(victim.images)
    victim(victim.images[[3, 1]] + 0.1 * np.sign(victim.images[[3, 1]] - 0.5) * -1.0)
    asked(victim, victim.images[[1, 5]])
    assert victim.forward.tolist() == [1, 4, 1, 2, 1, 3] + 6 * [1]
    assert victim.backward.tolist() == [0, 1, 0, 0, 0, 1] + 6 * [0]
    np.testing.assert_array_equal(np.asarray(victim(victim.images)), np.asarray(LINEAR(IMAGES)))


def test_the_budget_ends_answers_and_gradients():
    victim = CountingVictim(LINEAR, IMAGES, LABELS, "linf", budget=2)
    wrong = victim.images.copy()
    wrong[:, :-1] = 1 - wrong[:, :-1]
    for _ in range(2):
        victim(victim.images)
    assert (np.asarray(victim(wrong)).argmax(1) == LABELS).all() and np.isinf(victim.distance).all()
    assert not asked(victim, wrong).any() and (victim.forward + victim.backward == 2).all()


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_the_nearest_adversarial_query_counts(norm):
    victim = CountingVictim(LINEAR, IMAGES, LABELS, norm)
    order = {"linf": np.inf, "l2": 2, "l1": 1}[norm]
    moved = victim.images.copy()
    moved[:, :-1] = 1 - moved[:, :-1]
    outside = moved.copy()
    outside[:, 0] = 1.5
    for images in (outside, moved):
        victim(images)
    changed = predictions(LINEAR, moved[:, :-1]) != LABELS
    expected = np.linalg.norm((moved[:, :-1] - IMAGES).reshape(12, -1).astype("float64"), order, axis=1)
    np.testing.assert_allclose(victim.distance, np.where(changed, expected, np.inf), rtol=1e-6)


def test_an_attack_of_ours_finds_the_exact_distances_of_a_linear_model():
    victim = CountingVictim(LINEAR, IMAGES, LABELS, "linf")
    exact = radii(LINEAR, IMAGES, LABELS, "linf")
    attack = athe_tf.attacks.get("fmn-100", epsilon=float(np.median(exact)))
    result = attack.run(athe_tf.victim(victim, num_classes=5), victim.images, LABELS)
    np.testing.assert_allclose(victim.distance, exact, rtol=0.05)
    np.testing.assert_array_equal(victim.forward, result.queries)
    np.testing.assert_array_equal(victim.backward, result.gradients)


def test_optimality_is_that_of_the_definition():
    best, half = np.array([0.0, 1.0, 2.0, 4.0]), np.array([0.0, 2.0, 4.0, np.inf])
    found = optimality({"best": best, "half": half})
    # d_max = 4: areas 7/4 and (0 + 2 + 4 + 4)/4, and the worst one 3/4 * 4.
    assert found == {"best": 1.0, "half": pytest.approx(1 - (2.5 - 1.75) / (3.0 - 1.75))}


def test_the_table_has_every_attack_and_leaves_out_what_failed():
    entry = {"passes": 3.0, "seconds": 1.0, "problem": ""}
    found = {
        "a": {**entry, "distances": [0.0, 0.2, 1.0]},
        "b": {**entry, "distances": [0.0, 0.6, np.inf]},
        "c": {**entry, "distances": [0.0, 0.6, np.inf], "problem": "failed"},
    }
    lines = rows(found, 0.5)
    assert [line[0] for line in lines[1:]] == ["a", "b"]
    assert lines[1][1:4] == ("1.000", "100%", "33.3%") and lines[2][1:4] == ("0.500", "67%", "66.7%")


def test_the_summary_averages_over_models_and_leaves_out_what_failed(tmp_path):
    entry = {"passes": 2.0, "seconds": 1.0, "problem": ""}
    good, poor = {**entry, "distances": [1.0, 2.0]}, {**entry, "passes": 4.0, "distances": [1.5, np.inf]}
    (tmp_path / "digits.first.l2.json").write_text(json.dumps({"b": poor, "a": good}))
    (tmp_path / "digits.second.l2.json").write_text(json.dumps({"b": good, "a": {**poor, "problem": "no"}}))
    (tmp_path / "cifar10.first.l2.json").write_text(json.dumps({"a": poor}))
    (tmp_path / "digits.first.l1.json").write_text(json.dumps({"a": poor}))
    # d_max = 2: areas 1.5 and 1.75, and the worst one 2.
    assert summary(tmp_path, "digits", "l2") == [
        ("attack", "first", "second", "mean", "passes", "seconds"),
        ("a", "1.000", "-", "1.000", "2", "1"),
        ("b", "0.500", "1.000", "0.750", "3", "1"),
    ]


@pytest.mark.parametrize("dataset, norm", sorted({tuple(path.name.split(".")[::2]) for path in MEASURED}))
def test_the_tables_of_the_docs_are_those_of_the_files(dataset, norm):
    page = (ROOT / "docs" / "fast_evaluation.md").read_text(encoding="utf-8")
    assert table(summary(FILES, dataset, norm)) in page


def test_attacks_with_a_fixed_radius_share_the_radii():
    bench = Bench(CountingVictim(LINEAR, IMAGES, LABELS, "linf"), "linf", 0.1)
    seen = []
    bench.at_radii(lambda radius: lambda x, y: seen.append(radius))(None, None)
    assert seen[0] == pytest.approx(0.025) and seen[-1] == pytest.approx(0.3) and len(seen) == 10
    assert BUDGET == 2000


def test_what_was_measured_is_kept_and_not_repeated(tmp_path, monkeypatch):
    bench, asked = Bench(CountingVictim(LINEAR, IMAGES, LABELS, "linf"), "linf", 0.1), []

    def craft(x, y):
        asked.append(1)
        bench.victim(x)

    def failing(x, y):
        raise ValueError("not on this model")

    monkeypatch.setattr(Bench, "attacks", lambda _: {"mine": craft, "theirs": failing})
    first = measure(bench, "", tmp_path / "kept" / "linf.json")
    assert first["mine"]["passes"] == 1.0 and first["theirs"]["problem"] == "ValueError: not on this model"
    assert measure(bench, "", tmp_path / "kept" / "linf.json").keys() == first.keys() and asked == [1]
