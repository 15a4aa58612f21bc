"""Requirements: their exit codes, and what other programs read of them."""

import json
import pathlib
import xml.etree.ElementTree as ET

import jsonschema
import pytest

import athe_tf
from athe_tf.programs import report as program
from athe_tf.programs.config import EvaluateConfig
from athe_tf.report.gate import GateOptions, judge, parsed
from athe_tf.report.machine_files import junit, sarif
from athe_tf.report.reading import read_evaluation
from athe_tf.results.intervals import wilson_interval
from tests.report.test_comparison import flagged
from tests.report_case import full_evaluation, write_evaluation

SCHEMAS = pathlib.Path(__file__).parents[1] / "schemas"
XS = "{http://www.w3.org/2001/XMLSchema}"
CHECK = {"name": "Outputs are logits", "detail": "No row sums to 1."}
LABELS = [number % 4 for number in range(100)]


def evaluation(robust=60, status="passed", **changes):
    """100 images of 4 classes, all classified correctly; those from number `robust` on are broken."""
    bits = "1" * robust + "0" * (100 - robust)
    share, interval = robust / 100, list(wilson_interval(robust, 100))
    found = {"count": [25] * 4, "clean": [1.0] * 4, "worst_case": [15 / 25, 15 / 25, 15 / 25, 3 / 25]}
    return flagged(
        bits, clean_accuracy=1.0, clean_interval=list(wilson_interval(100, 100)), labels=LABELS, classes=4,
        worst_case_accuracy=share, worst_case_interval=interval, per_class=found,
        checks=[{**CHECK, "status": status}], class_names=["cat", "dog", "frog", "ship"], **changes,
    )  # fmt: skip


CASES = {
    "pass": (["--require=worst_case>=0.45", "--require=clean>=0.9", "--require=checks"], 0),
    "fail": (["--require=worst_case>=0.65"], 3),
    # Wilson's interval of 60 of 100 is 50.2 to 69.1%.
    "fail by the interval only": (["--require=worst_case>=0.55"], 3),
    "class": (["--require=class:0>=0.3", "--require=class:ship>=0.2"], 3),
    "baseline": (["--baseline=better", "--max_drop=0.05"], 3),
    "missing file": (["--require=checks", "--baseline=nowhere/evaluation.json", "--max_drop=0.1"], 2),
    "other images": (["--baseline=other", "--max_drop=0.1"], 2),
    "bad expression": (["--require=worst_case=>0.5"], 2),
    "failed checks": (["--require=checks"], 3),
}


def run(arguments, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["bin/report", *arguments])
    code = program.PROGRAM.exit_code()
    return code, capsys.readouterr()


@pytest.fixture
def folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_evaluation(tmp_path / "new", evaluation())
    write_evaluation(tmp_path / "broken", evaluation(status="failed"))
    write_evaluation(tmp_path / "better", evaluation(80))
    write_evaluation(tmp_path / "other", {**evaluation(), "labels": LABELS[::-1]})


@pytest.mark.parametrize("arguments, expected", CASES.values(), ids=CASES)
def test_exit_codes(arguments, expected, folders, monkeypatch, capsys):
    subject = "broken" if (arguments, expected) == CASES["failed checks"] else "new"
    code, printed = run([subject, *arguments], monkeypatch, capsys)
    assert code == expected, printed
    assert ("is not met" in printed.out) == (expected == 3)
    assert (printed.err != "") == (expected == 2) and "Traceback" not in printed.err


@pytest.mark.parametrize("arguments", [CASES["fail by the interval only"][0], ["--require=class:3>=0.1"]])
def test_the_value_itself_may_be_enough(arguments, folders, monkeypatch, capsys):
    assert run(["new", *arguments], monkeypatch, capsys)[0] == 3
    assert run(["new", *arguments, "--require_on=value"], monkeypatch, capsys)[0] == 0


def test_a_drop_is_judged_by_the_end_of_its_interval(folders, monkeypatch, capsys):
    """20 of 100 images are newly broken: 20 points; by hand, the interval reaches 27.5."""
    for most, on, expected in (
        ("0.2", "value", 0),
        ("0.19", "value", 3),
        ("0.28", "interval", 0),
        ("0.27", "interval", 3),
    ):
        arguments = ["new", "--baseline=better", f"--max_drop={most}", f"--require_on={on}"]
        assert run(arguments, monkeypatch, capsys)[0] == expected, (most, on)


def test_the_lower_end_of_a_class_is_wilsons(tmp_path):
    saved = read_evaluation(write_evaluation(tmp_path / "a", evaluation()))
    (one,) = judge(saved, GateOptions(require=("class:ship >= 0.2",)))
    assert one["measured"] == pytest.approx(wilson_interval(3, 25)[0]) and not one["met"]


def test_what_was_not_measured_does_not_pass(tmp_path):
    data = evaluation()
    data |= {"attacks": [], "flags": {}, "checks": []}
    saved = read_evaluation(write_evaluation(tmp_path / "a", data))
    options = GateOptions(require=("worst_case>=0", "class:0>=0", "corruptions>=0", "checks"))
    assert [one["met"] for one in judge(saved, options)] == [False] * 4


@pytest.mark.parametrize(
    "text, message",
    [
        ("worst_case>0.5", "has the form MEASURE>=NUMBER"),
        ("worstcase>=0.5", "Did you mean 'worst_case'"),
        ("worst_case>=45", "a share from 0 to 1"),
        ("worst_case>=high", "Expected a number"),
        ("class:>=0.5", "Unknown measure"),
        ("checks>=1", "Unknown measure"),
    ],
)
def test_a_bad_requirement_is_refused_before_anything_else(text, message):
    for config in (GateOptions, lambda **given: EvaluateConfig(model="m.keras", **given)):
        with pytest.raises(athe_tf.InputError, match=message):
            config(require=(text,))
    assert parsed("class:3 >= 1/4") == ("class:3", 0.25)


def test_options_that_do_not_go_together_are_refused():
    with pytest.raises(athe_tf.InputError, match="without --baseline"):
        GateOptions(max_drop=0.1)
    with pytest.raises(athe_tf.InputError, match="A shard has only a part"):
        EvaluateConfig(model="m.keras", shard="1/2", output="x", require=("checks",))
    with pytest.raises(athe_tf.InputError, match="judge one evaluation"):
        program.ReportConfig(folders=("a", "b"), require=("checks",))


@pytest.mark.parametrize("name", ["9", "plane"])
def test_a_class_that_does_not_exist_is_named(name, tmp_path):
    saved = read_evaluation(write_evaluation(tmp_path / "a", evaluation()))
    with pytest.raises(athe_tf.InputError, match=f"no class '{name}'.*0 to 3, or a name such as cat"):
        judge(saved, GateOptions(require=(f"class:{name}>=0.1",)))


def judged(tmp_path, data):
    saved = read_evaluation(write_evaluation(tmp_path / "judged", data))
    saved.result.requirements = judge(saved, GateOptions(require=("worst_case>=0.9", "clean>=0.1", "checks")))
    return saved


def test_sarif_fits_its_schema_and_has_a_result_per_finding(tmp_path):
    log = json.loads(sarif(judged(tmp_path, full_evaluation())))
    schema = json.loads((SCHEMAS / "sarif-2.1.0.json").read_text())
    jsonschema.Draft7Validator(schema).validate(log)
    (one,) = log["runs"]
    rules = [rule["id"] for rule in one["tool"]["driver"]["rules"]]
    assert [found["ruleId"] for found in one["results"]] == [
        "requirement/worst_case>=0.9", "requirement/checks", "check/Black box does not beat white box"
    ]  # fmt: skip
    assert all(rules[found["ruleIndex"]] == found["ruleId"] for found in one["results"])
    assert [found["level"] for found in one["results"]] == ["error", "error", "warning"]
    again = json.loads(sarif(judged(tmp_path / "again", full_evaluation())))
    prints = [[found["partialFingerprints"] for found in each["runs"][0]["results"]] for each in (log, again)]
    assert prints[0] == prints[1]


def allowed(name, schema):
    """The attributes of an element in an XSD, by whether they are required."""
    named = [one for one in schema.iter(f"{XS}element") if one.get("name") == name]
    (element,) = [one for one in (each.find(f"{XS}complexType") for each in named) if one is not None]
    content = element.find(f"{XS}simpleContent/{XS}extension")
    attributes = (element if content is None else content).findall(f"{XS}attribute")
    return {one.get("name"): one.get("use") == "required" for one in attributes}


def test_junit_has_a_case_per_requirement(tmp_path):
    text = junit(judged(tmp_path, evaluation()))
    suites = ET.fromstring(text.encode())
    cases = {case.get("name"): case.find("failure") for case in suites.iter("testcase")}
    assert [name for name, failure in cases.items() if failure is not None] == ["worst_case>=0.9"]
    assert cases["worst_case>=0.9"].get("message") == "60.00%, 95% interval 50.2 to 69.1"
    (suite,) = suites
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "0")
    assert [part.tag for part in suite] == ["properties", *["testcase"] * 3, "system-out", "system-err"]
    schema = ET.parse(SCHEMAS / "junit.xsd").getroot()
    for name in ("testcase", "failure", "property"):
        rules = allowed(name, schema)
        for element in suites.iter(name):
            assert set(element.attrib) <= set(rules)
            assert {key for key, needed in rules.items() if needed} <= set(element.attrib)


def test_texts_of_an_evaluation_cannot_leave_the_files(tmp_path):
    data = evaluation(model='a"><failure/>\x1b[31m')
    data["checks"][0]["detail"] = "<b>]]>\u0007"
    saved = judged(tmp_path, data)
    assert len(list(ET.fromstring(junit(saved).encode()).iter("failure"))) == 1
    assert "\x1b" not in junit(saved) and json.loads(sarif(saved))


def test_the_outcome_is_beside_the_report_and_in_the_page(folders, tmp_path, monkeypatch, capsys):
    run(["new", "--require=worst_case>=0.9"], monkeypatch, capsys)
    out = tmp_path / "new" / "evaluation"
    assert {"requirements.xml", "requirements.sarif"} <= {path.name for path in out.iterdir()}
    assert "declared after the evaluation" in (out / "requirements.xml").read_text()
    run(["new"], monkeypatch, capsys)  # nothing is required any more
    assert not list(out.glob("requirements.*"))
