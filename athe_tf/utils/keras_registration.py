"""Lets `keras.models.load_model` find the classes of this library, while importing it stays instant.

Keras looks for a class in a table that the class enters when its module is imported, and the modules of this
library are imported on first use. So placeholders enter the table when Keras is imported, before or after
this library; a placeholder imports its class when a model file names it.
"""

import contextlib
import functools
import importlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Callable
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
        sys.meta_path.insert(0, AtImport("keras", _execute_and_enter))


class AtImport(importlib.abc.MetaPathFinder):
    """Finds a module as the other finders do; `around(execute, module)` is called to execute it, once.

    Keras has no other way to ask for a class that no module has registered yet, and importing Keras here
    would take seconds.
    """

    def __init__(self, name: str, around: Callable):
        self.name, self.around = name, around
        self._searching = False

    def find_spec(self, fullname, path, target=None):
        if fullname != self.name or self._searching:
            return None
        self._searching = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._searching = False
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            loader.exec_module = functools.partial(self._execute, loader.exec_module)
        return spec

    def _execute(self, execute: Callable, module) -> None:
        # Not before: others look for a module without importing it.
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(self)
        self.around(execute, module)


def _execute_and_enter(execute: Callable, module) -> None:
    execute(module)
    _enter(module)


def _enter(keras) -> None:
    for name, module in MODULES.items():
        registered_name = f"athe_tf>{name}"
        keras.saving.get_custom_objects().setdefault(registered_name, Placeholder(registered_name, module))
