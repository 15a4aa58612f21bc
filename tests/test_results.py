"""results/ and docs/results.md: the files are complete, and the tables follow from them."""

import json
import re

import numpy as np
import pytest

from athe_tf.results.intervals import mean_interval
from athe_tf.utils.errors import InputError
from benchmarks.results_tables import (
    ROOT,
    RUNS,
    Run,
    accuracies,
    artifact,
    beside_autoattack,
    differences,
    filled,
    paired_interval,
    read_runs,
    summary,
    tables,
)

FOLDERS = sorted(path.parent for path in RUNS.glob("*/config.json"))
EVALUATIONS = sorted(RUNS.glob("*/evaluation*/evaluation.json"))
# The 97.5% quantile of Student's t with 2 degrees of freedom, from a printed table.
T2 = 4.30265


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_run_has_its_files(folder):
    for name in ("config.json", "flags.txt", "metrics.csv", "best.keras", "best.json"):
        assert (folder / name).is_file(), name
    assert (folder / "best.keras").stat().st_size < 500_000
    config = json.loads((folder / "config.json").read_text())
    assert len((folder / "metrics.csv").read_text().splitlines()) == 1 + config["epochs"]
    assert (folder / "ensemble.keras").is_file() == config["ensemble"]


@pytest.mark.parametrize("path", EVALUATIONS, ids=lambda path: path.parts[-3])
def test_an_evaluation_names_the_command_that_repeats_it(path):
    data = json.loads(path.read_text())
    folder = path.parent.relative_to(ROOT).as_posix()
    ensemble = json.loads((path.parents[1] / "config.json").read_text())["ensemble"]
    model = path.parents[1].relative_to(ROOT) / ("ensemble.keras" if ensemble else "best.keras")
    assert f"--model={model.as_posix()} " in data["command"]
    assert f"--output={folder}" in data["command"] and "data_dir" not in data["command"]
    assert not re.search(r'"/|=/', path.read_text())  # no absolute path of a machine


def test_the_pages_have_the_tables_of_the_files():
    for path, found in tables(read_runs()).items():
        assert filled(path, found) == path.read_text(), path.name


def fractions(text):
    return set(re.findall(r"\d+\.\d", text))


def test_what_the_paper_says_is_in_the_list_of_its_tables():
    page = (ROOT / "docs" / "results.md").read_text()
    said = page.partition("## Why the attack as published is weak on HE")[2].partition("\n## ")[0]
    listed = (ROOT / "configs" / "papers.json").read_text()
    found = re.findall(r"\d\d\.\d\d", said)
    assert len(found) >= 10 and all(f'"published": {float(number)}' in listed for number in found)


@pytest.mark.parametrize(
    ("name", "heading"), [("README.md", "## What it found"), ("docs/results.md", "# Hyper")]
)
def test_the_verdict_has_the_numbers_of_the_tables(name, heading):
    section = (ROOT / name).read_text().partition(f"{heading}")[2].partition("\n## ")[0]
    prose = re.sub(r"<!-- table: .*?<!-- end: ", "", section, flags=re.S)
    known = fractions("\n".join(table for found in tables(read_runs()).values() for table in found.values()))
    assert fractions(prose) and fractions(prose) <= known


def numbers(line):
    return [float(number) for number in re.findall(r"[+-]?\d+\.\d", line)]


@pytest.mark.parametrize("path", EVALUATIONS, ids=lambda path: path.parts[-3])
def test_every_accuracy_on_the_page_is_a_share_of_flags(path):
    runs = [run for run in read_runs() if run.folder == path.parents[1]]
    data = json.loads(path.read_text())
    # Means stand before their interval, or alone in a cell.
    shown = re.findall(r"(\d+\.\d) [(|]", accuracies(runs) + beside_autoattack(runs))
    for name, bits in data["flags"].items():
        if name == "clean" and "autoattack" in data["flags"]:
            continue  # of fewer images
        share = 100 * bits.count("1") / len(bits)
        assert min(abs(share - float(number)) for number in shown) < 0.051, name


def three_seeds():
    rng = np.random.default_rng(0)
    runs = []
    for seed in range(3):
        plain, he = rng.random(200) < 0.4, rng.random(200) < 0.5
        runs += [Run(ROOT, "FastAT", seed, {"clean": plain}), Run(ROOT, "FastAT + HE", seed, {"clean": he})]
    return runs


def test_differences_are_paired_by_seed_with_an_interval_over_seeds():
    runs = three_seeds()
    plain = np.array([run.flags["clean"].mean() for run in runs if run.label == "FastAT"])
    he = np.array([run.flags["clean"].mean() for run in runs if run.label == "FastAT + HE"])
    change = he - plain
    half = T2 * change.std(ddof=1) / np.sqrt(3)
    expected = [change.mean(), change.mean() - half, change.mean() + half]
    row = differences(runs).splitlines()[2]
    assert row.startswith("| FastAT + HE minus FastAT | 0, 1, 2 |")
    assert numbers(row) == pytest.approx([100 * value for value in expected], abs=0.051)
    half = T2 * plain.std(ddof=1) / np.sqrt(3)
    first = accuracies(runs).splitlines()[2]
    assert numbers(first) == pytest.approx(
        [100 * value for value in (plain.mean(), plain.mean() - half, plain.mean() + half)], abs=0.051
    )


def test_the_artifact_of_the_scale_is_measured_on_one_model_and_on_the_gain():
    rng, runs = np.random.default_rng(1), []
    names = ("clean", "pgd-20 (scale 1)", "pgd-20", "swift")
    for seed in range(3):
        for label in ("FastAT", "FastAT + HE"):
            runs.append(Run(ROOT, label, seed, {name: rng.random(200) < 0.5 for name in names}))
    share = {(run.label, name): [] for run in runs for name in names}
    for run in runs:
        for name in names:
            share[run.label, name].append(run.flags[name].mean())
    share = {key: np.array(values) for key, values in share.items()}
    same = share["FastAT + HE", names[1]] - share["FastAT + HE", names[2]]
    published, strong = (share["FastAT + HE", name] - share["FastAT", name] for name in (names[1], names[3]))
    expected = []
    for values in (same, published - strong):
        half = T2 * values.std(ddof=1) / np.sqrt(3)
        expected += [values.mean(), values.mean() - half, values.mean() + half]
    row = artifact(runs).splitlines()[2]
    assert row.startswith("| FastAT + HE | 0, 1, 2 |")
    assert numbers(row) == pytest.approx([100 * value for value in expected], abs=0.051)


def test_seeds_without_a_partner_are_not_compared():
    runs = [run for run in three_seeds() if (run.label, run.seed) != ("FastAT", 1)]
    assert "| FastAT + HE minus FastAT | 0, 2 |" in differences(runs)


def test_swift_is_compared_with_autoattack_on_the_images_of_both():
    swift, autoattack = np.array([1, 0, 1, 0, 1, 1], bool), np.array([1, 1, 0, 0], bool)
    runs = [Run(ROOT, "FastAT", 1, {"clean": swift, "swift": swift, "autoattack": autoattack})]
    assert beside_autoattack(runs).splitlines()[2:] == ["| FastAT, seed 1 | 4 | 50.0 | 50.0 | 1 | 2 |"]


def test_the_summary_has_plain_and_he_models_with_all_seeds_only():
    one, two = np.array([1, 0, 0, 0], bool), np.array([1, 1, 0, 0], bool)
    names = ("clean", "pgd-20 (scale 1)", "pgd-20", "swift")
    runs = [Run(ROOT, "FastAT", seed, dict.fromkeys(names, one if seed else two)) for seed in range(3)]
    runs += [Run(ROOT, "FastAT + HE", seed, dict.fromkeys(names, one)) for seed in range(2)]
    runs += [Run(ROOT, "LLR", 0, dict.fromkeys(names, one))]
    runs += [Run(ROOT, "FastAT + WN", seed, dict.fromkeys(names, one)) for seed in range(3)]
    assert summary(runs).splitlines()[2:] == ["| FastAT | 33.3 | 33.3 | 33.3 | 33.3 |"]


def test_intervals_are_those_of_numpy():
    values = np.array([0.31, 0.35, 0.30])
    half = T2 * values.std(ddof=1) / np.sqrt(3)
    assert mean_interval(values.tolist()) == pytest.approx(
        (values.mean() - half, values.mean() + half), abs=1e-6
    )
    rng = np.random.default_rng(1)
    one, other = rng.random(500) < 0.5, rng.random(500) < 0.4
    # Of the images, `gained` only the first has right, and `lost` only the second.
    gained, lost = (one & ~other).sum(), (~one & other).sum()
    mean = (gained - lost) / 500
    variance = ((gained + lost) - 500 * mean**2) / 499
    half = 1.959964 * np.sqrt(variance / 500)
    assert paired_interval(one, other) == pytest.approx((mean - half, mean + half), abs=1e-6)


def test_intervals_need_what_they_are_computed_from():
    with pytest.raises(InputError, match="at least two. Received: 1"):
        mean_interval([0.5])
    with pytest.raises(InputError, match="the same images. Received: 2 and 3"):
        paired_interval(np.ones(2, bool), np.ones(3, bool))
