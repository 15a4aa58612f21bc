"""The report of one evaluation: the page, the model card, RobustBench's file."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import athe_tf
from athe_tf.report.evaluation_page import render
from athe_tf.report.reading import find_evaluation, read_evaluation
from athe_tf.report.schema import check_evaluation
from athe_tf.report.sections import ORDER
from tests.page_parts import Page
from tests.report_case import (
    CONFIG,
    example_images,
    full_evaluation,
    small_evaluation,
    write_evaluation,
)
from tests.small_runs import tiny_batch, tiny_net

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>|`*"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A run with everything, and the paths of its report."""
    run = tmp_path_factory.mktemp("runs") / "demo"
    write_evaluation(run, full_evaluation(), CONFIG, metrics=True, examples=example_images())
    return {path.name: path for path in athe_tf.report.write(run)}


@pytest.fixture(scope="module")
def page(written):
    return Page(written["report.html"].read_text())


def test_the_page_has_every_section_in_order(page):
    assert page.sections() == list(ORDER)
    assert [link["href"] for link in page.all("a") if link["href"] != "#sanity"] == [
        f"#{name}" for name in ORDER if name != "sanity"
    ]


def test_the_verdict_comes_first(page):
    data = full_evaluation()
    start = page.text.index(data["verdict"])
    assert start < page.text.index("Accuracy by attack")
    # What to doubt about it stands at the top as well.
    for text in (data["checks"][1]["detail"], data["warnings"][0]):
        assert start < page.text.index(text) < page.text.index("Accuracy by attack")


def test_numbers_of_the_evaluation_stand_on_the_page(page):
    for text in (
        "71.60 %", "after apgd-t 62.60 %", "3 min 18 s", "feature : not run: The victim has no features",
        "The weakest class (worst case) is", "robust accuracy on held-out images, 64.8 %, came in epoch 16",
        "expected calibration error 18.7 %", "Mean corruption accuracy (mCA) 65.50 %",
        "foolbox, pgd-20 66.80 % 67.40 % -0.60 points", "1 passed, 1 failed, 1 not run",
        "tensorflow 2.21.0", full_evaluation()["command"],
    ):  # fmt: skip
        assert text in page.text, text


def test_the_page_needs_nothing_from_outside(page, written):
    assert not page.all("script") and not page.all("link") and not page.all("iframe")
    assert all(image["src"].startswith("data:image/png;base64,") for image in page.all("img"))
    assert all(link["href"].startswith("#") for link in page.all("a"))
    assert "http" not in written["report.html"].read_text().replace("http-equiv", "")


def test_pictures_and_charts_have_words(page):
    assert len(page.all("img")) == 3 * 8 and all(image["alt"] for image in page.all("img"))
    for picture in page.all("svg"):
        assert picture.get("aria-label") or picture.get("aria-hidden") == "true"
    assert page.all("html")[0]["lang"] == "en"
    assert len(page.all("caption")) == len(page.all("table"))


def test_a_section_is_there_only_when_its_data_is():
    needs = {
        "curve": "curve", "checks": "sanity", "per_class": "classes", "angles": "angles",
        "calibration": "calibration", "corruptions": "corruptions", "transfer": "transfer",
        "verify": "verification",
    }  # fmt: skip
    data = full_evaluation()
    for key, section in needs.items():
        without = {name: value for name, value in data.items() if name != key}
        found = Page(render(without)).sections()
        assert section not in found and len(found) == len(ORDER) - 3  # and neither images nor training
    assert Page(render(small_evaluation())).sections() == ["attacks", "settings"]


def test_an_evaluation_without_a_verdict_is_given_one():
    text = Page(render(small_evaluation(0.5))).text
    assert "Of 200 images, 90.00 % are classified correctly, and 50.00 % (95 % interval 43.0 to 57.0)" in text
    nothing_ran = small_evaluation(0.9, attacks=[{"name": "fgsm", "not_run": "no gradients"}])
    text = Page(render(nothing_ran)).text
    per_class = {"clean": [1.0, 0.8], "worst_case": [1.0, 0.8], "count": [100, 100]}
    corrupted = Page(render(small_evaluation(0.9, attacks=[], per_class=per_class)))
    assert corrupted.sections() == ["classes", "settings"]
    assert "The weakest class (clean) is 1" in corrupted.text and "worst case %" not in corrupted.text
    assert "nothing is known about robustness" in text and "no attack counts" in text


def test_what_happened_on_fewer_images_or_elsewhere_is_said():
    data = small_evaluation()
    data["attacks"][0]["examples"] = 50
    data["attacks"].append(
        {**data["attacks"][0], "name": "pgd-20 @ 0.4", "epsilon": 0.4, "in_worst_case": False}
    )
    text = Page(render(data)).text
    assert "pgd-20 : on the first 50 images only" in text
    assert "* outside the report's threat model" in text
    assert "pgd-20 @ 0.4 *" in text and "@ 0.4 @ 0.4" not in text


def hostile_copy(value):
    """The same structure with hostile texts, keys of free dictionaries included."""
    if isinstance(value, dict):
        free = not {"name", "model", "clean", "severities", "edges", "sources", "ece", "tool"} & set(value)
        changed = {key: hostile_copy(inner) for key, inner in value.items()}
        return (
            {**changed, HOSTILE: HOSTILE}
            if free and all(isinstance(v, str) for v in changed.values())
            else changed
        )
    if isinstance(value, list):
        return [hostile_copy(inner) for inner in value]
    return HOSTILE if isinstance(value, str) else value


def test_no_text_of_an_evaluation_becomes_markup(tmp_path):
    data = {**hostile_copy(full_evaluation()), "epsilon": "0.2"}
    data["checks"][0]["status"] = "passed"
    data["corruptions"]["accuracy"][HOSTILE] = [0.5] * 5
    examples = {**example_images(2), "attack": np.array([HOSTILE] * 2)}
    run = tmp_path / "run"
    write_evaluation(run, data, {**CONFIG, "model": HOSTILE}, True, examples)
    html, card, info = athe_tf.report.write(run)
    hostile = Page(html.read_text())
    assert not hostile.all("script") and len(hostile.all("img")) == 6
    assert not [name for _, attributes in hostile.elements for name in attributes if name.startswith("on")]
    assert HOSTILE in hostile.text
    # In Markdown the command is an indented block, where nothing is markup.
    prose = [line for line in card.read_text().splitlines() if not line.startswith("    ")]
    assert prose.pop().startswith("<!-- athe_tf ")  # the signature
    assert "<" not in "".join(prose).replace("\\<", "") and json.loads(info.read_text())


def test_the_page_stays_below_three_megabytes():
    data, rng = full_evaluation(), np.random.default_rng(0)
    data["labels"], data["examples"] = [0] * 10_000, 10_000
    data["flags"] = {attack["name"]: "1" * 10_000 for attack in data["attacks"]}
    data["attacks"] *= 8
    data["per_class"] = {"clean": [0.5] * 1000, "worst_case": [0.2] * 1000, "count": [10] * 1000}
    examples = {key: np.concatenate([value] * 4) for key, value in example_images(5).items()}
    # Noise is what a PNG cannot make smaller.
    examples["clean"] = rng.uniform(size=(20, 224, 224, 3)).astype("float32")
    examples["adversarial"] = rng.uniform(size=(20, 224, 224, 3)).astype("float32")
    html = render(data, examples)
    assert len(html.encode()) < 3_000_000
    assert "the 20 lowest of 1000 classes" in Page(html).text


def test_minimum_norm_attacks_of_another_norm_are_not_drawn():
    data = full_evaluation()
    assert "Minimum-norm attacks give a whole curve" in render(data)
    data["attacks"][4]["settings"]["norm"] = "l2"
    assert "Minimum-norm attacks give a whole curve" not in render(data)


def test_an_unfinished_training_run_is_drawn(tmp_path):
    run = tmp_path / "run"
    write_evaluation(run, small_evaluation(), CONFIG)
    (run / "metrics.csv").write_text("epoch,loss,val_robust_accuracy\n1,2.5,0.3\n2,nan,\n3,oops")
    assert "came in epoch 1" in Page(render(read_evaluation(run).data)).text


def test_the_model_card_says_what_the_page_says(written):
    card = written["model_card.md"].read_text()
    assert card.startswith("# runs/demo\n\n62.4 % of 500 images withstand")
    assert "| framework | trades |" in card
    assert "| fgsm | 0.2 | 71.60 % | 67.6 to 75.6 |" in card
    assert "| spatial \\* | 0.2 |" in card and "not counted in the worst case" in card
    assert "| **worst case** | 0.2 | **62.40 %** |" in card
    assert "- failed: Black box does not beat white box." in card
    assert f"    {full_evaluation()['command']}\n" in card


def test_robustbench_gets_what_it_asks_for(written):
    info = json.loads(written["model_info.json"].read_text())
    assert info["clean_acc"] == "95.20" and info["autoattack_acc"] == "62.40" and info["reported"] == "62.40"
    assert info["dataset"] == "digits" and info["eps"] == "0.2" and info["architecture"] == "small_cnn"
    assert info["additional_data"] is False and info["number_forward_passes"] == 1
    assert "corruptions_acc" not in info  # generated images are not the benchmark's
    assert info["athe_tf"]["to_fill_in"] == ["link", "name", "authors", "venue"]
    assert info["athe_tf"]["threat"] == "Linf"
    assert {"seed", "versions", "attacks", "examples"} <= set(info["athe_tf"])


def test_robustbench_is_told_nothing_that_was_not_measured(tmp_path):
    data = small_evaluation()
    data["attacks"][0].update(name="autoattack", epsilon=0.1)
    data["corruptions"] = {**full_evaluation()["corruptions"], "generated": False}
    folder = write_evaluation(tmp_path / "m", data)
    info = json.loads(athe_tf.report.write(folder)[2].read_text())
    assert info["autoattack_acc"] is None  # it was run at another epsilon
    assert info["architecture"] is None and info["additional_data"] is None
    assert info["corruptions_acc"] == "65.50"


def test_additional_data_of_the_run_is_named(tmp_path):
    write_evaluation(tmp_path / "m", small_evaluation(), {**CONFIG, "extra_data": "more.npz"})
    assert json.loads(athe_tf.report.write(tmp_path / "m")[2].read_text())["additional_data"] is True


def test_a_run_that_was_moved_is_still_found(tmp_path):
    write_evaluation(tmp_path / "old" / "demo", small_evaluation(), CONFIG, metrics=True)
    os.rename(tmp_path / "old", tmp_path / "new")
    evaluation = read_evaluation(tmp_path / "new" / "demo")
    assert evaluation.config["framework"] == "trades" and len(evaluation.training) == 20
    # Settings that this run's version did not know have their defaults; where it ran does not matter.
    assert evaluation.config["beta"] == 6.0 and "workdir" not in evaluation.config


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ("[]", "'the whole' should be named values"),
        ("{}", "it lacks 'model'"),
        ({"attacks": 3}, "'attacks' should be a list, and is 3"),
        ({"attacks": [{"name": "fgsm", "accuracy": "high"}]}, "'attacks\\[0\\].accuracy' should be a number"),
        ({"clean_accuracy": True}, "'clean_accuracy' should be a number"),
        ({"clean_interval": [1]}, "should be two numbers"),
        ({"epsilon": "eight"}, "Expected a number such as 0.031 or 8/255. Received: 'eight'"),
        (
            {"per_class": {"clean": [1], "worst_case": [1, 2], "count": [1]}},
            "the lists in 'per_class' should be of one length, and have \\[1, 2, 1\\] items",
        ),
        ({"angles": {"edges": [0, 1], "true": [1, 2], "nearest_wrong": [1]}}, "the lists in 'angles'"),
        ({"transfer": {"sources": ["a"], "targets": ["a"], "accuracy": [[1, 2]]}}, "transfer.accuracy"),
        ({"corruptions": {"severities": [1], "accuracy": {"fog": []}}}, "the lists in 'corruptions'"),
    ],
)
def test_what_is_not_an_evaluation_is_refused(text, message, tmp_path):
    content = text if isinstance(text, str) else json.dumps(small_evaluation(**text))
    (tmp_path / "evaluation.json").write_text(content)
    with pytest.raises(athe_tf.InputError, match=message):
        athe_tf.report.write(tmp_path)
    assert os.listdir(tmp_path) == ["evaluation.json"]


def test_folders_are_found_or_the_error_says_what_is_missing(tmp_path):
    folder = write_evaluation(tmp_path / "run", small_evaluation())
    assert find_evaluation(tmp_path / "run") == find_evaluation(folder) == folder
    assert find_evaluation(folder / "evaluation.json") == folder
    for path, message in (
        (tmp_path / "nothing", "There is no folder"),
        (tmp_path, "There is no evaluation.json in"),
        (tmp_path / "file", "Received a file"),
    ):
        (tmp_path / "file").write_text("x")
        with pytest.raises(athe_tf.InputError, match=message):
            find_evaluation(path)
    (tmp_path / "run" / "again").mkdir()
    (tmp_path / "run" / "again" / "evaluation.json").write_text("{}")
    with pytest.raises(athe_tf.InputError, match="several evaluations in .*Name one of them"):
        find_evaluation(tmp_path / "run")


def test_broken_files_around_an_evaluation_are_named(tmp_path):
    folder = write_evaluation(tmp_path / "run", small_evaluation(), CONFIG)
    (folder / "examples.npz").write_bytes(b"no archive")
    with pytest.raises(athe_tf.InputError, match=r"examples.npz' is not an archive"):
        athe_tf.report.write(folder)
    (folder / "examples.npz").unlink()
    (tmp_path / "run" / "config.json").write_text("{")
    with pytest.raises(athe_tf.InputError, match=r"config.json' is not the config of a run"):
        athe_tf.report.write(folder)


def test_an_output_that_cannot_be_written_is_refused(tmp_path):
    folder = write_evaluation(tmp_path / "run", small_evaluation())
    (folder / "report.html").mkdir()
    with pytest.raises(athe_tf.InputError, match=r"report.html' exists, and athe_tf did not"):
        athe_tf.report.write(folder)
    assert sorted(os.listdir(folder)) == ["evaluation.json", "report.html"]


def test_reports_do_not_need_tensorflow():
    code = (
        "import sys, athe_tf.programs.report, athe_tf.report.sections as s; "
        "[__import__(f'athe_tf.report.sections.{n}') for n in s.ORDER]; "
        "sys.exit(any(n in sys.modules for n in ('tensorflow', 'keras', 'matplotlib')))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_example_of_these_tests_keeps_the_contract():
    check_evaluation(full_evaluation())
    check_evaluation(small_evaluation())


def test_what_an_evaluation_returns_can_be_shown():
    """The contract as it is kept: a real evaluation, its page and its files."""
    images, labels = tiny_batch(24)
    found = athe_tf.evaluate(
        tiny_net(), (images, labels), attacks=["fgsm"], epsilon=0.1, epsilons=[0.05], checks=False
    )
    sections = Page(found.to_html()).sections()
    assert {"attacks", "curve", "classes", "angles", "calibration", "settings"} <= set(sections)
    check_evaluation(json.loads(found.to_json()))
