"""Model files of strangers: nothing in them is executed, and no other file is read through them."""

import json
import zipfile

import h5py
import keras
import numpy as np
import pytest
from keras.src.saving.serialization_lib import SafeModeScope

import athe_tf
from athe_tf.utils.errors import InputError
from tests.small_runs import tiny_net


@pytest.fixture
def lambda_model(tmp_path):
    """A model with a Lambda layer that leaves a trace where it is run, and the path of the trace."""
    trace = tmp_path / "executed"
    inputs = keras.Input((8, 8, 1))
    touch = eval(f"lambda x: open({str(trace)!r}, 'w').close() or x")
    flat = keras.layers.Flatten()(keras.layers.Lambda(touch, output_shape=(8, 8, 1))(inputs))
    net = keras.Model(inputs, keras.layers.Dense(4)(flat))
    trace.unlink(missing_ok=True)
    return net, trace


def test_a_lambda_layer_is_refused_and_not_run(lambda_model, tmp_path):
    net, trace = lambda_model
    net.save(tmp_path / "net.keras")
    trace.unlink(missing_ok=True)
    # The scope is what keras.config.enable_unsafe_deserialization sets for good.
    with SafeModeScope(False), pytest.raises(InputError, match="cannot be read"):
        athe_tf.load_model(tmp_path / "net.keras")
    assert not trace.exists()


def test_h5_files_are_not_taken(tmp_path):
    tiny_net().save(tmp_path / "net.h5")
    with pytest.raises(InputError, match="old .h5 format are not read.*save it as a .keras file"):
        athe_tf.load_model(tmp_path / "net.h5")


def test_weights_in_another_file_are_not_read(tmp_path):
    """HDF5 can keep the numbers of an array in any file on the disk; Keras before 3.13.2 read them."""
    net = tiny_net("linear")
    net.save(tmp_path / "net.keras")
    secret = tmp_path / "secret"
    secret.write_bytes(b"TOP SECRET " * 4096)
    with zipfile.ZipFile(tmp_path / "net.keras") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    weights = tmp_path / "model.weights.h5"
    weights.write_bytes(parts["model.weights.h5"])
    with h5py.File(weights, "r+") as file:
        names = []
        file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        name = max(names, key=lambda n: file[n].size)
        shape = file[name].shape
        del file[name]
        size = int(np.prod(shape)) * 4
        file.create_dataset(name, shape, "float32", external=[(str(secret), 0, size)])
    with zipfile.ZipFile(tmp_path / "external.keras", "w") as archive:
        for part, content in parts.items():
            archive.writestr(part, weights.read_bytes() if part == "model.weights.h5" else content)
    assert json.loads(parts["metadata.json"])["keras_version"]
    with pytest.raises(InputError, match="cannot be read"):
        athe_tf.load_model(tmp_path / "external.keras")
