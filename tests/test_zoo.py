"""The zoo: every model loads, and gives what its card says."""

import base64
import hashlib
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import athe_tf
from athe_tf import zoo
from athe_tf.programs import evaluate as program
from athe_tf.programs import export
from athe_tf.programs.config import EvaluateConfig
from athe_tf.programs.export import ExportConfig
from athe_tf.programs.workdir import find_model, is_imported
from athe_tf.saving.names import FOLDER
from athe_tf.utils.errors import InputError

ROOT = pathlib.Path(__file__).parents[1]
DATA = pathlib.Path(os.environ.get("TFDS_DATA_DIR", pathlib.Path.home() / "tensorflow_datasets"))
NAMES = zoo.names()


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_there_are_models_with_and_without_the_hypersphere():
    assert {zoo.card(name)["head"] for name in NAMES} >= {"linear", "he"}
    assert {path.stem for path in FOLDER.glob("*.json")} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_model_is_small_and_that_of_its_run(name):
    card = zoo.card(name)
    assert (FOLDER / f"{name}.keras").stat().st_size < 500_000
    assert digest(FOLDER / f"{name}.keras") == digest(ROOT / card["run"] / "best.keras")
    assert str(ROOT) not in json.dumps(card)


@pytest.mark.parametrize("name", NAMES)
def test_the_numbers_of_a_card_are_those_of_the_evaluation(name):
    card = zoo.card(name)
    stored = json.loads((ROOT / card["run"] / "evaluation" / "evaluation.json").read_text())
    for attack, share in card["evaluation"]["accuracy"].items():
        bits = stored["flags"].get(attack, "")
        found = bits.count("1") / len(bits) if bits else stored["worst_case_accuracy"]
        assert share == pytest.approx(found)
    for attack, flags in card["flags"].items():
        assert len(flags) == 256 and stored["flags"][attack].startswith(flags)
    assert f"{100 * card['evaluation']['accuracy']['clean']:.1f}" in zoo.table()


@pytest.mark.parametrize("name", NAMES)
def test_a_model_gives_the_logits_of_its_card(name):
    probe = zoo.card(name)["probe"]
    images = np.frombuffer(base64.b64decode(probe["images"]), np.uint8).reshape(probe["shape"])
    logits = np.asarray(zoo.load(name)(images.astype(np.float32) / 255, training=False))
    np.testing.assert_allclose(logits, probe["logits"], atol=1e-3)


@pytest.mark.skipif(not (DATA / "cifar10").is_dir(), reason="CIFAR-10 is not at hand; set TFDS_DATA_DIR")
@pytest.mark.parametrize("name", NAMES)
def test_a_model_gives_the_flags_of_its_card(name):
    card = zoo.card(name)
    attack = athe_tf.attacks.get("pgd-20", epsilon=card["epsilon"], step_size=0.003)
    x, y = athe_tf.data.load("cifar10", data_dir=DATA).test.arrays(256)
    result = athe_tf.evaluate(zoo.load(name), (x, y), attacks=[attack], epsilon=card["epsilon"], checks=False)
    for key, flags in (("clean", result.correct), ("pgd-20", result.attacks[0].robust)):
        stored = np.array(list(card["flags"][key])) == "1"
        assert (flags != stored).sum() <= 1, key


def test_an_unknown_name_is_refused_with_a_suggestion():
    with pytest.raises(
        InputError, match="Unknown zoo model 'cifar10-fast-at-wrn'. Did you mean 'cifar10-fast"
    ):
        zoo.load("cifar10-fast-at-wrn")


def test_the_programs_know_the_zoo():
    name = "zoo:cifar10-fast-at-he-wrn10-1"
    assert find_model(name) == FOLDER / "cifar10-fast-at-he-wrn10-1.keras"
    assert not is_imported("zoo:other")
    config = EvaluateConfig(model=name, attacks=("pgd-1",))
    filled = program.complete(config, program.training_run_of(name))
    assert (filled.dataset, filled.margin, filled.norm) == ("cifar10", 0.2, "linf")
    with pytest.raises(InputError, match="Unknown zoo model 'other'"):
        program.training_run_of("zoo:other")


def test_a_run_in_the_current_folder_is_not_that_of_the_model(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert program.training_run_of(f"zoo:{NAMES[0]}") is None


def test_an_export_has_the_margin_of_the_card(tmp_path):
    export.action(ExportConfig(model="zoo:cifar10-fast-at-he-wrn10-1", output=str(tmp_path / "out")), {})
    assert json.loads((tmp_path / "out" / "athe_tf.json").read_text())["margin"] == 0.2


def test_an_installation_has_the_models(tmp_path):
    command = [sys.executable, "setup.py", "-q", "egg_info", f"--egg-base={tmp_path}"]
    command += ["build_py", f"--build-lib={tmp_path}"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    built = tmp_path / "athe_tf" / "zoo" / "files"
    assert {path.name for path in built.iterdir()} == {path.name for path in FOLDER.iterdir()}
