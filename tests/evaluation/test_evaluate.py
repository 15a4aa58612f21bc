"""Evaluation: flags, intervals, worst case, what is not run, and what a result says."""

import json

import numpy as np
import pytest
import tensorflow as tf
from scipy.stats import binomtest

import athe_tf
from athe_tf import attacks
from athe_tf.attacks.engine.attack import Attack
from athe_tf.attacks.engine.driver import clean_logits
from athe_tf.evaluation.options import EvaluationOptions
from athe_tf.evaluation.protocols import AttackSpec
from athe_tf.report.reading import schema
from athe_tf.results.intervals import wilson_interval
from athe_tf.results.json_files import check_schema
from athe_tf.utils.errors import InputError, NotApplicable
from tests.linear_case import gray_images, linear_model, predictions, radii

IMAGES = gray_images()


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
    result = athe_tf.evaluate(
        linear, (IMAGES, y), attacks=["fgsm", "cw-linf-40"], epsilon=epsilon, checks=False
    )
    assert result.clean_accuracy == pytest.approx(54 / 60)
    flags = [attack.robust for attack in result.attacks]
    np.testing.assert_array_equal(result.robust, result.correct & flags[0] & flags[1])
    assert not result.robust[:6].any()
    assert result.worst_case_accuracy <= min(attack.accuracy for attack in result.attacks)
    clear = abs(radius / epsilon - 1) > 0.03
    np.testing.assert_array_equal(result["cw-linf-40"].robust[clear], (radius > epsilon)[clear])


def test_the_json_is_that_of_the_design(linear, tmp_path):
    y = predictions(linear, IMAGES)
    result = athe_tf.evaluate(linear, (IMAGES, y), attacks=["fgsm"], epsilon=8 / 255, seed=3, checks=False)
    stored = json.loads(result.to_json())
    assert stored["epsilon"] == "8/255" and stored["norm"] == "linf" and stored["seed"] == 3
    assert stored["examples"] == 60 and stored["clean_accuracy"] == 1.0
    attack = stored["attacks"][0]
    assert attack["name"] == "fgsm" and attack["accuracy"] == result["fgsm"].accuracy
    assert attack["gradients"] == 60 and attack["settings"]["loss"] == "ce"
    assert stored["flags"]["fgsm"].count("1") == result["fgsm"].robust.sum()
    assert {"athe_tf", "tensorflow", "keras"} <= set(stored["versions"])


def test_passes_per_image_are_beside_every_number(linear):
    y = predictions(linear, IMAGES)
    result = athe_tf.evaluate(linear, (IMAGES, y), attacks=["fgsm", "cr"], epsilon=1e-4, checks=False)
    first, second = result.to_dict()["attacks"]
    # At this radius FGSM fails: a clean pass, one at the start and one at the end.
    assert first["passes_per_image"] == {"forward": 3.0, "backward": 1.0}
    for attack in (first, second):
        per_image = attack["passes_per_image"]
        assert per_image["forward"] == pytest.approx(attack["queries"] / 60, abs=0.005)
        assert per_image["backward"] == pytest.approx(attack["gradients"] / 60, abs=0.005)
    assert "3 + 1 passes per image" in str(result)
    assert "backward passes per image" in athe_tf.report.render(result)


def test_a_budget_of_passes_stops_every_attack_and_is_told(linear):
    y = predictions(linear, IMAGES)
    options = athe_tf.evaluation.EvaluationOptions(max_passes=10)
    settings = {"attacks": ["pgd-3x4"], "epsilon": 1e-4, "checks": False, "options": options}
    result = athe_tf.evaluate(linear, (IMAGES, y), **settings)
    assert result["pgd-3x4"].passes_per_image == {"forward": 5.0, "backward": 3.0}
    assert result["pgd-3x4"].settings["max_passes"] == 10
    assert "budget of 10 passes" in result["pgd-3x4"].remarks[0]
    with pytest.raises(InputError, match="max_passes=2"):
        settings["options"] = athe_tf.evaluation.EvaluationOptions(max_passes=2)
        athe_tf.evaluate(linear, (IMAGES, y), **settings)


def test_the_table_shows_every_attack_with_its_interval(linear):
    y = predictions(linear, IMAGES)
    text = str(athe_tf.evaluate(linear, (IMAGES, y), attacks=["fgsm", "pgd-5"], epsilon=0.02, checks=False))
    for word in ("clean", "fgsm", "pgd-5", "worst case", "95% interval", "epsilon 0.02"):
        assert word in text


def test_an_attack_that_needs_more_than_the_victim_offers_is_not_run_and_says_why(linear):
    class NeedsFeatures(Attack):
        name = "needs-features"

        def check_victim(self, victim):
            victim.require_features("This attack")

    def logits_only(x):
        return linear(x)

    y = predictions(linear, IMAGES)
    result = athe_tf.evaluate(
        logits_only, (IMAGES, y), attacks=[NeedsFeatures(0.01), "fgsm"], epsilon=0.01, checks=False
    )
    assert result["needs-features"].robust is None
    assert "offers logits only" in result["needs-features"].not_run and "not run" in str(result)
    assert result.worst_case_accuracy == result["fgsm"].accuracy
    assert json.loads(result.to_json())["attacks"][0]["not_run"]


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
    apart = athe_tf.evaluate(linear, IMAGES, y, **settings)
    assert pairs.examples == 25
    np.testing.assert_array_equal(pairs.robust, apart.robust)
    np.testing.assert_array_equal(pairs.robust, stream.robust)
    np.testing.assert_array_equal(pairs.robust, held.robust)


def test_verbose_shows_the_progress_and_leaves_the_functions_of_the_user(linear, capsys):
    told = []
    options = EvaluationOptions(progress=told.append, finished=lambda outcome: told.append(outcome.name))
    settings = {"attacks": ["fgsm"], "epsilon": 0.03, "checks": False, "options": options}
    athe_tf.evaluate(linear, IMAGES, predictions(linear, IMAGES), **settings)
    assert capsys.readouterr() == ("", "") and "fgsm" in told
    silent, told[:] = len(told), []
    athe_tf.evaluate(linear, IMAGES, predictions(linear, IMAGES), verbose=1, **settings)
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.startswith("fgsm: ") and len(told) == silent


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"attacks": ["pdg-20"]}, "Did you mean 'pgd'"),
        ({"attacks": [3]}, "Expected the name of an attack"),
        ({"epsilon": 8}, "Did you mean epsilon=8/255"),
        ({"norm": "l3"}, "Received: norm='l3'"),
        ({"attacks": []}, "There are no attacks"),
        ({"attacks": ["fgsm"], "protocol": "quick"}, "either `attacks` or `protocol`"),
        ({"protocol": "quik"}, "Did you mean 'quick'"),
        ({"protocol": "transfer"}, "needs other models"),
    ],
)
def test_impossible_requests_are_refused(linear, kwargs, message):
    with pytest.raises(InputError, match=message):
        athe_tf.evaluate(linear, (IMAGES, predictions(linear, IMAGES)), **kwargs)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"epsilons": (0.1, 0.0)}, "must be larger than 0"),
        ({"verify_with": ["foolbax"]}, "Did you mean 'foolbox'"),
        ({"substitutes": "runs/a"}, "Expected `substitutes` to map names to models. Received: 'runs/a'"),
    ],
)
def test_impossible_options_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        EvaluationOptions(**settings)


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

    result = athe_tf.evaluate(
        cosines, (IMAGES, predictions(linear, IMAGES)), attacks=["fgsm"], epsilon=0.01, checks=False
    )
    assert any("Cosine logits at scale 1" in text for text in result.warnings)
    assert "Warning: Cosine logits" in str(result)


def test_attacks_of_another_threat_model_do_not_count_in_the_worst_case(linear):
    y = predictions(linear, IMAGES)
    larger, other = attacks.get("fgsm", epsilon=0.3), attacks.get("pgd-3", epsilon=2.0, norm="l2")
    # Its radius is smaller than that of the evaluation, so that only its norm excludes it.
    smaller = attacks.get("pgd-3", epsilon=0.004, norm="l2")
    within = attacks.get("fgsm", epsilon=0.004)
    wanted = ["fgsm", larger, other, "spatial-3", smaller, within]
    result = athe_tf.evaluate(linear, (IMAGES, y), attacks=wanted, epsilon=0.005, checks=False)
    assert [attack.in_worst_case for attack in result.attacks] == [True, False, False, False, False, True]
    assert [point["epsilon"] for point in result.curve] == pytest.approx([0.0, 0.004, 0.005, 0.3])
    assert result.attacks[1].accuracy < result.worst_case_accuracy == result.attacks[0].accuracy
    assert "another threat model" in str(result)
    names = ["fgsm", "fgsm @ 0.3", "pgd-3 @ 2", "spatial-3", "pgd-3 @ 0.004", "fgsm @ 0.004"]
    assert list(result.to_dict()["flags"]) == ["clean", *names]


def exact_epsilons(radius, count):
    """Radii between two neighboring distances, as far from both as possible: there the verdict is sure."""
    ordered = np.sort(radius)
    gaps = ordered[1:] / ordered[:-1]
    places = np.array_split(np.arange(5, len(gaps) - 5), count)
    chosen = [part[gaps[part].argmax()] for part in places]
    return [float(np.sqrt(ordered[i] * ordered[i + 1])) for i in chosen]


def test_a_curve_is_the_share_of_images_whose_boundary_is_further_away(linear):
    y = predictions(linear, IMAGES)
    radius = radii(linear, IMAGES, y, "linf")
    low, middle, high = exact_epsilons(radius, 3)
    result = athe_tf.evaluate(
        linear,
        (IMAGES, y),
        attacks=["fgsm", "cw-linf-40"],
        epsilon=middle,
        checks=False,
        options=EvaluationOptions(epsilons=(high, low)),
    )
    points = result.to_dict()["curve"]
    assert [point["epsilon"] for point in points] == [0.0, low, middle, high]
    expected = [1.0, *((radius > e).mean() for e in (low, middle, high))]
    np.testing.assert_allclose([point["accuracy"] for point in points], expected)
    assert points[2]["accuracy"] == result.worst_case_accuracy
    assert [a.name for a in result.attacks[:3]] == ["fgsm", *(f"fgsm @ {e:g}" for e in (low, high))]


def test_least_norms_are_in_the_output_and_are_those_of_the_closed_form(linear):
    y = predictions(linear, IMAGES)
    y[:3] = (y[:3] + 1) % 5
    result = athe_tf.evaluate(linear, (IMAGES, y), attacks=["deepfool"], epsilon=0.02, checks=False)
    norms = result.to_dict()["attacks"][0]["norms"]
    assert norms[:3] == [0.0] * 3
    # DeepFool goes 2% beyond the boundary, and a little more.
    np.testing.assert_allclose(norms[3:], radii(linear, IMAGES, y, "linf")[3:], rtol=0.025, atol=2e-5)


def test_every_class_has_its_accuracies(linear):
    y = predictions(linear, IMAGES)
    y[::7] = (y[::7] + 1) % 5
    result = athe_tf.evaluate(linear, (IMAGES, y), attacks=["cw-linf-20"], epsilon=0.01, checks=False)
    stored = result.to_dict()
    assert stored["labels"] == y.tolist() and stored["classes"] == 5
    for index in range(5):
        mine = y == index
        assert stored["per_class"]["count"][index] == mine.sum()
        assert stored["per_class"]["clean"][index] == pytest.approx(result.correct[mine].mean())
        assert stored["per_class"]["worst_case"][index] == pytest.approx(result.robust[mine].mean())


def test_pictures_show_adversarial_examples_and_their_predictions(linear, tmp_path):
    y = predictions(linear, IMAGES)
    result = athe_tf.evaluate(linear, (IMAGES, y), attacks=["fgsm", "pgd-5"], epsilon=0.05, checks=False)
    result.save(tmp_path)
    with np.load(tmp_path / "examples.npz", allow_pickle=False) as stored:
        shown = {name: stored[name] for name in stored.files}
    assert 2 <= len(shown["label"]) <= 10 and set(shown["attack"]) == {"fgsm", "pgd-5"}
    np.testing.assert_array_equal(shown["clean"], IMAGES[shown["index"]])
    np.testing.assert_array_equal(shown["clean_prediction"], shown["label"])
    np.testing.assert_array_equal(predictions(linear, shown["adversarial"]), shown["adversarial_prediction"])
    assert (shown["adversarial_prediction"] != shown["label"]).all()
    moved = np.abs(shown["adversarial"] - shown["clean"]).max(axis=(1, 2, 3))
    np.testing.assert_allclose(moved, shown["norm"], atol=1e-6)
    assert "data:image/png" in athe_tf.report.render(result)


def test_a_report_without_attacks_says_that_nothing_is_known(linear):
    class NeverApplies(Attack):
        name = "never"

        def check_victim(self, victim):
            raise NotApplicable("it never applies.")

    result = athe_tf.evaluate(
        linear, (IMAGES, predictions(linear, IMAGES)), attacks=[NeverApplies(0.1)], epsilon=0.1, checks=False
    )
    assert result.worst_case_accuracy is None and "worst case" not in str(result)
    assert "robustness is unknown" in result.to_dict()["verdict"]


def test_an_attack_that_needs_more_classes_is_refused_before_anything_is_run():
    two = linear_model(classes=2)
    ran = []
    options = EvaluationOptions(finished=ran.append)
    with pytest.raises(InputError, match="needs at least 3 classes"):
        athe_tf.evaluate(
            two, (IMAGES, predictions(two, IMAGES)), protocol="pas", options=options, checks=False
        )
    assert not ran


def test_images_of_another_shape_and_labels_of_another_set_are_refused(linear):
    other = np.zeros((3, 6, 6, 2), "float32")
    with pytest.raises(InputError, match="cannot be called with images of shape"):
        athe_tf.evaluate(linear, (other, np.zeros(3, "int32")), attacks=["fgsm"])
    with pytest.raises(InputError, match="cannot be called with images of shape"):
        athe_tf.attacks.get("fgsm", epsilon=0.1).run(linear, other, np.zeros(3, "int32"))
    levels = tf.TensorSpec([None, *IMAGES.shape[1:]], tf.uint8)
    of_levels = tf.function(lambda x: linear(tf.cast(x, tf.float32) / 255), input_signature=[levels])
    with pytest.raises(InputError, match="it takes uint8, and integers have no gradient"):
        athe_tf.evaluate(of_levels, (IMAGES, np.zeros(60, "int32")), attacks=["fgsm"])

    for label in (5, 7):
        # A new one each time: the first batch of a callable shows its number of classes.
        message = f"in 0..4 with 5 classes. Received: min={label}, max={label}. Use the data set that"
        with pytest.raises(InputError, match=message):
            athe_tf.evaluate(lambda x: linear(x), (IMAGES, np.full(60, label)), attacks=["fgsm"])

    def one_number(x):
        return linear(x)[:, 0]

    with pytest.raises(InputError, match="one row of logits per image"):
        athe_tf.evaluate(one_number, (IMAGES, np.zeros(60, "int32")), attacks=["fgsm"])


def test_probabilities_can_be_attacked_by_their_logarithms_and_the_report_says_so(linear):
    softened = linear_model(scale=0.1)  # its softmax is not rounded to 0 and 1

    def softmax_model(x):
        return tf.nn.softmax(softened(x))

    y = predictions(softened, IMAGES)
    settings = {"attacks": ["cw-linf-20"], "epsilon": 0.02, "checks": False}
    options = EvaluationOptions(probabilities=True)
    result = athe_tf.evaluate(softmax_model, (IMAGES, y), options=options, **settings)
    plain = athe_tf.evaluate(softened, (IMAGES, y), **settings)
    np.testing.assert_array_equal(result.robust, plain.robust)
    assert any("outputs probabilities" in text for text in result.warnings)
    assert "Read the warnings" in result.to_dict()["verdict"]


def test_the_clean_pass_is_made_once_and_handed_on(linear, monkeypatch):
    """Attacks do not find out again what the evaluation knows; their costs are those of a single run."""
    y = predictions(linear, IMAGES)
    y[:6] = (y[:6] + 1) % 5
    passes = []

    def counted(victim, x, batch_size):
        passes.append(len(x))
        return clean_logits(victim, x, batch_size)

    monkeypatch.setattr("athe_tf.attacks.engine.driver.clean_logits", counted)
    monkeypatch.setattr("athe_tf.evaluation.model_diagnosis.clean_logits", counted)
    names = ["fgsm", "pgd-3x2", "autoattack-smoke"]
    result = athe_tf.evaluate(linear, (IMAGES, y), attacks=names, epsilon=0.02, checks=False)
    assert passes == [60]
    for name in names:
        alone = attacks.get(name, epsilon=0.02).run(linear, IMAGES, y)
        np.testing.assert_array_equal(result[name].robust, ~alone.success)
        found = (result[name].queries, result[name].gradients)
        assert found == (alone.queries.sum(), alone.gradients.sum())
    # With the stages of a cascade, it is still what the report reads.
    assert result.to_dict()["attacks"][2]["stages"]
    check_schema(json.loads(result.to_json()), schema("evaluation"))


def test_a_result_shows_itself(linear):
    y = predictions(linear, IMAGES)
    options = EvaluationOptions(name="<b>")
    result = athe_tf.evaluate(
        linear, (IMAGES, y), attacks=["fgsm"], epsilon=0.02, checks=False, options=options
    )
    assert repr(result) == str(result) and str(result).startswith("<b> on 60 images")
    assert "<caption>&lt;b&gt; on 60 images" in result._repr_html_()


def test_a_model_is_opened_from_a_path_and_a_run_is_its_best_model(linear, tmp_path):
    y = predictions(linear, IMAGES)
    linear.save(tmp_path / "best.keras")
    settings = {"attacks": ["fgsm"], "epsilon": 0.02, "checks": False}
    from_file = athe_tf.evaluate(str(tmp_path / "best.keras"), (IMAGES, y), **settings)
    np.testing.assert_array_equal(from_file.robust, athe_tf.evaluate(linear, (IMAGES, y), **settings).robust)
    (tmp_path / "config.json").write_text("{}")
    from_run = athe_tf.evaluate(tmp_path, (IMAGES, y), **settings)
    np.testing.assert_array_equal(from_run.robust, from_file.robust)
    with pytest.raises(InputError, match="There is no model at"):
        athe_tf.evaluate(tmp_path / "nothing.keras", (IMAGES, y), **settings)


def settings(**changed):
    return {"attacks": ["fgsm"], "epsilon": 0.1, "checks": False, **changed}


@pytest.mark.parametrize(
    "attack",
    [
        attacks.PGD(0.1, steps=2, targeted=True),
        "pgd-2(targeted=True)",
        attacks.APGD(0.1, steps=2, targeted=True),
        attacks.AutoAttack(0.1, version="custom", attacks=[attacks.BIM(0.1, targeted=True)]),
    ],
)
def test_a_targeted_attack_is_refused(linear, attack):
    with pytest.raises(InputError, match="targeted. Expected untargeted attacks.*Attack.run"):
        athe_tf.evaluate(linear, IMAGES, predictions(linear, IMAGES), **settings(attacks=[attack]))


def test_an_attack_at_a_smaller_radius_does_not_decide_the_headline(linear):
    y = predictions(linear, IMAGES)
    small = attacks.CWLinf(0.01, steps=5)
    result = athe_tf.evaluate(linear, IMAGES, y, **settings(epsilon=0.2, attacks=[small]))
    assert [one.id for one in result.warnings] == ["radius-not-covered"]
    assert "withstand cw-linf @ 0.01 within linf 0.01. No attack was run on all" in result.verdict
    assert "the robustness within linf 0.2 is unknown" in result.verdict
    assert "over all attacks up to 0.01" in repr(result)
    both = athe_tf.evaluate(linear, IMAGES, y, **settings(epsilon=0.2, attacks=[small, "fgsm"]))
    assert not both.warnings and "within linf 0.2." in both.verdict
    assert both.worst_case_accuracy == np.mean(both["cw-linf @ 0.01"].robust & both["fgsm"].robust)


def test_attacks_in_another_norm_or_on_a_few_images_do_not_cover_the_headline(linear):
    y = predictions(linear, IMAGES)
    other = athe_tf.evaluate(linear, IMAGES, y, **settings(attacks=[attacks.PGD(0.1, "l2", steps=2)]))
    assert [one.id for one in other.warnings] == ["radius-not-covered"]
    assert other.worst_case_accuracy is None and "robustness is unknown" in other.verdict
    few = athe_tf.evaluate(linear, IMAGES, y, **settings(attacks=[AttackSpec("fgsm", limit=10)]))
    assert [one.id for one in few.warnings] == ["radius-not-covered"]


@pytest.mark.parametrize("name", ["max_examples", "batch_size"])
@pytest.mark.parametrize("value", [-5, 0, np.int64(-1), 2.5, "3", True])
def test_numbers_of_images_are_checked_as_on_the_command_line(linear, name, value):
    y = predictions(linear, IMAGES)
    with pytest.raises(InputError, match=f"{name} must be"):
        athe_tf.evaluate(linear, IMAGES, y, **settings(**{name: value}))
    if name == "batch_size":
        with pytest.raises(InputError, match="Expected an integer of at least 1"):
            attacks.FGSM(0.1).run(linear, IMAGES, y, batch_size=value)


LEVELS = np.rint(255 * IMAGES).astype("uint8")


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("form", ["dict", "tuple", "column of labels"])
def test_data_sets_are_read_in_the_form_of_tfds_and_without_batches(linear, dtype, batched, form):
    y = predictions(linear, LEVELS / np.float32(255))
    x = LEVELS if dtype == "uint8" else LEVELS / np.float32(255)
    parts = {"image": x, "label": y, "id": np.arange(60)}
    labels = y if form == "tuple" else y[:, np.newaxis]
    data = tf.data.Dataset.from_tensor_slices(parts if form == "dict" else (x, labels))
    result = athe_tf.evaluate(linear, data.batch(7) if batched else data, **settings(max_examples=50))
    plain = athe_tf.evaluate(linear, LEVELS[:50] / np.float32(255), y[:50], **settings())
    assert result.clean_accuracy == 1.0 and result.examples == 50
    np.testing.assert_array_equal(result["fgsm"].robust, plain["fgsm"].robust)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((IMAGES, np.zeros(60, int), np.ones(60)), "Expected a tf.data.Dataset of .image, label."),
        (IMAGES, "Expected a tf.data.Dataset"),
        ({"picture": IMAGES, "label": np.zeros(60, int)}, "'image' and 'label'. Received.*picture"),
        (((LEVELS > 128).astype("uint8"), np.zeros(60, int)), "nothing but 0 and 1"),
        ((255 * IMAGES, np.zeros(60, int)), "Divide them by 255"),
        ((["a.png", "b.png"], [0, 1]), "Expected images of shape .* dtype string. Decode them"),
    ],
)
def test_data_sets_of_other_elements_are_refused(linear, parts, message):
    with pytest.raises(InputError, match=message):
        athe_tf.evaluate(linear, tf.data.Dataset.from_tensor_slices(parts), **settings())


@pytest.mark.parametrize("batched", [True, False])
def test_data_sets_of_unknown_shapes_are_read(linear, batched):
    def elements():
        yield from [(IMAGES[:7], y[:7]), (IMAGES[7:20], y[7:20])] if batched else zip(IMAGES, y, strict=True)

    y = predictions(linear, IMAGES)
    data = tf.data.Dataset.from_generator(elements, (tf.float32, tf.int32))
    assert athe_tf.evaluate(linear, data, **settings(max_examples=20)).clean_accuracy == 1.0


def fails(index):
    raise ValueError("no such file" if index else "boom")


@pytest.mark.parametrize(
    ("elements", "message"),
    [
        (
            lambda: iter([(IMAGES[:3], [0, 1, 2]), (IMAGES[:2, 1:], [0, 1])]),
            "Expected images of one size. Resize",
        ),
        (lambda: map(fails, range(3)), "cannot be read: boom. Mend its pipeline."),
    ],
)
def test_data_sets_that_cannot_be_read_say_why(linear, elements, message):
    data = tf.data.Dataset.from_generator(elements, (tf.float32, tf.int32))
    with pytest.raises(InputError, match=message):
        athe_tf.evaluate(linear, data, **settings())


def test_a_data_set_without_an_end_is_refused_unless_a_part_is_asked_for(linear):
    data = tf.data.Dataset.from_tensor_slices((IMAGES, predictions(linear, IMAGES))).batch(7).repeat()
    with pytest.raises(InputError, match=r"never ends.*Remove dataset.repeat\(\), or set max_examples"):
        athe_tf.evaluate(linear, data, **settings())
    assert athe_tf.evaluate(linear, data, **settings(max_examples=70)).examples == 70


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (
            lambda z: {"logits": z, "other": z},
            r"one tensor.*dict of 'logits', 'other'.*model\(x\)\['logits'\]",
        ),
        (lambda z: [z, z], r"one tensor.*list of 2.*model\(x\)\[0\]"),
        (lambda z: z[:, :1], "has one output per image. Expected one logit for each of at least 2 classes"),
        (lambda z: tf.nn.softmax(z), "probabilities"),
        (lambda z: tf.nn.softmax(tf.cast(z, tf.float16)), "probabilities"),
        (lambda z: tf.nn.softmax(tf.cast(z, tf.bfloat16)), "probabilities"),
    ],
)
def test_outputs_that_are_no_logits_are_named(linear, outputs, message):
    y = predictions(linear, IMAGES)
    with pytest.raises(InputError, match=message):
        athe_tf.evaluate(lambda x: outputs(linear(x)), IMAGES, y, **settings())


def test_half_precision_logits_are_no_probabilities_and_sigmoids_are_named(linear):
    y = predictions(linear, IMAGES)
    result = athe_tf.evaluate(lambda x: tf.cast(linear(x), tf.bfloat16), IMAGES, y, **settings())
    assert not result.warnings
    found = athe_tf.evaluate(lambda x: tf.sigmoid(linear(x)), IMAGES, y, **settings()).warnings
    assert [one.id for one in found] == ["sigmoid-outputs"]


def test_channels_in_the_wrong_place_are_named(linear):
    y = predictions(linear, IMAGES)
    with pytest.raises(InputError, match=r"channels are in the wrong place. Wrap it.*\[0, 3, 1, 2\]"):
        athe_tf.evaluate(lambda x: linear(tf.ensure_shape(tf.transpose(x, [0, 2, 3, 1]), [None, 4, 5, 2])),
                         IMAGES, y, **settings())  # fmt: skip
    with pytest.raises(InputError, match=r"Move the channels of the images.*transpose\(0, 2, 3, 1\)"):
        images = IMAGES.transpose(0, 3, 1, 2)
        athe_tf.evaluate(lambda x: linear(tf.ensure_shape(x, [None, 4, 5, 2])), images, y, **settings())


def test_a_model_that_predicts_one_class_is_said_so_in_the_verdict(linear):
    y = np.arange(60) % 5
    result = athe_tf.evaluate(lambda x: linear(x) * 1e-3 + [0, 0, 0, 9.0, 0], IMAGES, y, **settings())
    assert [one.id for one in result.warnings] == ["majority-class"]
    assert "The model predicts class 3 for 100% of the images" in result.verdict
    assert result.clean_accuracy == 0.2 and result.majority is None
    # A model that is right about images of one class only is not blamed.
    right = athe_tf.evaluate(lambda x: linear(x) * 1e-3 + [0, 0, 0, 9.0, 0], IMAGES, 0 * y + 3, **settings())
    assert not right.warnings


@pytest.mark.parametrize(
    ("counts", "shown"),
    [
        ([40, 5, 5, 5, 5], True),
        ([12, 12, 12, 12, 12], False),
        ([14, 12, 12, 11, 11], False),  # less than five points above 20%
        ([16, 11, 11, 11, 11], False),  # six points above, which chance explains: from 17.1%
        ([22, 10, 10, 9, 9], True),  # 36.7%, from 25.6%
    ],
)
def test_the_share_of_the_largest_class_is_shown_if_classes_are_unequal(linear, counts, shown):
    result = athe_tf.evaluate(linear, IMAGES, np.repeat(np.arange(5), counts), **settings())
    sentence = f"Class 0 has {counts[0] / 60:.1%} of the images"
    assert (sentence in repr(result)) == (sentence in athe_tf.report.render(result)) == shown


def test_a_result_records_which_images_it_is_about(linear):
    y = predictions(linear, IMAGES)
    found = [
        athe_tf.evaluate(linear, (x, labels), attacks=["fgsm"], epsilon=0.1, checks=False).images_fingerprint
        for x, labels in ((IMAGES, y), (IMAGES.copy(), y), (IMAGES[:, ::-1], y), (IMAGES, (y + 1) % 5))
    ]
    assert found[0] == found[1] and len(set(found)) == 3 and found[0].startswith("60 images, digest ")
