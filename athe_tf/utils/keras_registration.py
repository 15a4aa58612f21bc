"""Lets `keras.models.load_model` find the classes of this library, while importing it stays instant.

Keras looks for a class in a table that the class enters when its module is imported, and the modules of this
library are imported on first use. So placeholders enter the table when Keras is imported, before or after
this library; a placeholder imports its class when a model file names it.
"""

import importlib
import importlib.abc
import sys
from typing import Any

#: The classes that a model file can name, as `athe_tf>NAME`, and the module of each.
MODULES = {
    "BatchNorm": "athe_tf.layers.batch_norm",
    "CosineDense": "athe_tf.layers.cosine_dense",
    "LogMeanSoftmax": "athe_tf.layers.log_mean_softmax",
    "OnnxLayer": "athe_tf.conversion.onnx_layer",
    "UnitColumns": "athe_tf.layers.cosine_dense",
    "MarginCrossentropy": "athe_tf.losses",
    "MomentumSGD": "athe_tf.training.optimizers",
    "Cosine": "athe_tf.training.schedules",
    "Cyclic": "athe_tf.training.schedules",
    "Linear": "athe_tf.training.schedules",
    "OneCycle": "athe_tf.training.schedules",
    "PerEpoch": "athe_tf.training.schedules",
    "Periodic": "athe_tf.training.schedules",
    "Piecewise": "athe_tf.training.schedules",
}


class Placeholder:
    """Stands for a class in Keras' table until its module is imported, which puts the class there."""

    def __init__(self, registered_name: str, module: str):
        self.registered_name = registered_name
        self.module = module

    def __repr__(self) -> str:
        return f"<placeholder of '{self.registered_name}'>"

    def from_config(self, config: dict):
        """The object that the class makes of a config; Keras asks for nothing else."""
        importlib.import_module(self.module)
        return sys.modules["keras"].saving.get_custom_objects()[self.registered_name].from_config(config)


def register_with_keras() -> None:
    """Enters the placeholders: at once if Keras is imported already, else as soon as it is."""
    keras = sys.modules.get("keras")
    if hasattr(keras, "saving"):
        _enter(keras)
    else:
        sys.meta_path.insert(0, _WhenKerasIsImported())


class _WhenKerasIsImported(importlib.abc.MetaPathFinder):
    """Finds the module `keras` as the other finders do; enters the placeholders after its import, and leaves.

    Keras has no other way to ask for a class that no module has registered yet, and importing Keras here
    would take seconds.
    """

    def find_spec(self, fullname, path, target=None):
        if fullname != "keras":
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next(filter(None, (finder.find_spec(fullname, path, target) for finder in others)), None)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            execute = loader.exec_module

            def execute_and_enter(module):
                execute(module)
                _enter(module)
                sys.meta_path.remove(self)

            loader.exec_module = execute_and_enter
        return spec


def _enter(keras) -> None:
    for name, module in MODULES.items():
        registered_name = f"athe_tf>{name}"
        keras.saving.get_custom_objects().setdefault(registered_name, Placeholder(registered_name, module))
