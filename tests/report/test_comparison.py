"""Several evaluations side by side."""

import json
import math
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import binomtest, ttest_ind, ttest_rel

import athe_tf
from athe_tf.report.comparison import Cell, compare, overlap
from athe_tf.report.pages import render_comparison
from athe_tf.report.reading import read_evaluation
from athe_tf.results.intervals import mcnemar, paired_interval
from tests.page_parts import Page
from tests.report_case import CONFIG, small_evaluation, write_evaluation

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRADES = {**CONFIG}
PGD = {**CONFIG, "framework": "pgd_at", "head": "linear"}


def evaluations(tmp_path, *described):
    """Reads back `(name, evaluation, config)`."""
    return [
        read_evaluation(write_evaluation(tmp_path / name, data, config)) for name, data, config in described
    ]


def seeds(name, config, accuracies, **changes):
    return [
        (f"{name}{seed}", small_evaluation(share, **changes), {**config, "seed": seed})
        for seed, share in enumerate(accuracies)
    ]


def test_seeds_become_a_mean_and_a_standard_deviation(tmp_path):
    shares = [0.60, 0.63, 0.612]
    found = compare(evaluations(tmp_path, *seeds("a", TRADES, shares), ("b", small_evaluation(0.5), PGD)))
    assert [row.label for row in found.rows] == ["trades + he", "pgd_at"]
    assert found.columns == ("clean", "pgd-20", "worst case") and found.warnings == ()
    cell = found.rows[0].cell("worst case")
    assert cell.mean == pytest.approx(np.mean(shares))
    assert cell.deviation == pytest.approx(np.std(shares, ddof=1))
    assert cell.interval is None
    single = found.rows[1].cell("worst case")
    assert single.deviation is None and single.interval == pytest.approx((0.43, 0.57))


def test_the_table_reads_like_one_of_a_paper(tmp_path):
    found = compare(
        evaluations(tmp_path, *seeds("a", TRADES, [0.6, 0.62]), ("b", small_evaluation(0.5), PGD))
    )
    lines = str(found).splitlines()
    assert lines[0].split() == ["accuracy", "in", "%", "clean", "pgd-20", "worst", "case"]
    assert lines[2].split("  ")[-1] == "61.00 ± 1.41"
    assert lines[3].split()[-1] == "50.00"
    assert len({len(line) for line in lines[:4]}) == 1
    assert "mean and standard deviation of seeds 0, 1" in str(found)


def test_only_the_seed_may_differ_within_a_row(tmp_path):
    other = {**TRADES, "scale": 10.0, "seed": 1}
    elsewhere = {**TRADES, "seed": 2, "workdir": "/somewhere/else", "data_dir": "x"}
    found = compare(
        evaluations(
            tmp_path,
            ("a", small_evaluation(0.5), TRADES),
            ("b", small_evaluation(0.5), other),
            ("c", small_evaluation(0.5), elsewhere),
        )
    )
    assert [row.label for row in found.rows] == ["trades + he (scale 15)", "trades + he (scale 10)"]
    assert found.rows[0].seeds == [0, 2]


def test_a_setting_that_only_one_run_has_is_named_in_both_rows(tmp_path):
    other = {**TRADES, "options": {"beta": 3.0}, "seed": 1}
    plain = {**TRADES, "options": {}}
    found = compare(
        evaluations(tmp_path, ("a", small_evaluation(0.5), plain), ("b", small_evaluation(0.5), other))
    )
    assert [row.label for row in found.rows] == ["trades + he (beta 6)", "trades + he (beta 3)"]


@pytest.mark.parametrize(
    "changes", [{"epsilon": "0.1"}, {"norm": "l2"}, {"dataset": "cifar10 (test)"}, {"examples": 100}]
)
def test_seeds_that_were_measured_in_another_way_are_not_averaged(changes, tmp_path):
    two = [
        ("a0", small_evaluation(0.5), TRADES),
        ("a1", small_evaluation(0.6, **changes), {**TRADES, "seed": 1}),
    ]
    assert [row.seeds for row in compare(evaluations(tmp_path, *two)).rows] == [[0], [1]]


def test_seeds_that_were_attacked_in_another_way_are_not_averaged(tmp_path):
    other = small_evaluation(0.6)
    other["attacks"][0]["settings"]["steps"] = 7
    two = [("a0", small_evaluation(0.5), TRADES), ("a1", other, {**TRADES, "seed": 1})]
    assert [row.seeds for row in compare(evaluations(tmp_path, *two)).rows] == [[0], [1]]


def test_another_radius_is_said_once(tmp_path):
    """Not again as a setting of every attack."""
    other = small_evaluation(0.6, epsilon="0.1", norm="l2")
    other["attacks"][0] |= {"epsilon": 0.1, "settings": {**other["attacks"][0]["settings"], "norm": "l2"}}
    other["attacks"][0]["settings"]["epsilon"] = 0.1
    found = compare(evaluations(tmp_path, ("a", small_evaluation(0.5), TRADES), ("b", other, PGD)))
    assert [warning.split(":")[0] for warning in found.warnings] == [
        "Not comparable, different epsilons", "Not comparable, different norms"
    ]  # fmt: skip


def test_the_same_seed_twice_is_not_averaged(tmp_path):
    found = compare(
        evaluations(tmp_path, ("a", small_evaluation(0.5), TRADES), ("b", small_evaluation(0.6), TRADES))
    )
    assert [row.label for row in found.rows] == ["trades + he [1]", "trades + he [2]"]
    assert "the same seed, and are not averaged" in found.warnings[0]


def test_models_without_a_run_are_rows_of_their_own(tmp_path):
    found = compare(
        evaluations(
            tmp_path, ("a", small_evaluation(0.5), None), ("b", small_evaluation(0.6, model="x"), None)
        )
    )
    assert [row.label for row in found.rows] == ["best.keras", "x"] and found.warnings == ()


@pytest.mark.parametrize(
    "changes, message",
    [
        (
            {"dataset": "cifar10 (test)"},
            "different data: digits (test) (trades + he); cifar10 (test) (pgd_at)",
        ),
        ({"epsilon": "0.1"}, "different epsilons: 0.2 (trades + he); 0.1 (pgd_at)"),
        ({"norm": "l2"}, "different norms: linf"),
        ({"examples": 100}, "different numbers of images: 200 (trades + he); 100 (pgd_at)"),
        ({"labels": [1, 0]}, "different images: the labels of the evaluations differ"),
        ({"attacks": []}, "worst cases over different attacks: pgd-20 (trades + he); none (pgd_at)"),
    ],
)
def test_rows_that_cannot_be_compared_are_named(changes, message, tmp_path):
    one = ("a", small_evaluation(0.5, labels=[0, 1]), TRADES)
    found = compare(evaluations(tmp_path, one, ("b", small_evaluation(0.6, **changes), PGD)))
    assert any(message in warning for warning in found.warnings), found.warnings
    assert found.best("worst case") is None
    page = Page(render_comparison(found))
    assert "no winner is named" in page.text and "td.best" not in page.text
    assert not [cell for cell in page.all("td") if "best" in cell.get("class", "")]


def test_an_attack_that_was_run_in_another_way_is_named(tmp_path):
    weak = small_evaluation(0.6)
    weak["attacks"][0]["settings"].update(logit_scale=1, steps=7)
    found = compare(evaluations(tmp_path, ("a", small_evaluation(0.5), TRADES), ("b", weak, PGD)))
    assert found.warnings == ("Not comparable, pgd-20 was run with different settings: steps, logit_scale.",)


def test_columns_that_a_row_lacks_stay_empty(tmp_path):
    more = small_evaluation(0.6)
    more["attacks"].append({**more["attacks"][0], "name": "fgsm"})
    more["attacks"].append({**more["attacks"][0], "epsilon": 0.1, "accuracy": 0.8})
    more["corruptions"] = {"severities": [1], "accuracy": {"fog": [0.5]}, "mca": 0.5}
    found = compare(evaluations(tmp_path, ("a", small_evaluation(0.5), TRADES), ("b", more, PGD)))
    assert found.columns == ("clean", "pgd-20", "fgsm", "pgd-20 @ 0.1", "worst case", "mCA")
    assert found.rows[0].cell("fgsm") is None
    assert found.rows[1].cell("pgd-20 @ 0.1").mean == 0.8


def test_the_verdict_says_when_a_difference_is_within_the_uncertainty(tmp_path):
    clear = compare(evaluations(tmp_path, *seeds("a", TRADES, [0.6, 0.61]), *seeds("b", PGD, [0.5, 0.51])))
    page = Page(render_comparison(clear))
    assert (
        "trades + he is the most robust, with 60.50 ± 0.71% in the worst case, ahead of pgd_at" in page.text
    )
    assert "within the uncertainty" not in page.text
    assert len([cell for cell in page.all("td") if "best" in cell.get("class", "")]) == 4  # clean is a tie
    close = compare(
        evaluations(tmp_path, ("c", small_evaluation(0.5), TRADES), ("d", small_evaluation(0.52), PGD))
    )
    assert "within the uncertainty" in Page(render_comparison(close)).text


def test_corruptions_are_shown_side_by_side(tmp_path):
    def measured(noise):
        groups = {"noise": noise, "blur": 0.5}
        part = {"severities": [1], "accuracy": {"fog": [0.5]}, "groups": groups, "mca": 0.5}
        return small_evaluation(0.9, attacks=[], corruptions=part)

    found = compare(
        evaluations(
            tmp_path,
            ("a0", measured(0.6), TRADES),
            ("a1", measured(0.7), {**TRADES, "seed": 1}),
            ("b", measured(0.2), PGD),
        )
    )
    page = Page(render_comparison(found))
    assert found.columns == ("clean", "mCA")  # without an attack there is no worst case
    assert "noise blur trades + he 65.00 50.00 pgd_at 20.00 50.00" in page.text
    assert "so robustness is unknown" in page.text


def test_bounds_overlap_when_they_meet():
    assert overlap(Cell((0.5,), (0.4, 0.6)), Cell((0.7,), (0.6, 0.8)))
    assert not overlap(Cell((0.5,), (0.4, 0.59)), Cell((0.7,), (0.6, 0.8)))
    # 0.5 and 0.6 have the mean 0.55 and the standard deviation 0.0707.
    assert overlap(Cell((0.5, 0.6)), Cell((0.7,), (0.62, 0.8)))
    assert not overlap(Cell((0.5, 0.6)), Cell((0.7,), (0.621, 0.8)))


def test_curves_and_settings_that_differ_are_shown(tmp_path):
    curve = [{"epsilon": e, "accuracy": a, "interval": [a, a]} for e, a in ((0.0, 0.9), (0.2, 0.5))]
    found = compare(
        evaluations(
            tmp_path,
            ("a", small_evaluation(0.5, curve=curve), TRADES),
            ("b", small_evaluation(0.6, curve=curve), PGD),
        )
    )
    page = Page(render_comparison(found))
    assert page.sections() == ["accuracy", "differences", "bars", "curve", "settings", "sources"]
    assert "head he, framework trades" in page.text and "scale" not in page.text
    assert not page.all("script") and all(link["href"].startswith("#") for link in page.all("a"))


# -- pooling, the common attacks, differences ----------------------------------------------------------------


def flagged(*robust, attacks=("pgd-20",), **changes):
    """An evaluation with flags per image: one text of 0 and 1 for each attack."""
    clean = changes.pop("clean", "1" * len(robust[0]))
    data = small_evaluation(0.5, examples=len(clean), **changes)
    (pgd,) = data["attacks"]
    data["attacks"] = [{**pgd, "name": name, "examples": len(clean)} for name in attacks]
    data["flags"] = {"clean": clean, **dict(zip(attacks, robust, strict=True))}
    return data


def test_settings_that_an_older_version_did_not_have_are_at_their_defaults(tmp_path):
    """A run of format 1 has the options of all frameworks, and lacks settings that were added later."""
    older = {**PGD, "beta": 6.0, "replays": 8, "llr_preset": "paper", "seed": 1}
    newer = {**PGD, "format": 2, "options": {}, "momentum": 0.9, "skip_corrupt": False}
    other = {**newer, "momentum": 0.8, "seed": 2}
    del older["format"]
    found = compare(evaluations(tmp_path, *(
        (name, small_evaluation(0.5), config) for name, config in (("a", older), ("b", newer), ("c", other))
    )))  # fmt: skip
    assert [(row.label, row.seeds) for row in found.rows] == [
        ("pgd_at (momentum 0.9)", [1, 0]), ("pgd_at (momentum 0.8)", [2])
    ]  # fmt: skip


def test_renamed_options_of_format_1_are_those_of_today(tmp_path):
    older = {**PGD, "framework": "llr", "llr_variant": "pre", "beta": 6.0}
    del older["format"]
    (found,) = evaluations(tmp_path, ("a", small_evaluation(0.5), older))
    assert found.config["variant"] == "pre" and not {"beta", "llr_variant"} & found.config.keys()


def test_worst_cases_are_over_the_attacks_that_all_models_have(tmp_path):
    one = flagged("1110", attacks=["pgd-20"])
    two = flagged("1101", "0001", attacks=["pgd-20", "adaptive-pgd-20"], worst_case_accuracy=0.25)
    found = compare(evaluations(tmp_path, ("a", one, PGD), ("b", two, TRADES)))
    assert found.warnings == ()
    assert [row.cell("worst case").values for row in found.rows] == [(0.5,), (0.75,)]  # the first is stored
    assert "pgd-20. Left out: adaptive-pgd-20" in found.notes[0] and found.notes[0] in str(found).replace(
        "\n  ", " "
    )


def test_an_attack_with_other_settings_is_no_common_attack(tmp_path):
    one, two = (flagged("1110", "1111", attacks=["pgd-20", "fgsm"]) for _ in range(2))
    two["attacks"][0]["settings"] = {**two["attacks"][0]["settings"], "steps": 7}
    found = compare(evaluations(tmp_path, ("a", one, PGD), ("b", two, TRADES)))
    assert [row.cell("worst case").mean for row in found.rows] == [1.0, 1.0]
    assert "fgsm. Left out: pgd-20." in found.notes[0]


def test_two_models_are_compared_image_by_image(tmp_path):
    """Of 40 images, 2 are newly broken and 9 newly robust."""
    before, after = "00" + "1" * 11 + "0" * 27, "00" + "00" + "1" * 18 + "0" * 18
    found = compare(evaluations(tmp_path, ("a", flagged(before), PGD), ("b", flagged(after), TRADES)))
    (one,) = found.differences
    assert (one.row, one.reference) == ("trades + he", "pgd_at")
    assert one.broken == (2, 3) and one.rescued == tuple(range(13, 22))
    assert one.p_value == pytest.approx(binomtest(2, 11).pvalue)
    # By hand: (9.5 - 2.5) / 42, and 1.96 times sqrt(((9.5 + 2.5) / 42 - (7 / 42)^2) / 42).
    assert one.interval == pytest.approx((0.01307, 0.32026), abs=1e-5) and one.is_clear
    page = Page(render_comparison(found)).text
    assert "(trades + he minus pgd_at): 2 2, 3" in page and "9 13, 14, 15, 16, 17, 18, 19, 20, 21" in page
    assert str(one).endswith(
        "2 images newly broken (2, 3), 9 images newly robust (13, 14, 15, 16, 17, 18, …)"
    )


def test_several_seeds_are_compared_by_a_paired_t(tmp_path):
    first, second = [0.50, 0.52, 0.55], [0.53, 0.56, 0.57]
    runs = [*seeds("a", PGD, first), *reversed(seeds("b", TRADES, second))]
    (one,) = compare(evaluations(tmp_path, *runs)).differences
    expected = ttest_rel(second, first).confidence_interval(0.95)
    assert one.value == pytest.approx(0.03) and one.interval == pytest.approx(tuple(expected))
    assert one.test == "paired t over 3 seeds" and one.is_clear


def test_other_seeds_are_compared_by_welchs_t(tmp_path):
    first, second = [0.50, 0.52, 0.55], [0.53, 0.60]
    (one,) = compare(evaluations(tmp_path, *seeds("a", PGD, first), *seeds("b", TRADES, second))).differences
    expected = ttest_ind(second, first, equal_var=False).confidence_interval(0.95)
    assert one.interval == pytest.approx(tuple(expected)) and one.test.startswith("Welch's t, 3 and 2")


def test_an_image_changes_sides_only_if_it_does_so_in_every_seed(tmp_path):
    runs = [("a", ["1100", "1101"], PGD), ("b", ["0011", "0110"], TRADES)]
    described = [
        (f"{name}{seed}", flagged(flags), {**config, "seed": seed})
        for name, several, config in runs
        for seed, flags in enumerate(several)
    ]
    (one,) = compare(evaluations(tmp_path, *described)).differences
    assert (one.broken, one.rescued) == ((0,), (2,)) and one.p_value is None


def test_one_seed_against_several_is_not_tested(tmp_path):
    runs = [*seeds("a", PGD, [0.5, 0.52]), ("b", small_evaluation(0.7), TRADES)]
    (one,) = compare(evaluations(tmp_path, *runs)).differences
    assert one.interval is None and one.value == pytest.approx(0.19) and "not tested" in str(one)


def test_images_with_another_digest_cannot_be_compared(tmp_path):
    one, two = (small_evaluation(0.5, images_fingerprint=f"200 images, digest {d}") for d in "ab")
    found = compare(evaluations(tmp_path, ("a", one, PGD), ("b", two, TRADES)))
    assert found.warnings == ("Not comparable, different images: their digests differ.",)
    assert found.differences == []


@pytest.mark.parametrize("lost, won", [(0, 0), (2, 9), (7, 7), (0, 5)])
def test_mcnemars_test_is_a_binomial_test(lost, won):
    """By hand: twice the probability of at most that many of the smaller count, at even odds."""
    total, fewer = lost + won, min(lost, won)
    by_hand = 2 * sum(math.comb(total, k) for k in range(fewer + 1)) / 2**total
    assert mcnemar(lost, won) == pytest.approx(min(1.0, by_hand))


def test_the_paired_interval_covers_the_true_difference():
    """In 2,000 draws of 100 pairs with 5% lost and 15% won, about 95% of the intervals contain 10 points."""
    draws = np.random.default_rng(0).multinomial(100, [0.05, 0.15, 0.8], 2000)
    covered = [low <= 0.1 <= high for low, high in (paired_interval(a, b, 100) for a, b, _ in draws)]
    assert 0.93 < np.mean(covered) < 0.97


def test_no_line_is_wider_than_a_terminal(tmp_path):
    names = [f"an-attack-of-quite-some-length-{number}(steps=40,step_size=2/255)" for number in range(12)]
    one = flagged(*["1110"] * 12, attacks=names)
    configs = [{**TRADES, "options": {"beta": b}, "momentum": m, "scale": s, "weight_decay": w}
               for b, m, s, w in ((1.0, 0.8, 10.0, 1e-4), (2.0, 0.9, 15.0, 5e-4))]  # fmt: skip
    found = compare(evaluations(tmp_path, *((n, one, c) for n, c in zip("ab", configs, strict=True))))
    lines = str(found).splitlines()
    assert max(map(len, lines)) <= 160 and sum(line.startswith("accuracy in %") for line in lines) == 6
    assert [len(row.label) for row in found.rows] == [60, 60]


# -- the program --------------------------------------------------------------------------------------------


def program(*arguments, cwd):
    command = [sys.executable, str(ROOT / "bin" / "report"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=60)


def test_the_program_compares_and_prints_the_table(tmp_path):
    evaluations(tmp_path, *seeds("a", TRADES, [0.6, 0.62]), ("b", small_evaluation(0.5), PGD))
    done = program("a0", "a1", "b", cwd=tmp_path)
    assert done.returncode == 0 and done.stderr == ""
    assert "trades + he" in done.stdout and "61.00 ± 1.41" in done.stdout
    assert done.stdout.endswith("Written to comparison.html.\n")
    assert Page((tmp_path / "comparison.html").read_text()).sections()


def test_the_program_reports_on_one(tmp_path):
    evaluations(tmp_path, ("a", small_evaluation(0.5), TRADES))
    done = program("a", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for name in ("report.html", "model_card.md", "model_info.json"):
        assert f"Written to a/evaluation/{name}." in done.stdout
        assert (tmp_path / "a" / "evaluation" / name).stat().st_size > 0


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "Specify which evaluations to report on"),
        (["a", "a"], "Name each evaluation once. Received twice: a"),
        (["a", "nowhere"], "There is no folder 'nowhere'"),
        (["a", "broken"], "is not valid JSON"),
        (["a", "--output=x.html"], "--output is for comparisons"),
        (["a", "b", "--output=a/config.json/x.html"], "File exists: 'a/config.json'. Check the path"),
        (["a", "b", "--outptu=x"], "Did you mean 'output'"),
    ],
)
def test_the_program_refuses_bad_input(arguments, message, tmp_path):
    evaluations(tmp_path, ("a", small_evaluation(0.5), TRADES), ("b", small_evaluation(0.5), PGD))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "evaluation.json").write_text("{")
    refused = program(*arguments, cwd=tmp_path)
    assert refused.returncode == 2 and refused.stdout == ""
    assert "Traceback" not in refused.stderr and message in refused.stderr


def test_the_manual_names_the_folders(tmp_path):
    manual = program("--helpshort", cwd=tmp_path)
    assert manual.returncode == 0 and "FOLDERS: Folders of bin/evaluate" in manual.stdout
    assert "--folders" not in manual.stdout


def test_nothing_to_compare_is_an_error():
    with pytest.raises(athe_tf.InputError, match="nothing to compare"):
        compare([])


def test_a_comparison_is_plain_data(tmp_path):
    """Labels and folders are texts, so that others can put the table elsewhere."""
    found = compare(evaluations(tmp_path, ("a", small_evaluation(0.5), TRADES)))
    table = {row.label: {column: row.cell(column).mean for column in found.columns} for row in found.rows}
    assert json.loads(json.dumps(table)) == {"trades + he": {"clean": 0.9, "pgd-20": 0.5, "worst case": 0.5}}
