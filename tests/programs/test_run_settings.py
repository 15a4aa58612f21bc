"""What programs take from the training run of a model: the same images for all of them."""

import sys

import pytest

from athe_tf import data
from athe_tf.programs import analyze, evaluate, export
from athe_tf.programs.config import TrainConfig
from athe_tf.programs.config.serialization import to_json
from tests.small_runs import tiny_net

PREPROCESSING = ("data_dir", "image_size", "resize_size", "skip_corrupt")


@pytest.fixture
def run(tmp_path):
    """A run on the central 8x8 pixels of digits that were enlarged to 10x10."""
    folder = tmp_path / "run"
    folder.mkdir()
    tiny_net("he", classes=10).save(folder / "best.keras")
    config = TrainConfig(
        dataset="digits", image_size=8, resize_size=10, model="small_cnn", workdir=str(folder)
    )
    (folder / "config.json").write_text(to_json(config))
    return folder


@pytest.fixture
def loaded(monkeypatch):
    """What data sets were loaded with, one entry per call."""
    calls, load = [], data.load

    def spy(name, **options):
        calls.append((name, *(options.get(option) or None for option in PREPROCESSING)))
        return load(name, **options)

    monkeypatch.setattr(data, "load", spy)
    return calls


def start(monkeypatch, program, *flags):
    monkeypatch.setattr(sys, "argv", ["program", *flags])
    with pytest.raises(SystemExit) as stopped:
        program.main()
    return stopped.value.code


def test_every_program_looks_at_the_images_that_the_run_was_trained_on(run, loaded, tmp_path, monkeypatch):
    few = "--max_examples=4"
    assert start(monkeypatch, evaluate, f"--model={run}", "--attacks=fgsm", "--nochecks", few) == 0
    analysis = [f"--model={run}", "--what=class_bias", "--steps=1", few, f"--output={tmp_path / 'analysis'}"]
    assert start(monkeypatch, analyze, *analysis) == 0
    file = [f"--model={run}", "--format=litert_int8", "--calibration_images=2"]
    assert start(monkeypatch, export, *file, f"--output={tmp_path / 'net.tflite'}") == 0
    assert loaded == [("digits", None, 8, 10, None)] * 3


def test_a_size_of_ones_own_goes_without_the_resize_of_the_run(run, loaded, tmp_path, monkeypatch):
    flags = [f"--model={run}", "--what=class_bias", "--steps=1", "--max_examples=4", "--image_size=8"]
    assert start(monkeypatch, analyze, *flags, f"--output={tmp_path / 'analysis'}") == 0
    assert loaded == [("digits", None, 8, None, None)]


def test_an_analysis_with_another_resize_is_not_taken_for_the_same(run, tmp_path, monkeypatch, capsys):
    flags = [f"--model={run}", "--what=class_bias", "--steps=1", "--max_examples=4"]
    flags += ["--image_size=8", f"--output={tmp_path / 'analysis'}"]
    assert start(monkeypatch, analyze, *flags) == start(monkeypatch, analyze, *flags) == 0
    assert capsys.readouterr().out.count("kept from before") == 1
    assert start(monkeypatch, analyze, *flags, "--resize_size=10") == 0
    assert "kept from before" not in capsys.readouterr().out
