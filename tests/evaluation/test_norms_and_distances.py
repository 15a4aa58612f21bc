"""Several norms in one evaluation, and distances, on a linear model whose distances are known."""

import numpy as np
import pytest

import athe_tf
from athe_tf.evaluation.options import EvaluationOptions
from athe_tf.programs.config import EvaluateConfig
from athe_tf.results.result import Result
from athe_tf.utils.errors import InputError
from tests.linear_case import gray_images, linear_model, predictions, radii

# The second class is near in linf, where all pixels count, and the third in l1, where one does.
LINEAR = linear_model(classes=3)
KERNEL = np.zeros((40, 3))
KERNEL[:, 1], KERNEL[0, 2] = 0.1, 1.0
LINEAR.layers[-1].set_weights([KERNEL, np.array([0.0, -2.05, -0.6])])
IMAGES = gray_images(40)
LABELS = predictions(LINEAR, IMAGES)
LABELS[:4] = (LABELS[:4] + 1) % 3
RIGHT = np.arange(40) >= 4
DISTANCE = {norm: np.where(RIGHT, radii(LINEAR, IMAGES, LABELS, norm), 0) for norm in ("linf", "l2", "l1")}
# Each norm breaks another share of the images.
RADII = {
    norm: float(np.quantile(DISTANCE[norm], q)) for norm, q in zip(DISTANCE, (0.4, 0.4, 0.4), strict=True)
}
NORMS = tuple(f"{norm}:{radius!r}" for norm, radius in RADII.items())
ATTACKS = ["apgd-t-20", "pgd-5"]


def evaluated(attacks=ATTACKS, images=IMAGES, labels=LABELS, batch_size=8, **options):
    settings = {"attacks": attacks, "batch_size": batch_size, "checks": False}
    return athe_tf.evaluate(LINEAR, (images, labels), options=EvaluationOptions(**options), **settings)


@pytest.fixture(scope="module")
def whole():
    return evaluated(norms=NORMS)


def test_each_norm_the_union_and_the_mean_are_those_of_the_distances(whole):
    withstand = {norm: DISTANCE[norm] > RADII[norm] for norm in DISTANCE}
    assert [one["worst_case_accuracy"] for one in whole.worst_cases] == [
        withstand[norm].mean() for norm in DISTANCE
    ]
    union = np.logical_and.reduce(list(withstand.values()))
    assert 0 < union.mean() < min(one.mean() for one in withstand.values())
    assert whole.union["accuracy"] == union.mean()
    assert whole.union["mean"] == pytest.approx(np.mean([one.mean() for one in withstand.values()]))
    # The headline is that of the first norm.
    assert whole.norm == "linf" and whole.worst_case_accuracy == withstand["linf"].mean()
    assert "within each of linf" in whole.verdict and "all of them" in str(whole)
    found = [whole[f"{name} (l1) @ {RADII['l1']:g}"].robust for name in ATTACKS]
    np.testing.assert_array_equal(np.logical_and(*found), withstand["l1"])


def test_a_file_and_its_page_have_all_norms(whole, tmp_path):
    whole.save(tmp_path)
    read = Result.load(tmp_path)
    assert read.to_dict() == whole.to_dict() and str(read) == str(whole)
    assert read.union == whole.union and read.worst_cases == whole.worst_cases
    assert "all of them" in athe_tf.report.render(read)


def test_batches_other_images_shards_and_a_resume_change_no_flag(tmp_path):
    quick = {"attacks": ["pgd-5"], "norms": NORMS}
    whole = evaluated(**quick)
    assert 0 < whole.union["accuracy"] < 1
    alone = evaluated(images=IMAGES[:9], labels=LABELS[:9], batch_size=64, **quick)
    assert all(whole.flags[name].startswith(bits) for name, bits in alone.flags.items())
    states = [tmp_path / str(number) for number in (1, 2)]
    for number, state in enumerate(states, start=1):
        evaluated(state=state, shard=f"{number}/2", **quick)
    merged = evaluated(shards=states, **quick)
    assert merged.flags == whole.flags and merged.union == whole.union

    class Stop(Exception):
        pass

    def stop(outcome):
        if outcome.norm == "l2":
            raise Stop

    with pytest.raises(Stop):
        evaluated(state=tmp_path / "state", finished=stop, **quick)
    resumed = evaluated(state=tmp_path / "state", **quick)
    assert resumed.flags == whole.flags and resumed.union == whole.union


def test_without_an_attack_in_a_norm_there_is_no_union():
    found = evaluated(attacks=["deepfool"], norms=("l2:0.01", "l1:0.1"))
    assert found.union is None and "worst_case_accuracy" not in found.worst_cases[1]
    assert "No attack was run on all images within l1 0.1." in found.verdict
    assert "unknown" in str(found) and "no attack on all images" in athe_tf.report.render(found)


def test_distances_and_their_area_are_exact_on_a_linear_model():
    epsilon = float(np.median(DISTANCE["l2"]))
    found = athe_tf.evaluate(
        LINEAR, (IMAGES, LABELS), attacks=["fab-t-50", "pgd-5"], norm="l2", epsilon=epsilon, checks=False
    )
    distances = found.distances
    assert distances["attacks"] == ["fab-t-50"] and distances["radius"] == pytest.approx(2 * epsilon)
    expected = np.minimum(DISTANCE["l2"], 2 * epsilon).mean()
    assert distances["expected_robustness"] == pytest.approx(expected, rel=1e-2)
    assert distances["area"] == pytest.approx(expected / (2 * epsilon), rel=1e-2)
    assert distances["median"] == pytest.approx(epsilon, rel=0.02)
    for point in distances["points"]:
        # A distance within the attack's error of the radius may lie on either side.
        low, high = ((DISTANCE["l2"] > factor * point["epsilon"]).mean() for factor in (1.03, 0.97))
        assert low <= point["accuracy"] <= high
    assert "expected robustness" in str(found) and 'id="distances"' in athe_tf.report.render(found)
    # Without a minimum-norm attack there are none, and no attack is run for them.
    assert evaluated(norms=NORMS[:1]).distances is None


@pytest.mark.parametrize(
    ("norms", "message"),
    [
        (("linf:0.1", "linf:0.2"), "every norm once"),
        (("l2",), "every norm once, with its radius"),
        (("l3:0.1",), "Expected one of"),
        (("l2:x",), "Expected a number"),
        (("linf:8",), "Did you mean"),
    ],
)
def test_norms_that_cannot_be_meant_are_refused(norms, message):
    with pytest.raises(InputError, match=message):
        evaluated(norms=norms)
    with pytest.raises(InputError, match=message):
        EvaluateConfig(model="m.keras", norms=norms)


def test_norms_take_the_place_of_norm_and_epsilon():
    with pytest.raises(InputError, match="--norms has the radii of all norms"):
        EvaluateConfig(model="m.keras", norms=("linf:0.1",), epsilon=0.2)
