"""Cards of models and of the zoo, and files that are not overwritten."""

import json

import keras
import numpy as np
import pytest

import athe_tf
from athe_tf import zoo
from athe_tf.conversion.converted_file import convert
from athe_tf.jobs.locks import lock_name, locked
from athe_tf.models.card import card_path, describe, head_name
from athe_tf.utils.errors import InputError
from tests.small_runs import tiny_batch, tiny_net

WIDE = {"input_shape": (8, 8, 1)}


@pytest.mark.parametrize(
    "settings, name",
    [
        ({}, "he"),
        ({"angular": True}, "mhe"),
        ({"normalize_weights": False}, "fn"),
        ({"normalize_features": False}, "wn"),
        ({"normalize_features": False, "normalize_weights": False}, "linear"),
    ],
)
def test_a_head_is_called_by_what_it_normalizes(settings, name):
    assert head_name(athe_tf.CosineDense(3, **settings)) == name


def test_other_heads_are_linear_or_unknown():
    assert head_name(keras.layers.Dense(3)) == "linear"
    assert head_name(keras.layers.ReLU()) == head_name(None) == "unknown"
    assert describe(athe_tf.models.ensemble_of([tiny_net(), tiny_net()]))["head"] == "ensemble"


def test_a_card_has_the_numbers_of_its_model():
    net = athe_tf.models.build(
        "small_cnn", 3, input_shape=(8, 9, 2), head="he", scale=7.0, mean=(0.1, 0.2), std=(0.5, 0.25)
    )
    card = describe(net, margin=0.3)
    assert (card["input_shape"], card["num_classes"], card["scale"], card["margin"]) == (
        [8, 9, 2],
        3,
        7.0,
        0.3,
    )
    np.testing.assert_allclose(card["normalization"]["mean"], [0.1, 0.2], rtol=1e-6)
    np.testing.assert_allclose(card["normalization"]["std"], [0.5, 0.25], rtol=1e-6)
    assert describe(tiny_net())["normalization"] is None and describe(tiny_net("linear"))["scale"] is None


def test_a_file_has_its_card_beside_it_and_neither_is_replaced(tmp_path):
    net = athe_tf.models.build("wrn-10-1", 3, head="he", **WIDE)
    path = tmp_path / "net.safetensors"
    card = convert(net, path, "torch", margin=0.15)
    assert card_path(path) == tmp_path / "net.safetensors.json"
    assert json.loads(card_path(path).read_text()) == card
    assert (card["margin"], card["format"]) == (0.15, "torch")
    before = path.read_bytes()
    with pytest.raises(InputError, match="exists already. Choose another file"):
        convert(net, path, "torch", margin=0.2)
    assert path.read_bytes() == before and json.loads(card_path(path).read_text())["margin"] == 0.15


def test_one_process_at_a_time_exports_to_a_folder(tmp_path):
    with locked(tmp_path, lock_name("e")), pytest.raises(InputError, match="is in use by another process"):
        athe_tf.export(tiny_net(), tmp_path / "e")
    assert not (tmp_path / "e").exists()


def test_an_export_is_in_inference_mode(tmp_path):
    """Statistics of the batch would give other logits than the moving ones."""
    net, (x, _) = tiny_net("linear"), tiny_batch(6)
    expected = net(x, training=False)
    athe_tf.export(net, tmp_path / "e")
    saved = athe_tf.victim(tmp_path / "e")
    np.testing.assert_allclose(saved.logits(x), expected, atol=1e-5)
    kernel, bias = net.layers[-1].get_weights()
    np.testing.assert_allclose(saved.features(x) @ kernel + bias, expected, atol=1e-4)
    assert not np.allclose(net(x, training=True), expected, atol=1e-2)


def test_every_row_of_the_zoo_has_its_own_numbers_in_their_columns():
    lines = zoo.table().splitlines()
    assert lines[0] == "| model | images | clean | pgd-20 | worst case |"
    for line, name in zip(lines[2:], zoo.names(), strict=True):
        measured = zoo.card(name)["evaluation"]
        shares = [measured["accuracy"][key] for key in ("clean", "pgd-20", "worst_case")]
        assert shares[0] > shares[1] >= shares[2]
        cells = [name, f"{measured['examples']:,}", *(f"{100 * share:.1f}" for share in shares)]
        assert [cell.strip() for cell in line.strip("|").split("|")] == cells
