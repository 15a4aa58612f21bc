"""Every cell of the tables of a page, by row and column; every bar and point with its own number."""

import pytest

from athe_tf.drawing.charts import Bar
from athe_tf.report import attack_sections
from athe_tf.report.attack_sections import HEAD
from athe_tf.report.comparison import compare
from athe_tf.report.model_card import model_card
from athe_tf.report.model_sections import MOST_EXAMPLES, images, lines
from athe_tf.report.pages import render, render_comparison
from athe_tf.report.reading import SavedEvaluation, read_evaluation
from athe_tf.report.robustbench import model_info
from athe_tf.results.attack_outcome import AttackOutcome
from athe_tf.results.charts import ATTACKED, CLEAN, OUTSIDE, WORST, bars, worst_case
from athe_tf.results.result import Result
from tests.page_parts import Page
from tests.report_case import CONFIG, example_images, full_evaluation, small_evaluation, write_evaluation

NOTHING = "\N{EN DASH}"


def attack(name, accuracy, interval, **more):
    """An attack, no two of whose numbers are equal."""
    return {
        "name": name, "accuracy": accuracy, "interval": interval, "examples": 100, "seconds": 12.0,
        "queries": 2150, "gradients": 2040, "nonfinite_gradients": 0, "median_norm": 0.0123, "epsilon": 0.2,
        "settings": {"norm": "linf", "steps": 20}, "in_worst_case": True, **more,
    }  # fmt: skip


def distinct() -> dict:
    """An evaluation in which no number stands for another one."""
    stages = [{"name": "apgd-ce", "accuracy": 0.56, "seconds": 3.0}]
    return small_evaluation(
        0.41,
        clean_accuracy=0.92,
        clean_interval=[0.86, 0.96],
        worst_case_interval=[0.34, 0.48],
        attacks=[
            attack("fgsm", 0.61, [0.51, 0.71], eight_bit={"tested": 40, "still_adversarial": 10}),
            attack("autoattack", 0.52, [0.42, 0.62], stages=stages, examples=200, queries=900),
            attack("spatial", 0.31, [0.21, 0.43], in_worst_case=False, median_norm=None),
            attack("pgd-20", 0.71, [0.63, 0.79], epsilon=0.1),
            {"name": "feature", "not_run": "no features"},
        ],
    )


def test_every_row_of_the_attacks_has_its_own_numbers():
    head, *rows = Page(render(distinct())).tables["Accuracy on 200 images"]
    assert head == list(HEAD)
    assert rows == [
        ["clean", "92.00%", "86.0 to 96.0", "", "", "", "", "", ""],
        ["fgsm", "61.00%", "51.0 to 71.0", "0.2", "12.0 s", "21.5", "20.4", "0.0123", "25.00%"],
        ["autoattack", "52.00%", "42.0 to 62.0", "0.2", "12.0 s", "4.5", "10.2", "0.0123", ""],
        ["after apgd-ce", "56.00%", "", "", "3.0 s", "", "", "", ""],
        ["spatial *", "31.00%", "21.0 to 43.0", "0.2", "12.0 s", "21.5", "20.4", NOTHING, ""],
        ["pgd-20", "71.00%", "63.0 to 79.0", "0.1", "12.0 s", "21.5", "20.4", "0.0123", ""],
        ["feature", "not run", "", "", "", "", "", "", ""],
        ["worst case", "41.00%", "34.0 to 48.0", "", "", "", "", "", ""],
    ]


def test_what_is_unusual_about_an_attack_is_said_of_that_attack():
    data = distinct()
    data["attacks"][3] |= {"nonfinite_gradients": 1234, "remarks": ["ran out of steps"]}
    text = Page(render(data)).text
    for note in (
        "fgsm : on the first 100 images only",
        "pgd-20 : ran out of steps",
        "feature : not run: no features",
    ):
        assert note in text
    assert "pgd-20 : 1,234 gradients were not finite" in text
    assert "autoattack : on the first" not in text  # it was run on all 200


CURVE = [
    {"epsilon": 0.0, "accuracy": 0.92, "interval": [0.86, 0.96]},
    {"epsilon": 0.1, "accuracy": 0.71, "interval": [0.63, 0.79]},
    {"epsilon": 0.2, "accuracy": 0.41, "interval": [0.34, 0.48]},
]


def test_with_a_curve_other_radii_have_a_table_of_their_own():
    page = Page(render({**distinct(), "curve": CURVE}))
    assert [row[0] for row in page.tables["Accuracy at other epsilons"]] == ["", "pgd-20"]
    assert "pgd-20" not in [row[0] for row in page.tables["Accuracy on 200 images"]]
    assert page.tables["The points of the curve"] == [
        ["epsilon", "accuracy", "95% interval"],
        ["0", "92.00%", "86.0 to 96.0"],
        ["0.1", "71.00%", "63.0 to 79.0"],
        ["0.2", "41.00%", "34.0 to 48.0"],
    ]


def test_a_curve_has_its_points_in_a_band_of_its_intervals():
    drawn = worst_case(CURVE)
    assert drawn.points == [(0.0, 0.92), (0.1, 0.71), (0.2, 0.41)]
    assert drawn.band == [(0.0, 0.86, 0.96), (0.1, 0.63, 0.79), (0.2, 0.34, 0.48)]


def test_bars_have_the_intervals_of_their_rows_and_the_color_of_their_kind():
    assert bars(Result.from_dict(distinct())) == [
        Bar("clean", 0.92, [0.86, 0.96], CLEAN),
        Bar("fgsm", 0.61, [0.51, 0.71], ATTACKED),
        Bar("autoattack", 0.52, [0.42, 0.62], ATTACKED),
        Bar("spatial", 0.31, [0.21, 0.43], OUTSIDE),
        Bar("pgd-20 @ 0.1", 0.71, [0.63, 0.79], ATTACKED),
        Bar("worst case", 0.41, [0.34, 0.48], WORST),
    ]
    assert [bar.label for bar in bars(Result.from_dict({**distinct(), "curve": CURVE}))] == [
        "clean", "fgsm", "autoattack", "spatial", "worst case"
    ]  # fmt: skip


def test_the_model_card_has_the_cells_of_the_page():
    card = model_card(SavedEvaluation(Result.from_dict(distinct())))
    table = [line for line in card.splitlines() if line.startswith("| ")]
    assert table[2:] == [
        "| clean |  | 92.00% | 86.0 to 96.0 |",
        "| fgsm | 0.2 | 61.00% | 51.0 to 71.0 |",
        "| autoattack | 0.2 | 52.00% | 42.0 to 62.0 |",
        "| spatial \\* | 0.2 | 31.00% | 21.0 to 43.0 |",
        "| pgd-20 | 0.1 | 71.00% | 63.0 to 79.0 |",
        "| feature | 0.2 | not run | no features |",
        "| **worst case** | 0.2 | **41.00%** | 34.0 to 48.0 |",
    ]


def test_robustbench_gets_the_clean_the_worst_and_the_autoattack_accuracy_each_in_its_place():
    info = model_info(SavedEvaluation(Result.from_dict(distinct())))
    assert (info["clean_acc"], info["reported"], info["autoattack_acc"]) == ("92.00", "41.00", "52.00")
    assert info["eps"] == "0.2" and info["dataset"] == "digits"
    assert info["footnote"] == "Measured on 200 images of digits (test)."


def test_classes_transfer_conversion_and_cross_examination_are_not_transposed():
    data = distinct() | {
        "classes": 3,
        "per_class": {"clean": [0.9, None, 0.8], "worst_case": [0.3, None, 0.4], "count": [60, 0, 140]},
        "transfer": {
            "sources": ["a", "b"], "targets": ["x", "y", "z"], "accuracy": [[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]],
        },
        "verify": [{"tool": "art", "attack": "fgsm", "ours": 0.6, "theirs": 0.7, "difference": -0.1}],
        "conversion": {
            **full_evaluation()["conversion"], "clean_accuracy": 0.95, "worst_case_accuracy": 0.38
        },
    }  # fmt: skip
    page = Page(render(data))
    assert page.tables["Accuracy by class"] == [
        ["class", "clean %", "worst case %", "images"],
        ["0", "90.00", "30.00", "60"],
        ["1", NOTHING, NOTHING, "0"],
        ["2", "80.00", "40.00", "140"],
    ]
    # The weakest by the worst case, not by the clean accuracy, nor by the number of images.
    assert "The weakest class (worst case) is 0, with 30.0%." in page.text
    assert page.tables["Accuracy in % under transfer"] == [
        ["crafted on", "x", "y", "z"], ["a", "10.0", "20.0", "30.0"], ["b", "40.0", "50.0", "60.0"]
    ]  # fmt: skip
    assert page.tables["Cross-examination"][1] == ["art, fgsm", "60.00%", "70.00%", "-10.00 points"]
    assert page.tables["The file and its parent"][1:] == [
        ["clean", "92.00%", "95.00%"], ["worst case", "41.00%", "38.00%"]
    ]  # fmt: skip


def test_corruptions_are_by_name_and_severity_and_a_missing_cell_is_not_zero():
    corruptions = {
        "severities": [1, 3],
        "accuracy": {"gaussian_noise": [0.8, 0.6], "fog": [0.5, None]},
        "groups": {"noise": 0.7, "weather": 0.5},
        "mca": 0.65,
        "mce": 0.55,
    }
    page = Page(render({**distinct(), "corruptions": corruptions}))
    assert page.tables["Accuracy in % by corruption and severity"] == [
        ["", "severity 1", "severity 3", "mean"],
        ["gaussian noise", "80.0", "60.0", "70.0"],
        ["fog", "50.0", NOTHING, "50.0"],
    ]
    assert "Mean corruption accuracy (mCA) 65.00% and mean corruption error (mCE) 55.00%" in page.text
    assert "These are the published images." in page.text


def test_of_many_classes_the_lowest_are_shown_in_numerical_order():
    accuracies = [1.0 - 0.01 * number for number in range(30)]
    assert attack_sections.lowest(list(range(30)), accuracies) == list(range(10, 30))
    # All that fit are shown.
    assert attack_sections.lowest(list(range(20)), accuracies) == list(range(20))


def test_angles_of_clean_and_adversarial_images_keep_their_histograms():
    angles = {
        "edges": [0, 10, 20, 30], "true": [4, 0, 0], "nearest_wrong": [0, 0, 4],
        "adversarial": {"true": [0, 4, 0], "nearest_wrong": [2, 2, 0]},
    }  # fmt: skip
    text = Page(render({**distinct(), "angles": angles})).text
    assert "Clean images; mean angles: true class 5.0°, nearest wrong class 25.0°." in text
    assert "Adversarial images; mean angles: true class 15.0°, nearest wrong class 10.0°." in text


def test_calibration_errors_are_those_of_their_images():
    bins = [{"confidence": 0.5, "accuracy": 0.5, "count": 1}]
    found = {"clean": {"ece": 0.01, "bins": bins}, "adversarial": {"ece": 0.33, "bins": bins}}
    text = Page(render({**distinct(), "calibration": found})).text
    assert "Clean images: expected calibration error 1.0%." in text
    assert "Adversarial images: expected calibration error 33.0%." in text


def test_learning_curves_are_those_of_their_columns():
    rows = [{"epoch": 3, "clean_accuracy": 0.1, "robust_accuracy": 0.2, "val_clean_accuracy": 0.3},
            {"epoch": 4, "clean_accuracy": 0.5, "val_robust_accuracy": 0.6}]  # fmt: skip
    names = {"clean_accuracy": "a", "robust_accuracy": "b", "val_loss": "c"}
    found = {one.name: list(one.points) for one in lines(rows, names)}
    assert found == {"a": [(3, 0.1), (4, 0.5)], "b": [(3, 0.2)]}


def test_the_first_examples_are_shown_and_no_more_than_fit():
    examples = example_images(MOST_EXAMPLES + 3, size=2)
    result = Result.from_dict(distinct())
    result.pictures = examples
    page = Page("".join(images(SavedEvaluation(result))))
    assert len(page.all("img")) == 3 * MOST_EXAMPLES == 36
    # Example 1 has class 1, is taken for 1 when clean and for 4 after the attack, and has a norm of 0.1.
    assert "class 1, perturbation 0.1 clean: 1 autoattack: 4 difference \N{MULTIPLICATION SIGN}5" in page.text
    pictures = [image["alt"] for image in page.all("img")]
    assert pictures[3:6] == [
        "Clean image of class 1",
        "The same image after autoattack, classified as 4",
        "Their difference, amplified",
    ]


@pytest.mark.parametrize("epsilon, same", [(0.2, True), (0.2 + 1e-12, True), (0.2 + 1e-6, False)])
def test_an_attack_of_the_evaluations_radius_is_recognized_up_to_rounding(epsilon, same):
    result = Result.from_dict(distinct())
    assert result.at_headline(AttackOutcome("fgsm", None, epsilon=epsilon)) is same
    assert result.at_headline(AttackOutcome("fgsm", None))  # by default that of the evaluation


def test_cells_of_a_comparison_are_by_model_and_attack(tmp_path):
    trades, pgd = {**CONFIG}, {**CONFIG, "framework": "pgd_at", "head": "linear"}
    other = distinct() | {"clean_accuracy": 0.87, "clean_interval": [0.81, 0.9]}
    folders = [
        write_evaluation(tmp_path / "a", distinct(), trades),
        write_evaluation(tmp_path / "b", other, pgd),
    ]
    page = Page(render_comparison(compare([read_evaluation(folder) for folder in folders])))
    head, first, second = page.tables["Accuracy in %"]
    assert head == ["", "clean", "fgsm", "autoattack", "spatial", "pgd-20 @ 0.1", "worst case"]
    assert first == [
        "trades + he", "92.00 86.0 to 96.0", "61.00 51.0 to 71.0", "52.00 42.0 to 62.0", "31.00 21.0 to 43.0",
        "71.00 63.0 to 79.0", "41.00 34.0 to 48.0",
    ]  # fmt: skip
    assert second[:2] == ["pgd_at", "87.00 81.0 to 90.0"] and second[2:] == first[2:]
    best = [cell for cell in page.all("td") if "best" in cell.get("class", "")]
    assert len(best) == 1 + 2 * 5  # the higher clean accuracy, and all that are equal
    assert page.tables["Training settings that differ"] == [
        ["", "settings"], ["trades + he", "head he, framework trades"],
        ["pgd_at", "head linear, framework pgd_at"],
    ]  # fmt: skip
    assert [row[:4] for row in page.tables["Sources of the rows"][1:]] == [
        [name, "digits\N{NO-BREAK SPACE}(test)", "linf,\N{NO-BREAK SPACE}epsilon\N{NO-BREAK SPACE}0.2", "200"]
        for name in ("trades + he", "pgd_at")
    ]
