"""What a `Result` says, from flags that are written down by hand; nothing here needs TensorFlow."""

import json

import numpy as np
import pytest

from athe_tf.results.attack_outcome import AttackOutcome
from athe_tf.results.intervals import interval_of, wilson_interval
from athe_tf.results.pictures import EXAMPLE_ARRAYS
from athe_tf.results.result import Result
from athe_tf.utils.errors import InputError


def bits(text):
    """Flags from a text: `1` is correct."""
    return np.array([letter == "1" for letter in text])


def outcome(name, flags, **settings):
    defaults = {"epsilon": 0.1, "norm": "linf", "norms": np.full(len(flags), 0.1)}
    return AttackOutcome(name, bits(flags), **(defaults | settings))


def result(correct, *attacks, **settings):
    return Result("m", "data", "linf", 0.1, 0, bits(correct), list(attacks), **settings)


def line_of(table, name):
    """The words of a line of the table."""
    return next(line for line in table.splitlines() if line.startswith(f"{name} ")).split()


# The last two of eight images are wrong when clean, and this attack was run on the first four only.
PARTIAL = outcome("pgd-20", "1011")


def test_a_wrong_image_that_no_attack_was_run_on_is_not_robust():
    found = result("11111100", PARTIAL)
    np.testing.assert_array_equal(found.robust, bits("10111100"))
    assert found.worst_case_accuracy == 5 / 8
    assert found.to_dict()["worst_case_accuracy"] == 5 / 8
    # Wilson's interval of 5 of 8, from its formula with z = 1.96: (0.625 + 0.24 ± 0.3357) / 1.4802
    assert found.to_dict()["worst_case_interval"] == pytest.approx([0.3057, 0.8632], abs=1e-4)


def test_the_accuracy_of_an_attack_is_over_its_own_images():
    entry = result("11111100", PARTIAL).to_dict()["attacks"][0]
    assert (entry["accuracy"], entry["examples"]) == (3 / 4, 4)
    assert entry["interval"] == pytest.approx([0.3006, 0.9544], abs=1e-4)
    assert result("11111100", PARTIAL).to_dict()["flags"] == {"clean": "11111100", "pgd-20": "1011"}


def test_a_curve_begins_at_the_clean_accuracy_and_wrong_images_stay_wrong():
    larger = outcome("pgd-20 @ 0.2", "0010", epsilon=0.2)
    curve = result("11111100", PARTIAL, larger).curve
    assert [(point["epsilon"], point["accuracy"]) for point in curve] == [
        (0.0, 6 / 8), (0.1, 5 / 8), (0.2, 3 / 8)
    ]  # fmt: skip
    for point, survivors in zip(curve, (6, 5, 3), strict=True):
        assert point["interval"] == list(wilson_interval(survivors, 8))


def test_a_curve_never_rises_with_epsilon():
    """An image that is lost at a smaller radius is lost at the larger one too."""
    small, large = outcome("fgsm @ 0.1", "0111"), outcome("fgsm @ 0.2", "1011", epsilon=0.2)
    curve = result("1111", small, large).curve
    assert [point["accuracy"] for point in curve] == [1.0, 0.75, 0.5]


def test_a_curve_is_made_of_attacks_that_stay_in_the_ball_of_its_norm():
    others = [
        outcome("l2", "0000", norm="l2", epsilon=0.05),
        outcome("rotations", "0000", in_ball=False, epsilon=0.05),
        AttackOutcome("never", None, not_run="no gradients", epsilon=0.05, norm="linf"),
    ]
    assert result("1111", outcome("fgsm", "0111"), *others).curve == []  # one radius is no curve
    found = result("1111", *others, outcome("fgsm", "0111"), outcome("fgsm @ 0.3", "0011", epsilon=0.3))
    assert [point["epsilon"] for point in found.curve] == [0.0, 0.1, 0.3]


def test_attacks_outside_the_threat_model_and_those_that_did_not_run_do_not_count():
    outside = outcome("larger", "0000", in_worst_case=False)
    never = AttackOutcome("never", None, not_run="no gradients")
    found = result("1110", outside, never, outcome("fgsm", "1100"), outcome("pgd-20", "0110"))
    assert [attack.name for attack in found.counted] == ["fgsm", "pgd-20"]
    np.testing.assert_array_equal(found.robust, bits("0100"))
    assert "withstand all 2 attacks within linf 0.1" in found.verdict
    with pytest.raises(InputError, match="'never' was not run: no gradients"):
        _ = found["never"].accuracy


def test_the_verdict_quotes_the_worst_case_and_its_interval():
    found = result("1" * 60 + "0" * 40, outcome("fgsm", "1" * 50 + "0" * 50))
    # Wilson's interval of 50 of 100.
    assert found.verdict == (
        "60.0% of 100 images are classified correctly, and 50.0% (95% interval 40.4 to 59.6%) withstand "
        "fgsm within linf 0.1."
    )


def test_a_failed_check_is_said_before_a_warning():
    checks = [{"name": "a holds", "status": "failed", "detail": ""}]
    doubted = result("11", outcome("fgsm", "10"), warnings=["w"], checks=checks)
    assert doubted.verdict.endswith("A sanity check failed, so do not rely on this number yet: a holds.")
    checks = [{"name": "a holds", "status": "passed", "detail": ""}]
    warned = result("11", outcome("fgsm", "10"), warnings=["w"], checks=checks)
    assert warned.verdict.endswith("Read the warnings before you rely on this number.")


def test_wrong_clean_images_are_no_adversarial_examples():
    """A clean error has a perturbation of length 0, and a failed attack an infinite one."""
    norms = np.array([0.3, 0.1, 0.0, 0.0, np.inf])
    attack = outcome("deepfool", "00001", norms=norms, minimum_norm=True)
    np.testing.assert_array_equal(attack.found, bits("11000"))
    assert attack.median_norm == pytest.approx(0.2)
    assert attack.to_dict()["norms"] == [0.3, 0.1, 0.0, 0.0, None]
    assert outcome("deepfool", "11001", norms=norms).median_norm is None


def test_eight_bits_bring_an_image_back_only_if_its_example_is_lost():
    norms = np.array([0.1, 0.1, 0.0, np.inf])
    attack = outcome("fgsm", "0001", norms=norms, eight_bit=bits("1000"))
    np.testing.assert_array_equal(attack.robust_to_eight_bit, bits("0101"))
    found = result("1101", attack).eight_bit
    assert (found["tested"], found["still_adversarial"], found["accuracy"]) == (2, 1, 0.5)
    assert found["interval"] == list(wilson_interval(2, 4)) and found["flags"] == {"fgsm": "1000"}
    assert attack.to_dict()["eight_bit"] == {"tested": 2, "still_adversarial": 1}


def test_passes_are_averaged_over_the_images_that_were_attacked():
    attack = outcome("pgd-20", "1011", queries=90, gradients=41, seconds=1.234)
    entry = result("11111100", attack).to_dict()["attacks"][0]
    assert entry["passes_per_image"] == {"forward": 22.5, "backward": 10.25}
    assert (entry["queries"], entry["gradients"], entry["seconds"]) == (90, 41, 1.23)


def test_every_class_has_its_own_share_of_its_own_images():
    labels = np.array([0, 0, 2, 2, 2, 3])
    found = result("110111", outcome("fgsm", "100101"), labels=labels, classes=5).to_dict()
    assert found["per_class"] == {
        "clean": [1.0, None, 2 / 3, 1.0, None],
        "worst_case": [0.5, None, 1 / 3, 1.0, None],
        "count": [2, 0, 3, 1, 0],
    }


def test_the_same_of_some_images_takes_flags_and_labels_of_those():
    whole = result("1100", labels=np.array([3, 2, 1, 0]), classes=4, warnings=["first"])
    part = whole.of_images(np.array([1, 3]), "a part")
    np.testing.assert_array_equal(part.correct, bits("10"))
    assert part.labels.tolist() == [2, 0] and part.warnings == ["first", "a part"]
    assert whole.warnings == ["first"] and whole.examples == 4


def test_each_line_of_the_table_has_its_own_accuracy_and_interval():
    attacks = [
        outcome("fgsm", "1" * 60 + "0" * 40, queries=300, gradients=100, seconds=2.0),
        outcome("pgd-20", "1" * 25 + "0" * 25, queries=1100, gradients=1000),
        outcome("larger", "0" * 100, in_worst_case=False),
        AttackOutcome("never", None, not_run="no gradients"),
    ]
    table = str(result("1" * 90 + "0" * 10, *attacks))
    # Wilson's intervals of 90, 60 and 35 of 100, of 25 of 50, and of 0 of 100.
    assert line_of(table, "clean")[1:] == ["90.00%", "82.6", "to", "94.5"]
    fgsm = line_of(table, "fgsm")
    assert fgsm[1:5] == ["60.00%", "50.2", "to", "69.1"]
    assert " ".join(fgsm[5:]) == "2.0 s, 3 + 1 passes per image"
    pgd = line_of(table, "pgd-20")
    assert pgd[1:5] == ["50.00%", "36.6", "to", "63.4"]
    assert " ".join(pgd[7:]) == "22 + 20 passes per image, first 50 images"
    assert line_of(table, "larger")[1:5] == ["0.00%", "0.0", "to", "3.7"]
    assert "another threat model: not in the worst case" in table
    assert " ".join(line_of(table, "never")[1:]) == "- not run: no gradients"
    assert line_of(table, "worst case")[2:6] == ["35.00%", "26.4", "to", "44.7"]


def test_numbers_that_json_lacks_become_null_and_others_stay():
    found = result("10", outcome("fgsm", "10"), calibration={"clean": {"ece": float("nan"), "bins": []}})
    stored = json.loads(found.to_json())
    assert stored["calibration"] == {"clean": {"ece": None, "bins": []}}
    assert stored["epsilon"] == "0.1" and "curve" not in stored and "run" not in stored


def test_an_attack_is_found_by_its_name_and_a_missing_one_is_named():
    found = result("11", outcome("fgsm", "10"), outcome("pgd-20", "01"))
    assert found["pgd-20"] is found.attacks[1]
    with pytest.raises(InputError, match=r"There is no attack 'bim' in this result: \['fgsm', 'pgd-20'\]"):
        _ = found["bim"]


def test_examples_of_an_earlier_result_do_not_stay(tmp_path):
    result("1", pictures=dict.fromkeys(EXAMPLE_ARRAYS, np.zeros(1))).save(tmp_path)
    assert (tmp_path / "examples.npz").is_file()
    result("1").save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["evaluation.json"]


def test_an_interval_of_no_images_says_nothing():
    assert wilson_interval(0, 0) == (0.0, 1.0)
    assert interval_of([]) == [0.0, 1.0]
    # Wilson's interval of none of ten is not the single point 0.
    assert interval_of([False] * 10) == pytest.approx([0.0, 0.2775], abs=1e-4)
