"""Model files that an early version wrote keep loading, with the same logits; see files/README.md."""

import copy
import json
import pathlib
import zipfile

import keras
import numpy as np
import pytest

import athe_tf
from athe_tf.saving.saved_model import saved_model_victim

FILES = pathlib.Path(__file__).parent / "files"
REGISTERED = json.loads((FILES / "registered.json").read_text())

# On the processor that wrote the files the logits are equal bit for bit; others may order sums differently.
TOLERANCE = 1e-6


@pytest.fixture(scope="module")
def stored():
    with np.load(FILES / "logits.npz") as file:
        return dict(file)


@pytest.fixture
def saved_model(tmp_path):
    with zipfile.ZipFile(FILES / "linear_saved_model.zip") as archive:
        archive.extractall(tmp_path)
    return tmp_path


def test_a_keras_file_has_the_same_logits(stored):
    net = athe_tf.load_model(FILES / "he.keras")
    np.testing.assert_allclose(net(stored["images"], training=False), stored["he"], rtol=0, atol=TOLERANCE)
    assert isinstance(net.layers[-1], athe_tf.CosineDense) and net.layers[-1].scale == 15.0


def test_a_keras_file_can_be_saved_and_exported_again(stored, tmp_path):
    net = athe_tf.load_model(FILES / "he.keras")
    net.save(tmp_path / "again.keras")
    again = athe_tf.load_model(tmp_path / "again.keras")
    np.testing.assert_allclose(again(stored["images"]), stored["he"], rtol=0, atol=TOLERANCE)
    card = athe_tf.export(net, tmp_path / "export")
    assert (card["head"], card["scale"], card["num_classes"]) == ("he", 15.0, 10)


def test_a_saved_model_has_the_same_logits_and_card(stored, saved_model):
    victim = saved_model_victim(saved_model)
    logits = np.asarray(victim.logits(stored["images"]))
    np.testing.assert_allclose(logits, stored["linear"], rtol=0, atol=TOLERANCE)
    assert victim.num_classes == 10 and victim.scale == 1.0
    assert json.loads((saved_model / "athe_tf.json").read_text())["head"] == "linear"


@pytest.mark.parametrize("name", sorted(REGISTERED))
def test_a_registered_name_stands_for_the_same_object(name):
    # Classes register themselves when they are imported.
    for package in (athe_tf.layers, athe_tf.losses, athe_tf.training):
        for public in package.__all__:
            getattr(package, public)
    written = REGISTERED[name]
    restored = keras.saving.deserialize_keras_object(copy.deepcopy(written))
    config = json.loads(json.dumps(restored.get_config()))
    for argument, value in written["config"].items():
        if not isinstance(value, dict | list):
            assert config[argument] == value, argument
    again = keras.saving.serialize_keras_object(restored)
    assert again["registered_name"] == written["registered_name"] == f"athe_tf>{name}"
