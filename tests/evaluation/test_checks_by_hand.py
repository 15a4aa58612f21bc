"""The sanity checks at the edges of what they allow, on flags that are written down by hand."""

import types

import numpy as np
import pytest

from athe_tf.evaluation import sanity
from athe_tf.evaluation.sanity import IMAGES, MORE_STEPS, QUERIES, RESTARTS, STEPS, SanityProbe
from athe_tf.results.attack_outcome import AttackOutcome
from athe_tf.utils.errors import NotApplicable


def found(broken, images=200, rounds=None, **more):
    """The result of an attack that breaks the first images."""
    success = np.arange(images) < broken
    rounds = success.astype(int) if rounds is None else rounds
    counts = {"nonfinite": np.zeros(images, int), "gradients": np.ones(images, int), **more}
    return types.SimpleNamespace(success=success, rounds=rounds, **counts)


def probe_with(outcomes=(), images=200, **results):
    """A probe all of whose attacks find nothing, unless they are named."""
    names = ("noise", "fgsm", "pgd", "longer_pgd", "at_scale_one", "sweep", "square", "huge")
    inputs = types.SimpleNamespace(clean=types.SimpleNamespace(correct=np.ones(images, bool)))
    probe = SanityProbe(inputs, list(outcomes), results.pop("verify", ()))
    for name in names:
        setattr(probe, name, results.get(name, found(0, images)))
    return probe


def test_the_probe_is_as_documented():
    """The constants of the page on sanity checks; a test, because a smaller probe sees less."""
    assert (IMAGES, STEPS, MORE_STEPS, RESTARTS, QUERIES) == (200, 10, 40, 3, 100)
    assert len(probe_with(images=300).rows) == 200


def test_survivors_are_those_of_attacks_that_count_and_cover_all_images():
    flags = np.ones(200, bool)
    flags[3] = False
    outside = AttackOutcome("l2", np.zeros(200, bool), in_worst_case=False)
    partial = AttackOutcome("rays", np.zeros(199, bool))
    never = AttackOutcome("never", None, not_run="no gradients")
    assert probe_with([outside, partial, never]).survivors() is None
    others = [outside, partial, never, AttackOutcome("fgsm", flags), AttackOutcome("pgd-20", ~flags)]
    np.testing.assert_array_equal(probe_with(others[:4]).survivors(), flags)
    assert not probe_with(others).survivors().any()


# 2 of 200 images are 1%.
@pytest.mark.parametrize("broken, status", [(2, "passed"), (3, "failed")])
def test_square_may_break_one_percent_alone(broken, status):
    check = sanity.black_box_is_weaker(probe_with(square=found(broken)))
    assert check.status == status and check.numbers["square alone"] == broken / 200
    assert sanity.black_box_is_weaker(probe_with(square=found(broken), sweep=found(1))).status == "passed"


@pytest.mark.parametrize("left, status", [(2, "passed"), (3, "failed")])
def test_one_percent_may_withstand_a_huge_epsilon(left, status):
    check = sanity.huge_epsilon_reaches_zero(probe_with(huge=found(200 - left)))
    assert check.status == status and check.numbers["accuracy"] == pytest.approx(left / 200)


# 4 of 200 images are 2%.
@pytest.mark.parametrize("broken, status", [(4, "passed"), (5, "failed")])
@pytest.mark.parametrize("name", ["noise", "fgsm", "pgd", "longer_pgd", "sweep", "square"])
def test_two_percent_may_be_missed_by_the_attacks_of_an_evaluation(broken, status, name):
    survivors = AttackOutcome("weak", np.ones(200, bool))
    check = sanity.attacks_are_strong_enough(probe_with([survivors], **{name: found(broken)}))
    assert check.status == status and ("Use more restarts" in check.detail) == (status == "failed")
    caught = AttackOutcome("strong", np.arange(200) >= 5)
    found_too = sanity.attacks_are_strong_enough(probe_with([caught], **{name: found(broken)}))
    assert found_too.numbers["missed"] == 0


@pytest.mark.parametrize("rise, status", [(1, "passed"), (3, "failed")])
def test_an_accuracy_may_rise_by_one_percent_with_epsilon(rise, status):
    outcomes = [
        AttackOutcome("fgsm @ 0.2", np.arange(200) < 100 + rise, epsilon=0.2),
        AttackOutcome("fgsm", np.arange(200) < 100, epsilon=0.1),
        AttackOutcome("pgd-20", np.arange(200) < 10, epsilon=0.05),
    ]
    check = sanity.larger_epsilon_is_stronger(probe_with(outcomes))
    assert check.status == status and check.numbers["largest rise"] == pytest.approx(rise / 200)
    with pytest.raises(NotApplicable, match="one epsilon only"):
        sanity.larger_epsilon_is_stronger(probe_with(outcomes[1:]))


@pytest.mark.parametrize("difference, status", [(0.02, "passed"), (0.021, "failed"), (-0.5, "passed")])
def test_independent_code_may_be_stronger_by_two_points(difference, status):
    entries = [{"difference": difference}, {"difference": -0.9}, {"not_run": "missing"}]
    check = sanity.independent_code_agrees(probe_with(verify=entries))
    assert check.status == status and check.numbers["largest difference"] == difference
    assert "In 2 comparisons" in check.detail


@pytest.mark.parametrize("missed, status", [(2, "passed"), (3, "failed")])
def test_another_scale_may_find_one_percent_alone(missed, status):
    results = {"sweep": found(50 + missed), "pgd": found(50), "at_scale_one": found(40)}
    check = sanity.scale_does_not_matter(probe_with(**results))
    assert check.status == status
    assert check.numbers["overestimate at scale 1"] == pytest.approx((10 + missed) / 200)
    assert check.numbers["missed"] == pytest.approx(missed / 200)


def test_the_first_of_several_restarts_is_told_from_the_others():
    """Images 0 to 9 fall in the first round, 10 to 19 in the second."""
    rounds = np.where(np.arange(200) < 10, 1, np.where(np.arange(200) < 20, 2, 3))
    probe = probe_with(pgd=found(20, rounds=rounds), longer_pgd=found(20))
    check = sanity.restarts_are_stronger(probe)
    assert check.numbers == {"PGD-10": 190 / 200, "3 restarts of it": 180 / 200, "images": 200}
    assert sanity.more_steps_are_stronger(probe).numbers["PGD-10"] == 190 / 200


# Of 9 images that only one of two attacks breaks, chance explains a difference of 2 * 3.
@pytest.mark.parametrize("weak, strong, status", [(7, 2, "passed"), (8, 1, "failed"), (1, 0, "passed")])
def test_a_weaker_attack_may_win_by_chance_and_not_by_more(weak, strong, status):
    by_weak, by_strong = np.arange(80) < weak, (np.arange(80) >= 40) & (np.arange(80) < 40 + strong)
    assert sanity._ordered(("weak", by_weak), ("strong", by_strong)).status == status


def test_gradients_are_counted_over_the_images_of_checks_and_attacks():
    faults = {"attacked": 150, "zero": 1, "nonfinite": 1}
    outcome = AttackOutcome("fgsm", np.ones(200, bool), nonfinite=3, gradients=100, gradient_faults=faults)
    probe = probe_with([outcome])
    probe.fgsm.gradient_faults = probe.pgd.gradient_faults = {"attacked": 120, "zero": 0, "nonfinite": 0}
    check = sanity.gradients_are_usable(probe)
    assert check.status == "failed" and check.numbers["nonfinite"] == 3
    assert check.numbers["gradients"] == 2 * 200 + 100 and "0.7% of 150 images" in check.detail
    outcome.nonfinite = 0
    assert sanity.gradients_are_usable(probe).status == "passed"
    faults["zero"] = 2
    assert sanity.gradients_are_usable(probe).status == "failed"
