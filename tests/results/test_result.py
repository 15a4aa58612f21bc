"""`Result` without TensorFlow: what is written is read back, older formats are, the schema is generated."""

import copy
import json
import pathlib
import pickle
import subprocess
import sys

import numpy as np
import pytest

import athe_tf
from athe_tf.results.attack_outcome import AttackOutcome
from athe_tf.results.file_format import FORMAT, checked, evaluation_schema
from athe_tf.results.notices import Notice
from athe_tf.results.result import Result
from tests.report_case import full_evaluation, small_evaluation

ROOT = pathlib.Path(__file__).parents[2]
STORED = sorted((ROOT / "results").rglob("evaluation.json"))


def full_result() -> Result:
    """A result with every part that the format has."""
    rng = np.random.default_rng(0)
    correct, fgsm = rng.random(40) < 0.9, rng.random(40) < 0.6
    norms = np.where(correct & ~fgsm, 0.05, np.where(correct, np.inf, 0.0))
    attacks = [
        AttackOutcome(
            "fgsm", correct & fgsm, 1.234, 400, 80, 1, norms, ~fgsm & correct, {"steps": 1}, epsilon=0.1,
            norm="linf", remarks=["weak"], source_queries=7, source_gradients=9,
        ),
        AttackOutcome(
            "ddn", correct & ~fgsm, norms=rng.random(40).round(3), minimum_norm=True, epsilon=0.5, norm="l2",
            in_worst_case=False, broken_passes=rng.integers(0, 16, 40),
        ),
        AttackOutcome(
            "fab", correct & fgsm, norms=norms, minimum_norm=True, epsilon=0.1, norm="linf",
        ),
        AttackOutcome(
            "fgsm @ 0.05", correct, epsilon=0.05, norm="linf", nan_logits=2,
            gradient_faults={"attacked": 30, "zero": 4, "nonfinite": 1},
        ),
        AttackOutcome("feature", None, not_run="no features"),
    ]  # fmt: skip
    parts = full_evaluation()
    kept = ("checks", "calibration", "angles", "corruptions", "verify", "conversion", "transfer", "command")
    return Result(
        "net", "digits", "linf", 0.1, 3, correct, attacks,
        warnings=[Notice("Zero gradients.", id="zero-gradients"), "Something else."],
        labels=rng.integers(0, 3, 40), classes=3, protocol="quick", settings={"batch_size": 8},
        threat_models=[{"norm": "linf", "epsilon": "0.1"}, {"norm": "l2", "epsilon": "0.5"}],
        class_names=["a", "b", "c"], images_fingerprint="f00", judge={"name": "net.onnx", "kind": "onnx"},
        gradient_source={"name": "net.keras", "digest": "ab"}, randomized={"passes": 16, "needed": 9},
        requirements=[{"requirement": "worst_case>=0.4", "measured": 0.5, "met": True}],
        verified=[{"tool": "crown", "norm": "linf", "epsilon": "0.1", "flags": "10?" + "1" * 37}],
        **{name: parts[name] for name in kept},
    )  # fmt: skip


def test_what_is_written_is_read_back(tmp_path):
    result = full_result()
    result.save(tmp_path)
    found = Result.load(tmp_path)
    data = json.loads((tmp_path / "evaluation.json").read_text())
    assert data["format"] == FORMAT == 3 and found.to_dict() == data
    assert repr(found) == repr(result)
    np.testing.assert_array_equal(found.robust, result.robust)
    np.testing.assert_array_equal(found["ddn"].norms, result["ddn"].norms)
    np.testing.assert_array_equal(found["fgsm"].eight_bit, result["fgsm"].eight_bit)
    np.testing.assert_array_equal(found.labels, result.labels)
    assert [(one.id, str(one)) for one in found.warnings] == [
        ("zero-gradients", "Zero gradients."), ("unnamed", "Something else."),
    ]  # fmt: skip
    # Every optional key of the format is in this file: none is written that cannot be read, or forgotten.
    assert set(evaluation_schema()["properties"]) - set(data) == {"run", "run_digest"}
    keys = set(evaluation_schema()["$defs"]["AttackEntry"]["properties"])
    assert keys - {key for entry in data["attacks"] for key in entry} == {"stages"}


def test_numbers_of_a_file_are_those_of_its_flags():
    """What is stored and what the flags give is the same, so a number is computed once."""
    result = full_result()
    found = Result.from_dict(result.to_dict())
    for name in (
        "clean_accuracy",
        "clean_interval",
        "_worst_case",
        "curve",
        "per_class",
        "verdict",
        "union",
        "distances",
    ):
        stored = vars(found).pop(name)
        assert getattr(found, name) == stored == getattr(result, name), name


@pytest.mark.parametrize("path", STORED[::7], ids=lambda path: path.parts[-3])
def test_format_two_is_read(path):
    data = json.loads(path.read_text())
    result = Result.load(path)
    assert data["format"] == result.format == 2
    assert result.verdict == data["verdict"] and result.examples == data["examples"]
    assert result.worst_case_accuracy == result.robust.mean() == data["worst_case_accuracy"]
    assert [str(text) for text in result.warnings] == data["warnings"]
    latest = result.to_dict()
    checked(latest, "this")
    assert latest["threat_models"] == [{"norm": data["norm"], "epsilon": data["epsilon"]}]
    new = {"format", "threat_models", "warnings", "attacks"}
    assert {key: latest[key] for key in data if key not in new} == {
        key: data[key] for key in data if key not in new
    }
    for before, after in zip(data["attacks"], latest["attacks"], strict=True):
        assert {key: after[key] for key in before} == before


def test_a_file_without_flags_has_its_numbers():
    result = Result.from_dict(small_evaluation(0.5))
    assert result.worst_case_accuracy == 0.5 and result["pgd-20"].accuracy == 0.5
    assert result["pgd-20"].robust is None and result["pgd-20"].was_run


def test_flags_that_do_not_fit_are_not_used():
    result = Result.from_dict(small_evaluation(flags={"clean": "01", "pgd-20": "1" * 200}))
    assert len(result.correct) == 0 and len(result["pgd-20"].robust) == 200


def test_a_name_in_a_file_does_not_act_on_the_terminal_nor_add_a_row():
    data = small_evaluation(model="net\x1b[2J\nworst case  99.99%", warnings=["a\x1b]0;t\x07b"])
    table = repr(Result.from_dict(data))
    assert "\x1b" not in table and table.splitlines()[0].startswith("net worst case  99.99% on 200 images")


def test_the_published_schema_is_that_of_the_types():
    path = ROOT / "athe_tf/report/schemas/evaluation.schema.json"
    command = f"python -m athe_tf.results.file_format > {path.relative_to(ROOT)}"
    assert json.loads(path.read_text()) == athe_tf.report.schema("evaluation"), command


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"warnings": ["no id"]}, "at 'warnings\\[0\\]': expected a warning, with an 'id'"),
        ({"threat_models": []}, "at 'threat_models': expected a list of threat models"),
        ({"threat_models": [{"norm": "l2"}]}, "'threat_models\\[0\\].epsilon' is missing"),
        ({"verified": [{"tool": "t", "norm": "l2", "epsilon": "1", "flags": "2"}]}, "expected one 0, 1 or"),
        ({"requirements": [{"requirement": "clean>=1", "met": "no"}]}, "expected true or false"),
    ],
)
def test_new_parts_are_checked(change, message):
    with pytest.raises(athe_tf.InputError, match=message):
        Result.from_dict(full_result().to_dict() | change)


def test_an_attack_on_no_images_is_refused():
    data = full_result().to_dict()
    ran = next(number for number, one in enumerate(data["attacks"]) if "not_run" not in one)
    data["attacks"][ran]["examples"] = 0
    message = rf"at 'attacks\[{ran}\].examples': expected a whole number of at least 1, received 0"
    with pytest.raises(athe_tf.InputError, match=message):
        Result.from_dict(data)


def test_a_warning_is_a_text_with_an_id():
    notice = Notice("Text.", id="some-id")
    for same in (copy.deepcopy(notice), pickle.loads(pickle.dumps(notice))):
        assert same == "Text." and same.id == "some-id"


def test_a_result_is_read_without_tensorflow(tmp_path):
    full_result().save(tmp_path)
    code = (
        "import sys; from athe_tf.results import Result; result = Result.load(sys.argv[1]); print(result); "
        "sys.exit(any(name in sys.modules for name in ('tensorflow', 'keras', 'matplotlib')))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == f"{full_result()}\n", done.stderr
