"""Export: the SavedModel is the model, to the attacker too."""

import errno
import json
import os
import zipfile

import keras
import numpy as np
import pytest
import tensorflow as tf

import athe_tf
from athe_tf import attacks
from athe_tf.saving import keras_file, saved_model
from athe_tf.saving.keras_file import load_model
from athe_tf.saving.opening import victim as open_victim
from athe_tf.saving.saved_model import saved_model_victim
from athe_tf.utils.errors import InputError
from benchmarks.malformed import models
from tests.small_runs import tiny_batch, tiny_net

X, Y = tiny_batch(40)


@pytest.fixture(scope="module", params=["he", "mhe", "linear"])
def exported(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    net = tiny_net(request.param)
    net.save(folder / "m.keras")
    athe_tf.export(net, folder / "saved", margin=0.2)
    return net, folder


def test_logits_features_and_gradients_are_those_of_the_keras_file(exported):
    _, folder = exported
    keras_victim = athe_tf.victim(load_model(folder / "m.keras"))
    saved = open_victim(folder / "saved")
    np.testing.assert_allclose(saved.logits(X), keras_victim.logits(X), atol=1e-6)
    np.testing.assert_allclose(saved.features(X), keras_victim.features(X), atol=1e-6)
    images = tf.constant(X)
    gradients = []
    for target in (keras_victim, saved):
        with tf.GradientTape() as tape:
            tape.watch(images)
            value = tf.reduce_sum(tf.square(target.logits(images)))
        gradients.append(tape.gradient(value, images))
    np.testing.assert_allclose(*gradients, atol=1e-4)


def test_robust_flags_are_those_of_the_keras_file(exported):
    _, folder = exported
    attack = attacks.get("pgd-10x2", epsilon=0.03)
    targets = [athe_tf.victim(load_model(folder / "m.keras")), open_victim(folder / "saved")]
    y = np.asarray(targets[0].logits(X)).argmax(1)
    results = [attack.run(target, X, y) for target in targets]
    close = np.zeros(len(X), bool)
    for result, target in zip(results, targets, strict=True):
        top = np.sort(np.asarray(target.logits(result.x_adv)), axis=1)
        close |= top[:, -1] - top[:, -2] < 1e-4
    np.testing.assert_array_equal(results[0].success[~close], results[1].success[~close])


def test_the_card_tells_head_scale_margin_and_classes(exported):
    _, folder = exported
    card = json.loads((folder / "saved" / "athe_tf.json").read_text())
    linear = card["head"] == "linear"
    assert card["scale"] == (None if linear else 15.0)
    assert (card["margin"], card["num_classes"], card["input_shape"]) == (0.2, 4, [8, 8, 1])
    target = saved_model_victim(folder / "saved")
    assert target.scale == (1.0 if linear else 15.0) and target.num_classes == 4


def test_the_normalization_inside_the_model_is_on_the_card(tmp_path):
    net = athe_tf.models.build("small_cnn", 3, input_shape=(8, 8, 1), mean=(0.3,), std=(0.5,))
    card = athe_tf.export(net, tmp_path / "e")
    np.testing.assert_allclose(card["normalization"]["mean"], [0.3], rtol=1e-6)
    np.testing.assert_allclose(card["normalization"]["std"], [0.5], rtol=1e-6)


def test_an_export_never_overwrites(exported):
    net, folder = exported
    with pytest.raises(InputError, match="exists already"):
        athe_tf.export(net, folder / "saved")


def test_an_export_is_replaced_only_by_a_complete_one(tmp_path, monkeypatch):
    net = tiny_net()
    athe_tf.export(net, tmp_path / "e", margin=0.1)
    monkeypatch.setattr(saved_model, "write_card", full_disk)
    with pytest.raises(OSError, match="No space left"):
        athe_tf.export(net, tmp_path / "e", margin=0.2, replace=True)
    with pytest.raises(OSError, match="No space left"):
        athe_tf.export(net, tmp_path / "new", margin=0.2)
    assert margin_and_names(tmp_path) == (0.1, ["e"])
    monkeypatch.undo()
    athe_tf.export(net, tmp_path / "e", margin=0.2, replace=True)
    assert margin_and_names(tmp_path) == (0.2, ["e"])


def full_disk(*arguments):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def margin_and_names(folder):
    margin = json.loads((folder / "e" / "athe_tf.json").read_text())["margin"]
    return margin, [path.name for path in folder.iterdir()]


@pytest.mark.parametrize(
    "name", ["notes", "assets/notes", "variables/notes", "variables/variables.old/notes"]
)
def test_an_export_with_other_files_is_not_replaced(tmp_path, name):
    other = tmp_path / "e" / name
    athe_tf.export(tiny_net(), tmp_path / "e")
    other.parent.mkdir(exist_ok=True)
    other.touch()
    with pytest.raises(InputError, match="not an exported model, or contains other files"):
        athe_tf.export(tiny_net(), tmp_path / "e", replace=True)
    assert other.exists()


def test_only_exports_are_replaced(tmp_path):
    tiny_net().export(str(tmp_path / "theirs"), verbose=False)
    (tmp_path / "file").touch()
    for name in ("theirs", "file"):
        with pytest.raises(InputError, match="not an exported model, or contains other files"):
            athe_tf.export(tiny_net(), tmp_path / name, replace=True)
    assert (tmp_path / "theirs" / "saved_model.pb").exists()
    (tmp_path / "empty").mkdir()
    athe_tf.export(tiny_net(), tmp_path / "empty", replace=True)


def test_a_model_that_keras_itself_exported_is_a_victim_too(tmp_path):
    net = tiny_net("linear")
    net.export(str(tmp_path / "plain"), verbose=False)
    np.testing.assert_allclose(open_victim(tmp_path / "plain").logits(X), net(X), atol=1e-6)


@pytest.mark.parametrize("content", [b"", b"not a zip file", None])
def test_a_truncated_file_is_named_as_such(tmp_path, content):
    path = tmp_path / "m.keras"
    tiny_net().save(path)
    path.write_bytes(path.read_bytes()[:1000] if content is None else content)
    with pytest.raises(InputError, match="cannot be read: .* truncated"):
        open_victim(path)


class Unregistered(keras.layers.Layer):
    def call(self, x):
        return x


@pytest.mark.parametrize(
    "layer, expected",
    [
        (Unregistered(), "cannot be read: Could not locate class 'Unregistered'"),
        (keras.layers.Lambda(lambda x: 2 * x), "whose `function` is a Python lambda"),
        (keras.layers.ReLU(), "There is no item named 'config.json'"),
    ],
)
def test_a_complete_file_that_keras_refuses_says_why_and_is_not_called_truncated(layer, expected, tmp_path):
    path = tmp_path / "m.keras"
    inputs = keras.Input((8, 8, 1))
    keras.Model(inputs, keras.layers.Dense(3)(keras.layers.Flatten()(layer(inputs)))).save(path)
    if isinstance(layer, keras.layers.ReLU):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("metadata.json", "{}")
    with pytest.raises(InputError) as raised:
        open_victim(path)
    text = str(raised.value)
    assert expected in text and "module:function" in text and "truncated" not in text


def test_a_damaged_member_is_called_truncated(tmp_path):
    path = tmp_path / "m.keras"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", "{}" + " " * 500)
    path.write_bytes(path.read_bytes().replace(b" " * 500, b"x" * 500))
    with pytest.raises(InputError, match="It may be truncated"):
        open_victim(path)


def test_a_file_without_permission_says_so(tmp_path, monkeypatch):
    path = tmp_path / "m.keras"
    tiny_net().save(path)

    def denied(*_):  # root may read everything
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(keras_file, "open", denied, raising=False)
    monkeypatch.setattr(keras_file.zipfile, "ZipFile", denied)
    with pytest.raises(InputError, match="cannot be read: Permission denied. Check its permissions"):
        open_victim(path)


def test_a_missing_model_names_its_neighbor(tmp_path):
    tiny_net().save(tmp_path / "best.keras")
    with pytest.raises(InputError, match=r"There is no model at .*Did you mean '.*best.keras'"):
        open_victim(tmp_path / "bets.keras")


def test_a_malformed_card_is_named(tmp_path):
    athe_tf.export(tiny_net(), tmp_path / "e")
    numbers = ('{"scale": "15"}', '{"scale": NaN}', '{"num_classes": [4]}', '{"margin": -Infinity}')
    for text in ("[]", "5", "null", "{", "[" * 100_000, *numbers):
        (tmp_path / "e" / "athe_tf.json").write_text(text)
        with pytest.raises(InputError, match="The card '.*athe_tf.json' .* cannot be read: .* Export the"):
            saved_model_victim(tmp_path / "e")


def test_a_card_beside_a_file_is_read_in_the_same_way(tmp_path):
    athe_tf.saving.convert(tiny_net(), tmp_path / "net.tflite", "litert")
    assert open_victim(tmp_path / "net.tflite").scale == 15.0
    for text in ("[]", "{", '{"scale": "abc"}', '{"num_classes": [4]}'):
        (tmp_path / "net.tflite.json").write_text(text)
        with pytest.raises(InputError, match="The card '.*net.tflite.json' .* cannot be read: .* Export the"):
            open_victim(tmp_path / "net.tflite")


def test_a_corrupt_saved_model_is_refused(tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(b"nonsense")
    with pytest.raises(InputError, match="cannot be read"):
        open_victim(tmp_path)


def test_every_malformed_model_is_refused(tmp_path):
    models.write_good(tmp_path)
    cases = [(f"{name}.keras", write) for name, write in models.malformed_files(tmp_path / "good.keras")]
    cases += models.malformed_saved_models(tmp_path / "good")
    for name, write in cases:
        write(tmp_path / name)
        with pytest.raises(InputError) as caught:
            open_victim(tmp_path / name)
        assert name in str(caught.value)


def test_a_saved_model_of_integers_is_refused_with_the_line_that_helps(tmp_path):
    inputs = keras.Input((8, 8, 1), dtype="uint8")
    keras.Model(inputs, tiny_net()(keras.layers.Rescaling(1 / 255)(inputs))).export(
        tmp_path / "net", verbose=False
    )
    with pytest.raises(
        InputError, match=r"takes images of dtype uint8.*with_input_range\(model, \(0, 255\)\)"
    ):
        athe_tf.victim(tmp_path / "net")
