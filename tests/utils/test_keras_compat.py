"""Private names of Keras and TensorFlow are used in `keras_compat.py` and `tensorflow_compat.py` only."""

import ast
import inspect
import pathlib

import keras
import pytest

import athe_tf
from athe_tf.layers import BatchNorm
from athe_tf.utils import keras_compat, tensorflow_compat

PACKAGE = pathlib.Path(athe_tf.__file__).parent
COMPAT = [pathlib.Path(module.__file__) for module in (keras_compat, tensorflow_compat)]
FILES = [path for path in sorted(PACKAGE.rglob("*.py")) if path not in COMPAT]
PRIVATE_PACKAGES = ("keras.src", "tensorflow.python", "tensorflow.core", "tensorflow.compiler")
# Public in spite of their names: methods of every named tuple.
NAMED_TUPLE = {"_asdict", "_fields", "_replace"}
KERAS_CLASSES = (
    keras.Model,
    keras.Sequential,
    keras.KerasTensor,
    keras.callbacks.Callback,
    keras.layers.BatchNormalization,
    keras.losses.Loss,
    keras.optimizers.Optimizer,
    keras.optimizers.schedules.LearningRateSchedule,
)
# The last three are set on instances, so `dir` of a class does not list them.
KERAS_PRIVATE = {
    name
    for each in KERAS_CLASSES
    for name in dir(each)
    if name.startswith("_") and not name.startswith("__") and "_tf" not in name
} | {"_learning_rate", "_loss_tracker", "_keras_history"}


def is_private(name) -> bool:
    return isinstance(name, str) and name.startswith("_") and not name.startswith("__")


def names_used(tree):
    """Private attributes that the code reads, by `x._name` or by `getattr(x, "_name")`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            yield node.attr, node.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
            name = node.args[1].value if isinstance(node.args[1], ast.Constant) else None
            if is_private(name):
                yield name, node.lineno


def names_defined(tree):
    """Private functions, methods, classes, fields and attributes that the code defines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and is_private(node.name):
            yield node.name
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr


def methods(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield from ((m.name, m.lineno) for m in node.body if isinstance(m, ast.FunctionDef))


def private_names(text, defined):
    """What a file uses or overrides of Keras and TensorFlow that is private."""
    tree = ast.parse(text)
    found = {name for name in PRIVATE_PACKAGES if name in text}
    found |= {f"{name} in line {line}" for name, line in names_used(tree) if name not in defined}
    touched = [*names_used(tree), *methods(tree)]
    return found | {f"{name} in line {line}" for name, line in touched if name in KERAS_PRIVATE}


def test_other_files_use_public_names_only():
    texts = {path: path.read_text() for path in FILES}
    defined = NAMED_TUPLE.union(*(names_defined(ast.parse(text)) for text in texts.values()))
    found = {str(path): names for path, text in texts.items() if (names := private_names(text, defined))}
    assert not found, f"Move these private names to {[path.name for path in COMPAT]}: {found}"


def test_the_check_finds_private_names():
    code = "import keras.src\nmodel._flatten_layers()\ngetattr(model, '_loss_tracker')\nmodel.fit()\n"
    found = private_names(code, defined={"_loss_tracker"})
    assert found == {"keras.src", "_flatten_layers in line 2", "_loss_tracker in line 3"}
    override = "class Net(keras.Model):\n    def _maybe_symbolic_build(self): pass\n"
    assert private_names(override, defined=set()) == {"_maybe_symbolic_build in line 2"}


@pytest.mark.parametrize("module", [keras_compat, tensorflow_compat])
def test_every_function_says_why_it_exists(module):
    for name, value in vars(module).items():
        if getattr(value, "__module__", "") == module.__name__ and not is_private(name):
            assert len(inspect.getdoc(value).splitlines()) > 1 or ";" in inspect.getdoc(value), name


def test_all_layers_finds_layers_inside_layers():
    inner = keras.Sequential([keras.Input((4, 4, 1)), BatchNorm(name="inside")])
    outer = keras.Sequential([keras.Input((4, 4, 1)), inner])
    assert "inside" in [layer.name for layer in keras_compat.all_layers(outer)]
    assert "inside" not in [layer.name for layer in outer.layers]


def test_a_tensor_knows_its_layer_and_input():
    inputs = keras.Input((3,))
    dense = keras.layers.Dense(2)
    layer, before = keras_compat.producer(dense(inputs))
    assert layer is dense and before is inputs
    assert keras_compat.producer(inputs)[1] is None


def test_a_schedule_is_read_through_a_loss_scale_optimizer():
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5)
    scaled = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(schedule))
    assert keras_compat.rate_or_schedule(scaled) is schedule
