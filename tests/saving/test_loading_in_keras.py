"""After `import athe_tf`, Keras loads models with its layers and losses, in a process that used none yet."""

import importlib
import json
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest

import athe_tf
from athe_tf.utils.keras_registration import MODULES

X = np.random.default_rng(0).normal(size=(8, 6)).astype("float32")

PROGRAM = """
import json, sys
{imports}
import numpy as np
model = keras.models.load_model({path!r})
x = np.load({images!r})
print(json.dumps({{
    "logits": np.asarray(model(x)).tolist(),
    "loss": [model.loss.form, model.loss.scale],
    "rate": type(model.optimizer).__name__,
    "steps": int(model.optimizer.iterations),
    "finders": [name for name in map(repr, sys.meta_path) if "athe_tf.utils" in name],
    "after": model.fit(x, np.arange(8) % 4, verbose=0).history["loss"],
}}))
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A compiled and trained model with a layer, a constraint, a loss and an optimizer of this library."""
    folder = tmp_path_factory.mktemp("saved")
    inputs = keras.Input((6,))
    hidden = athe_tf.BatchNorm()(inputs)
    net = keras.Model(inputs, athe_tf.CosineDense(4, scale=9.0, weight_norm="project")(hidden))
    net.compile(
        athe_tf.training.TorchSGD(athe_tf.training.Piecewise(0.1, [100]), momentum=0.9),
        loss=athe_tf.MarginCrossentropy.for_head(net, 0.5, form="arc"),
    )
    net.fit(X, np.arange(8) % 4, verbose=0)
    net.save(folder / "net.keras")
    np.save(folder / "x.npy", X)
    return net, folder


@pytest.mark.parametrize("imports", ["import athe_tf, keras", "import keras, athe_tf"])
def test_a_compiled_model_is_loaded_by_keras_in_a_new_process(saved, imports):
    net, folder = saved
    program = PROGRAM.format(imports=imports, path=str(folder / "net.keras"), images=str(folder / "x.npy"))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    np.testing.assert_allclose(found["logits"], net(X), rtol=0, atol=1e-5)
    assert found["loss"] == ["arc", 9.0] and found["rate"] == "TorchSGD" and found["steps"] == 1
    assert found["finders"] == []


def test_load_model_can_go_on_with_fit(saved):
    net, folder = saved
    assert not athe_tf.load_model(folder / "net.keras").compiled
    again = athe_tf.load_model(folder / "net.keras", compile=True)
    assert int(again.optimizer.iterations) == 1
    first, second = (m.fit(X, np.arange(8) % 4, verbose=0).history["loss"] for m in (net, again))
    np.testing.assert_allclose(second, first, rtol=1e-6)


def test_the_list_of_classes_is_complete():
    """What modules register when they are imported, from their own source, is what the list has."""
    for module in sorted(set(MODULES.values())):
        importlib.import_module(module)
    root = pathlib.Path(athe_tf.__file__).parent
    with_registration = {
        ".".join(path.relative_to(root.parent).with_suffix("").parts)
        for path in root.rglob("*.py")
        if "@keras.saving.register_keras_serializable" in path.read_text()
    }
    assert with_registration == set(MODULES.values())
    table = keras.saving.get_custom_objects()
    ours = {
        name.removeprefix("athe_tf>"): each for name, each in table.items() if name.startswith("athe_tf>")
    }
    assert {name: each.__module__ for name, each in ours.items()} == MODULES
