"""bin/analyze: what is refused, and what is written."""

import json
import sys

import pytest

from athe_tf.programs import analyze
from athe_tf.programs.config import AnalyzeConfig
from athe_tf.programs.training_runs import runs_by_steps
from athe_tf.utils.errors import InputError
from tests.small_runs import tiny_net


def run_config(folder, **changes):
    folder.mkdir()
    settings = {"head": "linear", "steps": 1, "epochs": 3, "scale": 15.0, "margin": None} | changes
    (folder / "config.json").write_text(json.dumps(settings))
    return str(folder)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"what": ("angles",)}, "Give either --model"),
        ({"model": "m.keras"}, "Say what to analyze"),
        ({"model": "m.keras", "what": ("angels",)}, "Unknown analysis 'angels'. Did you mean 'angles'"),
        ({"compare": ("a",), "what": ("angles",)}, "at least two models. Received: --compare=a"),
        ({"compare": ("a", "a"), "what": ("angles",)}, "Received twice: a"),
        ({"model": "a", "what": ("training_steps",)}, "training_steps needs several training runs"),
    ],
)
def test_settings_that_cannot_work_are_refused_before_tensorflow_starts(settings, message):
    with pytest.raises(InputError, match=message):
        AnalyzeConfig(**settings)


def test_runs_are_grouped_by_head_and_steps(tmp_path):
    runs = {
        (head, steps): run_config(tmp_path / f"{head}{steps}", head=head, steps=steps)
        for head in ("linear", "he")
        for steps in (1, 2)
    }
    groups = runs_by_steps(runs.values())
    assert groups == {head: {steps: runs[head, steps] for steps in (1, 2)} for head in ("linear", "he")}


def test_runs_that_differ_in_more_than_steps_are_refused(tmp_path):
    folders = [run_config(tmp_path / "a"), run_config(tmp_path / "b", steps=2, epochs=4)]
    with pytest.raises(InputError, match="differ in more than the number of attack steps.*differ in: epochs"):
        runs_by_steps(folders)


def test_runs_with_the_same_steps_are_refused(tmp_path):
    with pytest.raises(InputError, match="steps of its own"):
        runs_by_steps([run_config(tmp_path / "a"), run_config(tmp_path / "b")])


def test_a_model_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(InputError, match="which has no config.json"):
        runs_by_steps([str(tmp_path / "a"), str(tmp_path / "b")])


def exit_code(monkeypatch, *flags):
    monkeypatch.setattr(sys, "argv", ["bin/analyze", *flags])
    with pytest.raises(SystemExit) as stopped:
        analyze.main()
    return stopped.value.code


def test_pictures_and_numbers_are_written_and_angles_of_a_linear_head_refused(tmp_path, monkeypatch, capsys):
    linear = tmp_path / "linear.keras"
    tiny_net("linear", classes=10).save(linear)
    flags = [f"--model={linear}", "--dataset=digits", "--max_examples=4", "--epsilon=0.1", "--steps=1"]
    output = tmp_path / "out"
    assert exit_code(monkeypatch, *flags, "--what=class_bias", f"--output={output}") == 0
    assert sorted(path.suffix for path in output.glob("class_bias.*")) == [".json", ".png", ".svg"]
    assert json.loads((output / "class_bias.json").read_text())["images"] == 4
    assert exit_code(monkeypatch, *flags, "--what=angles", f"--output={output}") == 2
    assert "Angles need a hypersphere head" in capsys.readouterr().err


def test_a_foreign_file_is_not_overwritten(tmp_path, monkeypatch, capsys):
    linear = tmp_path / "linear.keras"
    tiny_net("linear", classes=10).save(linear)
    (tmp_path / "class_bias.json").write_text('{"mine": 1}')
    flags = [f"--model={linear}", "--dataset=digits", "--what=class_bias", f"--output={tmp_path}"]
    assert exit_code(monkeypatch, *flags) == 2
    assert (tmp_path / "class_bias.json").read_text() == '{"mine": 1}'
