"""Adversarial examples as 8-bit images, on a model for which the answer is known in closed form."""

import keras
import numpy as np
import pytest

import athe_tf
from athe_tf.evaluation import attack_run
from athe_tf.evaluation.options import EvaluationOptions
from athe_tf.results.result import EIGHT_BIT_ATTACK

PIXELS, GREY = 10, 100
# How many levels the sum of the pixels lies above the decision boundary, rounded down; one image is wrong.
MARGINS = np.array([-3, *range(20)])
LABELS = np.ones(len(MARGINS), np.int32)


def images():
    """Images on the grid of 8 bits: gray, with one pixel that is brighter by the margin."""
    levels = np.full((len(MARGINS), 1, PIXELS, 1), GREY, np.float32)
    levels[:, 0, 0, 0] += MARGINS
    return levels / np.float32(255)


def model():
    """Class 1 if the sum of the pixels is at least that of a gray image, less half a level."""
    net = keras.Sequential([keras.Input((1, PIXELS, 1)), keras.layers.Flatten(), keras.layers.Dense(2)])
    kernel = np.zeros((PIXELS, 2), np.float32)
    kernel[:, 1] = 255.0 / PIXELS
    net.layers[-1].set_weights([kernel, np.array([GREY - 0.5 / PIXELS, 0.0], np.float32)])
    return net


def evaluated(levels, norm="linf", **settings):
    settings = {"attacks": ["fgsm"], "checks": False, **settings}
    return athe_tf.evaluate(model(), (images(), LABELS), epsilon=levels / 255, norm=norm, **settings)


def broken_by(levels):
    """Which images a change of every pixel by so many levels breaks."""
    return (MARGINS >= 0) & (PIXELS * levels > MARGINS + 0.5)


@pytest.mark.parametrize(
    ("norm", "epsilon", "change", "stored"),
    [
        ("linf", 0.4, 0.4, 0),  # smaller than half a level: rounding undoes it
        ("linf", 0.9, 0.9, 0),  # the nearest level lies outside the ball
        ("linf", 1.0, 1.0, 1),
        ("linf", 1.4, 1.4, 1),
        ("l2", 1.4 * PIXELS**0.5, 1.4, 1),
        ("l2", 1.6 * PIXELS**0.5, 1.6, 1),  # two levels per pixel would leave the ball
    ],
)
def test_a_perturbation_keeps_its_whole_levels(norm, epsilon, change, stored):
    result = evaluated(epsilon, norm)
    found = result["fgsm"]
    assert broken_by(change).any(), "else the comparison says nothing"
    np.testing.assert_array_equal(found.found, broken_by(change))
    np.testing.assert_array_equal(found.eight_bit, broken_by(stored))
    tested, left = int(broken_by(change).sum()), int(broken_by(stored).sum())
    assert found.to_dict()["eight_bit"] == {"tested": tested, "still_adversarial": left}
    accuracy = np.mean((MARGINS >= 0) & ~broken_by(stored))
    assert result.eight_bit["accuracy"] == pytest.approx(accuracy)
    assert f"{left} of {tested} adversarial examples ({100 * left / tested:.1f}%) still" in repr(result)


def test_the_worst_case_of_eight_bits_is_over_all_attacks_that_count():
    plan = [athe_tf.attacks.get("fgsm", epsilon=levels / 255) for levels in (0.4, 1.0, 1.4, 2.0)]
    result = evaluated(1.4, attacks=plan)  # the last leaves the threat model
    assert result.eight_bit["tested"] == sum(broken_by(levels).sum() for levels in (0.4, 1.0, 1.4))
    assert result.eight_bit["still_adversarial"] == 2 * broken_by(1).sum()
    assert result.eight_bit["accuracy"] == pytest.approx(np.mean((MARGINS >= 0) & ~broken_by(1)))
    flags = result.eight_bit["flags"]
    assert list(flags) == [attack.name for attack in result.counted]
    assert flags["fgsm"] == "".join("01"[int(flag)] for flag in broken_by(1))


def test_a_report_without_adversarial_examples_has_no_share():
    result = evaluated(0.01)
    assert result.eight_bit == {} and "8 bits" not in repr(result)
    assert result["fgsm"].to_dict()["eight_bit"] == {"tested": 0, "still_adversarial": 0}


def test_the_flags_depend_on_neither_the_batch_size_nor_an_interruption(tmp_path, monkeypatch):
    whole = evaluated(1.4)["fgsm"].eight_bit
    np.testing.assert_array_equal(evaluated(1.4, batch_size=3)["fgsm"].eight_bit, whole)
    options = EvaluationOptions(state=tmp_path / "state")

    def interrupt(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(attack_run, "still_adversarial", interrupt)
        evaluated(1.4, options=options)
    for _ in ("resumed", "read back"):
        np.testing.assert_array_equal(evaluated(1.4, options=options)["fgsm"].eight_bit, whole)


def test_an_attack_without_a_ball_is_rounded_to_the_nearest_levels():
    """A translation moves at least one gray pixel out of the image: far more than epsilon, and stays so."""
    found = evaluated(0.4, attacks=["spatial"])["spatial"]
    np.testing.assert_array_equal(found.found, MARGINS >= 0)
    np.testing.assert_array_equal(found.eight_bit, MARGINS >= 0)


# Examples of this attack lie just beyond the boundary, so rounding loses some that the grid has.
def shallow(levels, **settings):
    return evaluated(levels, attacks=["deepfool-20"], **settings)


def test_what_rounding_loses_is_searched_for_among_eight_bit_images():
    """DeepFool stops just beyond the boundary. On the grid, pixels move by whole levels: closed form."""
    result = shallow(2.9)
    searched, best = result[EIGHT_BIT_ATTACK], (MARGINS >= 0) & ~broken_by(2)
    np.testing.assert_array_equal(searched.robust, best)
    assert result.lost_by_rounding[searched.found].all() and searched.found.any()
    assert result.eight_bit["accuracy"] == pytest.approx(best.mean()) and not result.eight_bit["upper_bound"]
    assert not searched.in_worst_case and searched.gradients > 0
    assert result.worst_case_accuracy == pytest.approx(np.mean((MARGINS >= 0) & ~broken_by(2.9)))
    assert f"the worst case of 8-bit images is {100 * best.mean():.2f}%." in repr(result)
    assert "8-bit images: not in the worst case" in repr(result)


def test_without_a_search_the_worst_case_of_eight_bits_is_called_an_upper_bound():
    for other in (
        evaluated(1.4 * PIXELS**0.5, "l2"),
        athe_tf.evaluate(
            model(),
            (images() + np.float32(0.1 / 255), LABELS),
            epsilon=1.4 / 255,
            attacks=["fgsm"],
            checks=False,
        ),
        evaluated(1.4, options=EvaluationOptions(max_passes=20)),
    ):
        assert other.lost_by_rounding.any() and EIGHT_BIT_ATTACK not in [one.name for one in other.attacks]
        assert other.eight_bit["upper_bound"] and ", an upper bound." in repr(other)
    assert not evaluated(1.0).eight_bit["upper_bound"]  # nothing is lost


def test_the_search_resumes_and_its_shards_are_merged(tmp_path):
    whole = shallow(2.9)
    folders = [tmp_path / f"{number}" for number in (1, 2)]
    for number, folder in enumerate(folders, start=1):
        for _ in ("run", "read back"):
            part = shallow(2.9, options=EvaluationOptions(state=folder, shard=f"{number}/2"))
    rows = np.arange(1, len(MARGINS), 2)
    np.testing.assert_array_equal(part[EIGHT_BIT_ATTACK].robust, whole[EIGHT_BIT_ATTACK].robust[rows])
    merged = shallow(2.9, options=EvaluationOptions(shards=folders))
    assert merged.eight_bit == whole.eight_bit
    np.testing.assert_array_equal(merged[EIGHT_BIT_ATTACK].robust, whole[EIGHT_BIT_ATTACK].robust)
    assert merged[EIGHT_BIT_ATTACK].gradients == whole[EIGHT_BIT_ATTACK].gradients
