"""The page of evidence, and its JSON file."""

import dataclasses
import json

import pytest

from athe_tf.report.evidence import claim, evidence, evidence_json, evidence_page
from athe_tf.report.gate import GateOptions, judge
from athe_tf.report.reading import read_evaluation
from athe_tf.report.writing import WRITTEN, write
from tests.page_parts import Page
from tests.report.test_gate import evaluation
from tests.report_case import full_evaluation, small_evaluation, write_evaluation


@pytest.fixture
def judged(tmp_path):
    new, old = (read_evaluation(write_evaluation(tmp_path / name, evaluation(robust)))
                for name, robust in (("new", 60), ("old", 80)))  # fmt: skip
    saved = dataclasses.replace(new, baseline=old)
    saved.result.requirements = judge(saved, GateOptions(require=("worst_case>=0.45", "class:ship>=0.2")))
    return saved


def test_there_are_thirteen_points_and_the_page_has_the_same(judged):
    found = json.loads(evidence_json(judged))["points"]
    assert len(found) == 13
    page = Page(evidence_page(judged))
    assert page.sections() == [f"point{number}" for number in range(1, 14)]
    for point in found.values():
        for value in point.values():
            flat = (
                [cell for row in value for cell in (row if isinstance(row, list) else [row])]
                if isinstance(value, list)
                else [value]
            )
            assert all(" ".join(str(each)[:899].split()) in page.text for each in flat)


def test_the_claim_is_the_lower_end_of_the_interval(judged):
    """60 of 100: Wilson's interval is 50.2 to 69.1."""
    text = claim(judged.result)
    assert text.startswith("At least 50.2% of images of digits (test)")
    assert "found within linf 0.2 (60.00%, 95% Wilson interval 50.2 to 69.1%, n = 100)" in text
    nothing = small_evaluation(attacks=[])
    assert "nothing is claimed" in claim(type(judged.result).from_dict(nothing))


def test_the_points_say_what_was_found(judged):
    points = evidence(judged)["points"]
    assert points["accuracies"]["worst class"].startswith(
        "ship: 12.00%, 95% Wilson interval 4.2 to 30.0%, n = 25"
    )
    assert points["previous version"]["newly broken images"] == ", ".join(map(str, range(60, 80)))
    assert "80.00% before, 60.00% now: -20.00 points" in points["previous version"]["worst case"]
    assert [row[:2] for row in points["requirements"]["table"][1:]] == [
        ["worst_case>=0.45", "met"], ["class:ship>=0.2", "not met"]
    ]  # fmt: skip
    assert points["strength of the evaluation"]["sanity checks"] == "1 passed, 0 failed, 0 not run"
    assert points["data"]["images per class"] == "cat 25, dog 25, frog 25, ship 25"


def test_what_is_not_known_is_said(tmp_path):
    points = evidence(read_evaluation(write_evaluation(tmp_path / "a", small_evaluation())))["points"]
    assert (
        "not recorded" in points["identity"]["model"]
        and points["data"]["overlap with training images"] == "not checked"
    )
    assert points["previous version"] == {"previous version": "not given"}
    assert points["requirements"] == {"requirements": "none were declared before the run"}
    assert points["common corruptions"] == {"mean accuracy": "not measured"}


def test_a_baseline_that_cannot_be_compared_is_said(judged, tmp_path):
    other = read_evaluation(write_evaluation(tmp_path / "other", small_evaluation(epsilon="0.1")))
    points = evidence(dataclasses.replace(judged, baseline=other))["points"]
    assert "cannot be compared" in points["previous version"]["previous version"]


@pytest.mark.parametrize("data", [full_evaluation(), small_evaluation(), evaluation(status="failed")])
def test_nobody_is_promised_more_than_was_measured(data, tmp_path):
    saved = read_evaluation(write_evaluation(tmp_path / "a", data))
    for text in (evidence_json(saved), Page(evidence_page(saved)).text):
        assert not any(word in text.lower() for word in ("compliant", "compliance", "certified", "guarantee"))


def test_the_page_loads_nothing_and_escapes_names(tmp_path):
    data = small_evaluation(model="<script>x</script>", command="a" * 3000)
    page = Page(evidence_page(read_evaluation(write_evaluation(tmp_path / "a", data))))
    assert not page.all("script") and "<script>x</script>" in page.text and len(page.text) < 5000
    (policy,) = [meta["content"] for meta in page.all("meta") if meta.get("http-equiv")]
    assert policy.startswith("default-src 'none'")


def test_both_files_are_written_beside_the_report(tmp_path):
    out = write_evaluation(tmp_path / "a", small_evaluation())
    for _ in range(2):
        assert [path.name for path in write(out)] == list(WRITTEN)
    assert {"evidence.html", "robustness_evidence.json"} <= {path.name for path in out.iterdir()}
