"""Whose folder it is, and what evaluation and export read of its config."""

import json
import os
import pathlib
import socket
import sys

import numpy as np
import pytest

from athe_tf.data.sources import source_fingerprint
from athe_tf.jobs.locks import LOCK
from athe_tf.programs.config import AnalyzeConfig, EvaluateConfig, TrainConfig
from athe_tf.programs.config.serialization import FORMAT, from_json, to_json
from athe_tf.programs.export import ExportConfig
from athe_tf.programs.train import PROGRAM
from athe_tf.programs.workdir import Workdir, fill_from_run, flagfile
from athe_tf.utils.errors import InputError
from athe_tf.utils.files import TEMPORARY


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
    assert (stored["format"], stored["options"]) == (
        FORMAT,
        {"beta": 3.0, "divergence": "kl", "attack_from": "prediction"},
    )
    folder.check_free(config)
    assert "--beta=3\n" in flagfile(config) and "--lr_drops=1.23456789012,2\n" in flagfile(config)


@pytest.mark.parametrize("name", ["dataset", "model", "workdir", "data_dir", "initial_model"])
@pytest.mark.parametrize("break_", ["\n", "\r", "\u2028", "\x1b"])
def test_a_value_cannot_add_a_flag(name, break_):
    with pytest.raises(InputError, match=f"--{name} must be a text without line breaks"):
        TrainConfig.from_flags(**{name: f"npz:a{break_}--epochs=1/d.npz"})


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
    assert set(settings) == {"framework", "norm", "margin"} and settings["margin"] == 0.2


@pytest.mark.parametrize(
    "text, message",
    [
        ("[]", "not a JSON object"),
        ("[" * 100_000, "nested too deeply"),
        (
            '{"format": 2, "epochs": "abc"}',
            "Invalid setting 'epochs'. Expected a whole number. Received: abc",
        ),
        (
            '{"format": 2, "epochs": true}',
            "Invalid setting 'epochs'. Expected a whole number. Received: True",
        ),
        (
            '{"format": 2, "lr_drops": 5}',
            "Invalid setting 'lr_drops'. Expected a list of numbers. Received: 5",
        ),
        ('{"format": 2, "margin": {}}', "Invalid setting 'margin'. Expected a number"),
        ('{"format": 2, "devices": [1]}', "Invalid setting 'devices'. Expected a list of texts"),
        ('{"format": 2, "model": null}', "Invalid setting 'model'. Expected a text"),
        ('{"format": 2, "options": [1]}', "Invalid setting 'options'. Expected an object"),
        ('{"format": 2, "framework": "trades", "options": {"beta": "x"}}', "Invalid setting 'beta'"),
    ],
)
def test_a_malformed_config_is_refused_with_its_path_and_the_setting(tmp_path, text, message):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(InputError, match=f"config.json' is not the config of a run: .*{message}"):
        Workdir(tmp_path).check_free(make_config())


def test_unknown_settings_are_refused_by_a_resume():
    text = to_json(TrainConfig())
    with pytest.raises(InputError, match="Unknown setting 'epoch'. Did you mean 'epochs'"):
        from_json(TrainConfig, text.replace('"epochs"', '"epoch"'))


def test_files_of_a_process_that_was_killed_at_its_start_do_not_occupy_the_folder(tmp_path):
    (tmp_path / f"{TEMPORARY}0123.json").touch()
    (tmp_path / LOCK).touch()
    Workdir(tmp_path).check_free(make_config())
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(InputError, match="contains files that are not of a training run"):
        Workdir(tmp_path).check_free(make_config())


def test_what_a_killed_run_left_is_removed_at_the_next_start(run):
    folder, _ = run
    for place in (folder.folder, folder.backup.parent, folder.periods):
        place.mkdir(exist_ok=True)
        (place / f"{TEMPORARY}0123.keras").touch()
    with folder.held():
        assert not list(folder.folder.rglob(f"{TEMPORARY}*"))


def test_a_second_run_in_the_same_folder_is_refused(run, monkeypatch, capsys):
    folder, _ = run
    monkeypatch.setattr(
        sys, "argv", ["bin/train", f"--flagfile={folder.flags}", f"--workdir={folder.folder}"]
    )
    with folder.held():
        assert PROGRAM.exit_code() == 2
    assert f"is in use by another process: host {socket.gethostname()}, process {os.getpid()}" in (
        capsys.readouterr().err
    )


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """A run on the data of a file; its config as a stranger could send it, without the data."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 255, [20, 8, 8, 1], dtype=np.uint8), np.arange(20) % 2
    np.savez("d.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)
    config = TrainConfig.from_flags(framework="trades", head="he", epsilon=0.1, dataset="npz:d.npz")
    folder = Workdir("run")
    folder.claim(config, data_fingerprint=source_fingerprint("npz:d.npz"))
    return folder


CONFIGS = {
    "evaluate": lambda **given: EvaluateConfig(model="run", attacks=("fgsm",), **given),
    "analyze": lambda **given: AnalyzeConfig(model="run", what=("linearity",), output="o", **given),
    "export": lambda **given: ExportConfig("run", "net.tflite", "litert_int8", **given),
}


@pytest.mark.parametrize("make", CONFIGS.values(), ids=CONFIGS)
def test_a_path_in_the_config_of_a_run_is_followed_only_to_the_data_of_the_run(trained, make):
    assert fill_from_run(make(), trained.recorded_settings()[0]).dataset == "npz:d.npz"
    stored = json.loads(trained.config.read_text())
    # Other data there, no fingerprint (older runs), a fingerprint of nothing, no data.
    pathlib.Path("d.npz").rename("private.npz")
    np.savez("d.npz", x_test=np.zeros([2, 8, 8, 1]))
    changes = [{}, {"data_fingerprint": None}, {"data_fingerprint": ""}, {"dataset": "npz:missing.npz"}]
    changes += [{"dataset": "folder:."}, {"dataset": "npz:/dev/zero"}, {"dataset": "npz:a\0"}]
    for change in changes:
        trained.config.write_text(json.dumps(stored | change))
        path = (stored | change)["dataset"]
        with pytest.raises(
            InputError, match=f"names the path '{path}'.*Name the images yourself: --dataset="
        ):
            fill_from_run(make(), trained.recorded_settings()[0])
    # Whoever names the data has decided.
    given = make(dataset="npz:private.npz")
    assert fill_from_run(given, trained.recorded_settings()[0]).dataset == "npz:private.npz"


def test_a_folder_of_prepared_data_is_followed_only_to_the_data_of_the_run(tmp_path):
    files = tmp_path / "tfds" / "mnist" / "3.0.1"
    files.mkdir(parents=True)
    (files / "mnist-test.tfrecord-00000-of-00001").write_bytes(b"images")
    place = str(tmp_path / "tfds")
    known = {"dataset": "mnist", "data_dir": place, "data_fingerprint": source_fingerprint("mnist", place)}
    assert fill_from_run(CONFIGS["evaluate"](), known).data_dir == place
    assert fill_from_run(CONFIGS["evaluate"](dataset="kmnist"), known).data_dir == place
    # A data set in memory has no use for it.
    assert fill_from_run(CONFIGS["evaluate"](dataset="digits"), known).data_dir is None
    for wrong in ({"data_fingerprint": "0" * 16}, {"data_fingerprint": None}):
        for given in ({}, {"dataset": "kmnist"}):
            with pytest.raises(InputError, match=f"names the path '{place}'.*--data_dir={place}"):
                fill_from_run(CONFIGS["evaluate"](**given), known | wrong)
    assert fill_from_run(CONFIGS["evaluate"](data_dir="mine"), known | wrong).data_dir == "mine"


def test_names_of_data_sets_are_followed():
    assert fill_from_run(CONFIGS["evaluate"](), {"dataset": "cifar10"}).dataset == "cifar10"
