"""Whose folder it is, and what evaluation and export read of its config."""

import json

import pytest

from athe_tf.programs.config import TrainConfig
from athe_tf.programs.config.serialization import FORMAT, from_json, to_json
from athe_tf.programs.workdir import Workdir, flagfile
from athe_tf.utils.errors import InputError


def make_config(beta=3.0):
    # More digits than a number is usually shown with.
    drops = (1.23456789012, 2.0)
    return TrainConfig.from_flags(framework="trades", head="he", beta=beta, epsilon=0.1, lr_drops=drops)


@pytest.fixture
def run(tmp_path):
    config = make_config()
    folder = Workdir(tmp_path / "run")
    folder.claim(config)
    return folder, config


def test_a_config_comes_back_with_the_options_of_its_framework(run):
    folder, config = run
    assert folder.read_config().framework_options == config.framework_options
    stored = json.loads(folder.config.read_text())
    assert (stored["format"], stored["options"]) == (FORMAT, {"beta": 3.0})
    folder.check_free(config)
    assert "--beta=3\n" in flagfile(config) and "--lr_drops=1.23456789012,2\n" in flagfile(config)


def test_a_changed_option_is_another_run(run):
    folder, _ = run
    with pytest.raises(InputError, match=r"--beta=4 \(there: 3\). Use another --workdir"):
        folder.check_free(make_config(beta=4.0))


@pytest.mark.parametrize("version", [None, FORMAT + 1])
def test_a_run_of_another_version_is_not_resumed_but_can_be_evaluated(run, version):
    folder, config = run
    stored = json.loads(folder.config.read_text()) | {"format": version, "new_setting": 1}
    folder.config.write_text(json.dumps({k: v for k, v in stored.items() if v is not None}))
    with pytest.raises(
        InputError, match=f"has format {version or 1}, and this version .* writes format {FORMAT}"
    ):
        folder.check_free(config)
    settings, remark = folder.recorded_settings()
    assert settings["epsilon"] == 0.1 and settings["margin"] == 0.2 and settings["dataset"] == "digits"
    assert f"has format {version or 1}" in remark


@pytest.mark.parametrize(
    "text", ["", "[]", "5", "null", '{"architectures": ["Net"]}', '{"epochs": "abc"}', "[" * 10_000]
)
def test_a_config_of_others_says_nothing_to_evaluation(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    assert Workdir(tmp_path).recorded_settings() == ({}, None)


def test_settings_of_odd_types_are_left_out(run):
    folder, _ = run
    stored = json.loads(folder.config.read_text()) | {"epsilon": {}, "dataset": 5, "margin": [1]}
    folder.config.write_text(json.dumps(stored))
    settings, _ = folder.recorded_settings()
    assert set(settings) == {"norm", "margin"} and settings["margin"] == 0.2


def test_unknown_settings_are_refused_by_a_resume():
    text = to_json(TrainConfig())
    with pytest.raises(InputError, match="Unknown setting 'epoch'. Did you mean 'epochs'"):
        from_json(TrainConfig, text.replace('"epochs"', '"epoch"'))
