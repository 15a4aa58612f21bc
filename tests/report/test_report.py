"""The report of one evaluation: the page, the model card, RobustBench's file."""

import dataclasses
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import athe_tf
from athe_tf.evaluation.options import EvaluationOptions
from athe_tf.programs.config import TrainConfig
from athe_tf.programs.config.serialization import FORMAT
from athe_tf.report.comparison import compare
from athe_tf.report.pages import ORDER, render
from athe_tf.report.reading import read_evaluation, read_metrics, schema
from athe_tf.report.writing import WRITTEN
from athe_tf.results.file_format import checked
from athe_tf.results.json_files import check_schema
from athe_tf.results.result import Result, find_evaluation
from athe_tf.training.options import OPTIONS
from athe_tf.utils.digests import file_digest
from athe_tf.utils.options import json_schema
from tests.page_parts import Page
from tests.report_case import (
    CONFIG,
    example_images,
    full_evaluation,
    small_evaluation,
    write_analysis,
    write_evaluation,
)

# Options of frameworks that format 1 has at the top level, and those that had another name there.
FORMAT_1 = (
    "beta", "pairing", "pairing_form", "replays", "noise_in_box", "nfgsm_noise", "gradalign", "llr_preset",
    "llr_variant", "gamma_weight", "slope_weight", "curvature_weight", "curvature_step",
)  # fmt: skip
RENAMED = {
    "nfgsm_noise": "noise", "gradalign": "alignment", "llr_preset": "preset", "llr_variant": "variant",
}  # fmt: skip
# The options of any framework, `module:Name` included.
ANY_OPTIONS = {
    "type": "object",
    "propertyNames": {"pattern": "^[a-z][a-z0-9_]*$"},
    "additionalProperties": {
        "type": ["number", "string", "boolean", "null"],
        "maxLength": 200,
        "description": "a number, a text, true, false or null",
    },
    "description": "an object with the options of the framework",
}
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>|`*"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A run with everything, and the paths of its report."""
    run = tmp_path_factory.mktemp("runs") / "demo"
    write_evaluation(run, full_evaluation(), CONFIG, metrics=True, examples=example_images())
    write_analysis(run / "analysis")
    return {path.name: path for path in athe_tf.report.write(run)}


@pytest.fixture(scope="module")
def page(written):
    return Page(written["report.html"].read_text())


def test_the_page_has_every_section_in_order(page):
    shown = [name for name in ORDER if name != "baseline"]
    assert page.sections() == shown
    assert [link["href"] for link in page.all("a") if link["href"] != "#sanity"] == [
        f"#{name}" for name in shown if name != "sanity"
    ]


def test_the_verdict_comes_first(page):
    data = full_evaluation()
    start = page.text.index(data["verdict"])
    assert start < page.text.index("Accuracy by attack")
    # Reasons to doubt it are at the top as well.
    for text in (data["checks"][1]["detail"], data["warnings"][0]):
        assert start < page.text.index(text) < page.text.index("Accuracy by attack")


def test_the_page_shows_the_numbers_of_the_evaluation(page):
    for text in (
        "71.60%", "after apgd-t 62.60%", "3 min 18 s", "feature : not run: The victim has no features",
        "The weakest class (worst case) is", "The best model on held-out images is that of epoch 16",
        "expected calibration error 18.7%", "Mean corruption accuracy (mCA) 65.50%",
        "foolbox, pgd-20 66.80% 67.40% -0.60 points", "1 passed, 1 failed, 1 not run",
        "as PNG stores images, 511 of 730 adversarial examples (70.0%) still fool the model",
        "20.5 0.2 50.00%", "tensorflow 2.21.0", full_evaluation()["command"],
    ):  # fmt: skip
        assert text in page.text, text


def test_the_page_needs_nothing_from_outside(page, written):
    assert not page.all("script") and not page.all("link") and not page.all("iframe")
    assert all(image["src"].startswith("data:image/png;base64,") for image in page.all("img"))
    assert all(link["href"].startswith("#") for link in page.all("a"))
    assert "http" not in written["report.html"].read_text().replace("http-equiv", "")


def test_pictures_and_charts_have_words(page):
    assert len(page.all("img")) == 3 * 8 + 3 + 1 and all(image["alt"] for image in page.all("img"))
    for picture in page.all("svg"):
        assert picture.get("aria-label") or picture.get("aria-hidden") == "true"
    assert page.all("html")[0]["lang"] == "en"
    assert len(page.all("caption")) == len(page.all("table"))


def test_a_section_is_there_only_when_its_data_is():
    needs = {
        "curve": "curve", "checks": "sanity", "per_class": "classes", "angles": "angles",
        "calibration": "calibration", "corruptions": "corruptions", "transfer": "transfer",
        "verify": "verification", "distances": "distances",
    }  # fmt: skip
    data = full_evaluation()
    for key, section in needs.items():
        without = {name: value for name, value in data.items() if name != key}
        found = Page(render(without)).sections()
        assert (
            section not in found and len(found) == len(ORDER) - 6
        )  # nor pictures, a baseline, analyses, training
    assert Page(render(small_evaluation())).sections() == ["attacks", "settings"]


def test_without_attacks_no_worst_case_is_shown():
    nothing_ran = small_evaluation(0.9, attacks=[{"name": "fgsm", "not_run": "no gradients"}])
    text = Page(render(nothing_ran)).text
    assert "no attack counts" in text and "fgsm : not run: no gradients" in text
    per_class = {"clean": [1.0, 0.8], "worst_case": [1.0, 0.8], "count": [100, 100]}
    corrupted = Page(render(small_evaluation(0.9, attacks=[], per_class=per_class)))
    assert corrupted.sections() == ["classes", "settings"]
    assert "The weakest class (clean) is 1" in corrupted.text and "worst case %" not in corrupted.text


def test_what_happened_on_fewer_images_or_elsewhere_is_said():
    data = small_evaluation()
    data["attacks"][0]["examples"] = 50
    data["attacks"].append(
        {**data["attacks"][0], "name": "pgd-20 @ 0.4", "epsilon": 0.4, "in_worst_case": False}
    )
    text = Page(render(data)).text
    assert "pgd-20 : on the first 50 images only" in text
    assert "* outside the threat model of this evaluation" in text
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
    data = {**hostile_copy(full_evaluation()), "epsilon": "0.2", "flags": {HOSTILE: "01"}}
    data["threat_models"] = [{**one, "epsilon": "0.2"} for one in data["threat_models"]]
    data["eight_bit"]["flags"] = {HOSTILE: "01"}
    for check in data["checks"]:
        check["status"] = "passed"
    data["corruptions"]["accuracy"][HOSTILE] = [0.5] * 5
    examples = {**example_images(2), "attack": np.array([HOSTILE] * 2)}
    run = tmp_path / "run"
    write_evaluation(run, data, {**CONFIG, "model": HOSTILE}, True, examples)
    html, card, info = athe_tf.report.write(run)[:3]
    hostile = Page(html.read_text())
    assert not hostile.all("script") and len(hostile.all("img")) == 3 * 2 + 3
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
    (run / "best.json").write_text('{"value": 0.3, "epoch": 1}')
    assert "is that of epoch 1." in Page(render(read_evaluation(run))).text


def test_numbers_of_a_run_are_read_and_only_impossible_ones_are_gaps(tmp_path):
    (tmp_path / "metrics.csv").write_text("epoch,loss,val_loss\n1,12.5,1e31\n2,-3,\nnan,1,1\n")
    first, second = read_metrics(tmp_path)
    assert (first["epoch"], first["loss"]) == (1, 12.5) and np.isnan(first["val_loss"])
    assert second == {"epoch": 2, "loss": -3}


@pytest.mark.parametrize(
    "name, value", [("clean", 1.01), ("adversarial", -0.01), ("norm", -1), ("norm", np.nan)]
)
def test_examples_outside_of_the_unit_interval_are_refused(name, value, tmp_path):
    folder = write_evaluation(tmp_path / "run", small_evaluation())
    examples = example_images()
    examples[name].flat[3] = value
    np.savez(folder / "examples.npz", **examples)
    with pytest.raises(athe_tf.InputError, match=f"are not adversarial examples.*in `{name}`"):
        read_evaluation(folder)


def test_the_model_card_says_what_the_page_says(written):
    card = written["model_card.md"].read_text()
    assert card.startswith("# runs/demo\n\n62.4% of 500 images withstand")
    assert "| framework | trades |" in card
    assert "| fgsm | 0.2 | 71.60% | 67.6 to 75.6 |" in card
    assert "| spatial \\* | 0.2 |" in card and "not counted in the worst case" in card
    assert "| **worst case** | 0.2 | **62.40%** |" in card
    assert "511 of 730 adversarial examples (70.0%) still fool the model: the worst case of 8-bit" in card
    assert "images is at most 68.80%, an upper bound." in card  # of an older file
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


def test_what_the_authors_filled_in_is_kept_whenever_the_report_is_written_again(tmp_path):
    folder = write_evaluation(tmp_path / "m", small_evaluation())
    path = folder / "model_info.json"
    athe_tf.report.write(folder)
    first = json.loads(path.read_text())
    assert first["authors"] is None and first["reported"] is not None
    changed = first | {"authors": "Ada, Bob", "reported": "99.99"}
    path.write_text(json.dumps(changed))
    for _ in range(2):
        athe_tf.report.write(folder)
        assert json.loads(path.read_text()) == first | {"authors": "Ada, Bob"}


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


SECRET = "c2VjcmV0"


@pytest.mark.parametrize("absolute", [True, False])
@pytest.mark.parametrize("known", [True, False])
def test_an_evaluation_of_somebody_else_shows_no_file_of_the_reader(absolute, known, tmp_path):
    """Not even a file that looks like the config of a run, unless its digest is known."""
    private = tmp_path / ".docker"
    private.mkdir()
    (private / "config.json").write_text(json.dumps({**CONFIG, "model": SECRET}))
    (private / "metrics.csv").write_text("epoch,loss\n1,123.456\n2,123.456")
    folder = write_evaluation(tmp_path / "theirs", small_evaluation())
    data = small_evaluation(run=str(private) if absolute else "../../.docker")
    if known:
        data["run_digest"] = file_digest(private / "config.json") if absolute else "0" * 64
    (folder / "evaluation.json").write_text(json.dumps(data))
    for path in athe_tf.report.write(folder):
        assert SECRET not in path.read_text() and "123" not in Page(path.read_text()).text
    reason = "it is not named relative" if absolute else "another one" if known else "has no digest"
    text = Page((folder / "report.html").read_text()).text
    assert re.search(f"The training run '.*' is left out: .*{reason}", text)


def test_the_same_evaluation_is_the_same_row_in_every_working_directory(tmp_path, monkeypatch):
    names = []
    for place, framework in (("p1", "trades"), ("p2", "pgd_at")):
        run = tmp_path / place / "runs" / "demo"
        run.mkdir(parents=True)
        (run / "config.json").write_text(json.dumps({**CONFIG, "framework": framework}))
    monkeypatch.chdir(tmp_path / "p1")
    result = Result("m", "digits", "linf", 0.1, 0, np.array([True]), run="runs/demo")
    result.save("out")
    for place, out in (("p1", "out"), ("p2", "../p1/out")):
        monkeypatch.chdir(tmp_path / place)
        names.append(compare([read_evaluation(out)]).rows[0].label)
    assert names == ["trades + he", "trades + he"]
    assert json.loads((tmp_path / "p1/out/evaluation.json").read_text())["run"] == "../runs/demo"


def test_a_run_that_was_trained_anew_is_left_out(tmp_path):
    folder = write_evaluation(tmp_path / "run", small_evaluation(), CONFIG, metrics=True)
    (tmp_path / "run" / "config.json").write_text(json.dumps({**CONFIG, "head": "linear"}))
    evaluation = read_evaluation(folder)
    assert evaluation.config is None and evaluation.training == []
    assert "its config.json is another one than at the time of the evaluation" in evaluation.notes[0]


def test_the_page_and_the_card_of_a_run_keep_its_notes(tmp_path):
    note = "Resumed after epoch 1, step 2, under other conditions: cores 1 (before: 2)."
    write_evaluation(tmp_path / "run", small_evaluation(), {**CONFIG, "notes": [note]})
    page, card = (path.read_text() for path in athe_tf.report.write(tmp_path / "run")[:2])
    assert f"<p>{note}</p>" in page and page.count(note) == 1 and note in card
    # Two runs of one recipe are still one row.
    write_evaluation(tmp_path / "other", small_evaluation(), CONFIG | {"seed": CONFIG["seed"] + 1})
    evaluations = [read_evaluation(tmp_path / name) for name in ("run", "other")]
    assert len(athe_tf.report.compare(evaluations).rows) == 1


def test_only_known_settings_of_a_run_reach_a_page(tmp_path):
    secrets = {"workdir": "/home/me", "api_key": "123", "architectures": ["Bert"]}
    config = {**CONFIG, **secrets, "options": {"beta": 6.0}}
    write_evaluation(tmp_path / "run", small_evaluation(), config)
    assert read_evaluation(tmp_path / "run").config == {
        "beta": 6.0, **{key: value for key, value in CONFIG.items() if key != "format"}
    }  # fmt: skip
    for path in athe_tf.report.write(tmp_path / "run"):
        assert not [text for text in ("/home/me", "api_key", "Bert") if text in path.read_text()]


@pytest.mark.parametrize(
    "config, message",
    [
        ({"architectures": ["Bert"], "vocab_size": 3}, "'dataset' is missing"),
        ({**CONFIG, "seed": "zero"}, "at 'seed': expected a whole number, received 'zero'"),
        ({**CONFIG, "options": {"beta": {"a": 1}}}, "at 'options.beta': expected a number, a text"),
        ({**CONFIG, "format": 3}, "reads formats 1 to 2. Received: .*config.json' of format '3'"),
        ([], "at 'the top level': expected"),
    ],
)
def test_the_config_of_something_else_is_refused(config, message, tmp_path):
    write_evaluation(tmp_path / "run", small_evaluation(), config)
    with pytest.raises(athe_tf.InputError, match=message):
        read_evaluation(tmp_path / "run")


def as_json(value):
    return list(value) if isinstance(value, tuple) else value


def schema_properties(config_class) -> dict:
    """The properties in the JSON Schema of `config.json`: all settings that determine the result of a run."""
    settings = {
        field.name: json_schema(config_class, field.name) | {"default": as_json(field.default)}
        for field in dataclasses.fields(config_class)
        if not field.metadata.get("runtime")
    }
    owners = {field.name: table for table in OPTIONS.values() for field in dataclasses.fields(table)}
    now = {name: RENAMED.get(name, name) for name in FORMAT_1}
    former = {old: json_schema(owners[new], new) for old, new in now.items()}
    versions = {"enum": [*range(1, FORMAT + 1)], "description": "1 or 2"}
    notes = {"type": "array", "items": {"type": "string"}, "description": "a list of texts"}
    recorded = {"notes": notes, "computed_on": {"type": "string", "description": "a text"}}
    return {"format": versions, **settings, **former, "options": ANY_OPTIONS, **recorded}


def test_the_schema_knows_every_setting_that_determines_a_run():
    fields = dataclasses.fields(TrainConfig)
    known = schema("config")["properties"]
    assert {field.name for field in fields if not field.metadata.get("runtime")} <= set(known)
    assert not {field.name for field in fields if field.metadata.get("runtime")} & set(known)
    # The file is what the settings say; its order is that of the rows of a report.
    assert known == schema_properties(TrainConfig)


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "is not valid JSON"),
        ("{", "is not valid JSON"),
        ('{"a": ' * 100_000, "is not valid JSON"),
        ('{"a": ' * 500 + "1" + "}" * 500, "is nested too deeply"),
        ('{"a": NaN}', "the number NaN is not finite"),
        ('{"a": -Infinity}', "the number -Infinity is not finite"),
        ('{"a": 1e999}', "the number 1e999 is not finite"),
        ('{"a": ' + str(10**400) + "}", "the number 1000.* has more than 64 bits"),
        ("[]", "at 'the top level': expected .*, received \\[\\].* Run the evaluation again"),
        ("{}", "'model' is missing. It has format 1. Run the evaluation again"),
        ({"attacks": 3}, "at 'attacks': expected a list of attacks, received 3"),
        (
            {"attacks": [{"name": "fgsm", "accuracy": "high"}]},
            "at 'attacks\\[0\\].accuracy': expected a number from 0 to 1, received 'high'",
        ),
        ({"attacks": [{"name": "fgsm", "accuracy": 0.5}]}, "'attacks\\[0\\].interval' is missing"),
        ({"clean_accuracy": True}, "at 'clean_accuracy': expected a number"),
        ({"clean_accuracy": 1.5}, "at 'clean_accuracy': expected a number from 0 to 1, received 1.5"),
        ({"clean_interval": [1]}, "expected two numbers"),
        ({"epsilon": "eight"}, "at 'epsilon': expected a text such as '0.031' or '8/255', received 'eight'"),
        ({"labels": ["x" * 1000]}, "at 'labels\\[0\\]': expected .*, received 'xxx.*\\.\\.\\.\\."),
        (
            {"per_class": {"clean": [1], "worst_case": [1, 0], "count": [1]}},
            "at 'per_class': expected lists of one length, received lists of \\[1, 2, 1\\] items",
        ),
        ({"angles": {"edges": [0, 1], "true": [1, 2], "nearest_wrong": [1]}}, "at 'angles': expected lists"),
        (
            {"transfer": {"sources": ["a"], "targets": ["a"], "accuracy": [[1, 0]]}},
            "at 'transfer.accuracy': expected lists",
        ),
        ({"corruptions": {"severities": [1], "accuracy": {"fog": []}}}, "at 'corruptions': expected lists"),
        ({"format": 4}, "reads formats 1 to 3. Received: .* of format '4'. Update athe_tf"),
        ({"format": "two"}, "Received: .* of format 'two'"),
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
    texts = np.full((8, 16, 16, 3), "x")
    for change in ({"adversarial": np.zeros((3, 4, 4, 1))}, {"clean": texts}, {"norm": np.zeros(2)}):
        np.savez(folder / "examples.npz", **{**example_images(), **change})
        with pytest.raises(athe_tf.InputError, match=r"examples.npz' are not adversarial examples.*shape"):
            athe_tf.report.write(folder)
    (folder / "examples.npz").unlink()
    (tmp_path / "run" / "best.json").write_text("{")
    with pytest.raises(athe_tf.InputError, match=r"best.json' is not valid JSON"):
        athe_tf.report.write(folder)


def test_an_output_that_cannot_be_written_is_refused(tmp_path):
    folder = write_evaluation(tmp_path / "run", small_evaluation())
    (folder / "report.html").mkdir()
    with pytest.raises(athe_tf.InputError, match=r"report.html' exists, and athe_tf did not"):
        athe_tf.report.write(folder)
    assert sorted(os.listdir(folder)) == ["evaluation.json", "report.html"]


def test_reports_do_not_need_tensorflow():
    code = (
        "import sys, athe_tf.programs.report, athe_tf.report.pages; "
        "sys.exit(any(n in sys.modules for n in ('tensorflow', 'keras', 'matplotlib')))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_examples_of_these_tests_fit_the_schema():
    for data in (full_evaluation(), small_evaluation()):
        latest, version = checked(data, "this")
        assert version == 2 and checked(latest, "this") == (latest, 3)
    check_schema(CONFIG, schema("config"))


def test_an_evaluation_without_a_version_is_read_and_the_page_says_so(tmp_path):
    data = small_evaluation()
    del data["format"]
    folder = write_evaluation(tmp_path / "old", data)
    page, card = athe_tf.report.write(folder)[:2]
    for path in (page, card):
        assert "This evaluation has format 1" in path.read_text()
    assert "Run the evaluation again to get format 3" in str(compare([read_evaluation(folder)]))
    data["attacks"] = 3
    with pytest.raises(athe_tf.InputError, match="expected a list of attacks.* It has format 1. Run the"):
        render(data)


def test_a_dictionary_is_checked_like_a_file():
    for value, message in ((float("nan"), "Out of range float"), ({1}, "set is not JSON serializable")):
        with pytest.raises(
            athe_tf.InputError, match=f"This dictionary cannot be written as JSON: .*{message}"
        ):
            render(small_evaluation(settings={"a": value}))


def test_what_an_evaluation_returns_can_be_shown(tmp_path):
    """A real evaluation fits the schema, and its page is the same before and after it was saved."""
    # The only test here that needs TensorFlow. Sanity checks and cascades, which take long, are held against
    # the schema where they are tested.
    from tests.small_runs import tiny_batch, tiny_net

    result = athe_tf.evaluate(
        tiny_net(),
        tiny_batch(6),
        attacks=["fgsm", "deepfool-3"],
        epsilon=0.1,
        checks=False,
        options=EvaluationOptions(epsilons=[0.05], corruptions="generated", verify_with=["cleverhans"]),
    )
    result.checks = full_evaluation()["checks"]
    page = render(result)
    sections = set(Page(page).sections())
    assert {"attacks", "curve", "classes", "angles", "calibration", "settings", "sanity"} <= sections
    assert {"corruptions", "verification"} <= sections
    check_schema(json.loads(result.to_json()), schema("evaluation"))
    result.save(tmp_path)
    assert render(read_evaluation(tmp_path)) == page
    assert [path.name for path in athe_tf.report.write(result, tmp_path)] == list(WRITTEN)
    assert (tmp_path / "report.html").read_text().startswith(page)
    with pytest.raises(athe_tf.InputError, match="Name a `folder`"):
        athe_tf.report.write(result)
