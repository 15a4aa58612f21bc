"""`open_model` and `athe_tf.victim`: whatever a user calls a model is opened in one way."""

import json

import numpy as np
import pytest

import athe_tf
from athe_tf.saving import open_model
from athe_tf.utils.errors import InputError
from tests.small_runs import tiny_batch, tiny_net

X, _ = tiny_batch(5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One model in all forms, among them a training run."""
    root = tmp_path_factory.mktemp("models")
    net = tiny_net()
    (root / "run").mkdir()
    (root / "run" / "config.json").write_text("{}")
    net.save(root / "run" / "best.keras")
    athe_tf.export(net, root / "exported")
    athe_tf.saving.convert(net, root / "net.tflite", "litert")
    return root


def logits(x):
    """For `module:function`."""
    return tiny_net()(x)


@pytest.mark.parametrize(
    "name, has_net, card",
    [
        ("run", True, None),
        ("run/best.keras", True, None),
        ("exported", False, 15.0),
        ("net.tflite", False, 15.0),
    ],
)
def test_files_and_folders_of_one_model_give_the_same_logits(folder, name, has_net, card):
    opened = open_model(folder / name)
    np.testing.assert_allclose(opened.victim.logits(X), tiny_net()(X), atol=1e-5)
    assert (opened.net is not None) == has_net and opened.card.get("scale") == card
    assert opened.source == folder / name and opened.digest == open_model(str(folder / name)).digest
    np.testing.assert_array_equal(athe_tf.victim(folder / name).logits(X), opened.victim.logits(X))


def test_objects_and_names_are_opened_too(folder):
    net = tiny_net()
    victim = athe_tf.victim(net)
    assert open_model(net).net is net and open_model(net).victim is victim is open_model(victim).victim
    by_name = open_model(f"{__name__}:logits")
    np.testing.assert_array_equal(by_name.victim.logits(X), net(X))
    assert by_name.net is None and by_name.digest is None
    assert open_model(f"zoo:{athe_tf.zoo.names()[0]}").net.output_shape == (None, 10)
    with pytest.raises(InputError, match="Expected a Keras model.* Received: int"):
        open_model(3)


def test_another_range_of_pixels_is_that_of_the_net_too(folder):
    expected = tiny_net()(255 * X)
    opened = open_model(folder / "run", input_range=(0, 255))
    for found in (opened.victim.logits(X), opened.net(X)):
        np.testing.assert_allclose(found, expected, atol=1e-4)
    exported = open_model(folder / "exported", input_range=(0, 255))
    np.testing.assert_allclose(exported.victim.logits(X), expected, atol=1e-4)


def test_a_run_without_a_model_is_named_as_such(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({}))
    with pytest.raises(InputError, match="has no model yet. Wait for the end of its first epoch"):
        open_model(tmp_path)


def test_a_function_that_builds_a_model_is_called_with_the_data(tmp_path, monkeypatch):
    (tmp_path / "own_builders.py").write_text(
        "import keras\n"
        "def build(num_classes, input_shape):\n"
        "    images = keras.Input(input_shape)\n"
        "    return keras.Model(images, keras.layers.Dense(num_classes)(keras.layers.Flatten()(images)))\n"
        "def load():\n    return build(3, (2, 2, 1))\n"
        "def wrong():\n    return 3\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    opened = open_model("own_builders:build", data=(4, (5, 5, 1)))
    assert opened.net.input_shape == (None, 5, 5, 1) and opened.victim.num_classes == 4
    assert open_model("own_builders:load").net.output_shape == (None, 3)
    with pytest.raises(InputError, match="takes no images. Expected: .* Received: 3"):
        open_model("own_builders:wrong")
