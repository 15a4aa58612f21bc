"""Every private name of Keras that this library uses with any backend.

A new release may move any of them without notice. Then this and `tensorflow_compat.py`, which has those of
TensorFlow and of Keras' training loop for it, are the only files to change: the rest of the library uses
public names only, and `tests/utils/test_keras_compat.py` checks that.
"""

from typing import Any

import keras
from keras.src.backend.common.symbolic_scope import in_symbolic_scope
from keras.src.backend.common.tensor_attributes import get_tensor_attr, set_tensor_attr
from keras.src.saving.serialization_lib import SafeModeScope

#: Keep a value with a tensor under a name, as Keras keeps masks, and find it, or `None`. Attributes do that
#: for most tensors, but not for those that JAX traces.
attach, attached = set_tensor_attr, get_tensor_attr


def all_layers(model: keras.Model) -> list[keras.layers.Layer]:
    """The model and all of its layers, however deeply nested.

    The public `layers` stops at the first level, and only models have it: layers inside layers are missing.
    """
    return list(model._flatten_layers())


def seed_states(layer: keras.layers.Layer) -> list:
    """The variables from which a layer, and layers inside it, draw random numbers; only their name tells."""
    return [variable for variable in layer.variables if variable.name == "seed_generator_state"]


def producer(tensor: keras.KerasTensor) -> tuple[Any, Any]:
    """The layer that computes a symbolic tensor, and the first of its inputs, or `None` if it has none.

    Keras has no public way from a tensor to its layer: the order of `model.layers` is not that of the calls.
    """
    history = tensor._keras_history
    inputs = history.operation._inbound_nodes[history.node_index].input_tensors
    return history.operation, inputs[0] if inputs else None


def called_once(layer: keras.layers.Layer) -> bool:
    """Whether a layer has one place in one graph; Keras has no public list of the places."""
    return len(layer._inbound_nodes) == 1


def has_values() -> bool:
    """Whether tensors have values: not while Keras finds out shapes, when PyTorch's are arbitrary numbers.

    Keras tells this to its own layers only.
    """
    return not in_symbolic_scope()


def safe_mode() -> SafeModeScope:
    """A context in which Keras refuses to load files that contain code.

    The argument `safe_mode` of `keras.models.load_model` has no effect in a process that called
    `keras.config.enable_unsafe_deserialization`.
    """
    return SafeModeScope(True)


def rate_or_schedule(optimizer: keras.optimizers.Optimizer) -> Any:
    """The learning rate that the optimizer was given: a number, a variable or a schedule.

    The public `learning_rate` is always a number, the one of the next update. A `LossScaleOptimizer` has a
    rate of its own that is never used; the one inside it counts.
    """
    return getattr(optimizer, "inner_optimizer", optimizer)._learning_rate


class OptimizerWithCoupledDecay(keras.optimizers.Optimizer):
    """Base class of optimizers whose `update_step` contains the weight decay.

    Keras' own decay shrinks the weights before the update, which only a private method can turn off.
    """

    def decays(self, variable) -> bool:
        """Whether weight decay applies to a variable: `exclude_from_weight_decay` has no public query."""
        return self._use_weight_decay(variable)

    def state_of(self, variable, states: list) -> Any:
        """The entry of `states` for a variable; only a private method knows its position."""
        return states[self._get_variable_index(variable)]

    def _apply_weight_decay(self, variables) -> None:
        """Does nothing."""
