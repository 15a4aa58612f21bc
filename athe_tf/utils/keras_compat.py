"""Every private name of Keras and TensorFlow that this library uses.

A new release may move any of them without notice. Then this is the one file to change: the rest of the
library uses public names only, and `tests/utils/test_keras_compat.py` checks that.
"""

import functools
from collections.abc import Callable, Iterable
from typing import Any

import keras
import tensorflow as tf
from keras.src.backend.tensorflow import trainer as keras_trainer
from keras.src.saving.serialization_lib import SafeModeScope
from tensorflow.core.protobuf import rewriter_config_pb2
from tensorflow.python.eager import context
from tensorflow.python.framework.func_graph import FuncGraph


def all_layers(model: keras.Model) -> list[keras.layers.Layer]:
    """The model and all of its layers, however deeply nested.

    The public `layers` stops at the first level, and only models have it: layers inside layers are missing.
    """
    return list(model._flatten_layers())


def producer(tensor: keras.KerasTensor) -> tuple[Any, Any]:
    """The layer that computes a symbolic tensor, and the first of its inputs, or `None` if it has none.

    Keras has no public way from a tensor to its layer: the order of `model.layers` is not that of the calls.
    """
    history = tensor._keras_history
    inputs = history.operation._inbound_nodes[history.node_index].input_tensors
    return history.operation, inputs[0] if inputs else None


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


class ModelWithStepLogs(keras.Model):
    """Base class of models that check their batches and whose steps choose which metrics they log.

    `fit` and `evaluate` report the metrics of the model only if a step logs *all* of them. Otherwise they
    report what the step returned, which on several replicas is the mean of what each logs for itself.
    """

    # `predict` makes its function another way, and takes any images.
    _checks_batches = False

    @property
    def loss_tracker(self) -> keras.metrics.Mean:
        """The metric behind the reported "loss", which has no public name."""
        return self._loss_tracker

    def checked_batch(self, data):
        """The batch of a step of `fit` or `evaluate`; raises an error if it cannot be used.

        Called on every replica, outside of what XLA compiles, where assertions have no effect.
        """
        return data

    def _make_function(self, step_function):
        self._checks_batches = True
        try:
            return super()._make_function(step_function)
        finally:
            self._checks_batches = False

    def _autoconvert_optionals(self, step_func):
        # The only place between the iterator and the step.
        step = super()._autoconvert_optionals(step_func)
        if not self._checks_batches:
            return step

        @functools.wraps(step)
        def checked_step(data):
            strategy = self.distribute_strategy
            data = strategy.run(self.checked_batch, args=(data,))
            parts = [
                part for value in tf.nest.flatten(data) for part in strategy.experimental_local_results(value)
            ]
            # No replica starts before all were checked: it would wait for the others for ever.
            with tf.control_dependencies([part for part in parts if part is not None]):
                return step(data)

        return checked_step

    def _get_metrics_result_or_logs(self, logs) -> dict:
        results = self.get_metrics_result()
        return {name: results.get(name, value) for name, value in logs.items()}


def is_multi_worker(strategy) -> bool:
    """Whether a strategy spans several processes; the public count is that of replicas, not of processes."""
    return (
        isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
        and getattr(strategy.extended, "_num_workers", 1) > 1
    )


def wrap_trainer(reduction: Callable, build: Callable) -> None:
    """Wraps the two functions of Keras' `fit` that fail on several workers (keras#20585), once per process.

    Args:
        reduction: From Keras' `reduce_per_replica` to the function that replaces it.
        build: From `Trainer._maybe_symbolic_build` to the method that replaces it.
    """
    if hasattr(keras_trainer.reduce_per_replica, "__wrapped__"):
        return
    trainer = keras_trainer.TensorFlowTrainer
    keras_trainer.reduce_per_replica = reduction(keras_trainer.reduce_per_replica)
    trainer._maybe_symbolic_build = build(trainer._maybe_symbolic_build)


def read_at_each_call(read: Callable[[], list], specs: Iterable[tf.TensorSpec], key: Any) -> list:
    """Tensors in the function being traced that get the values of `read()` whenever it is called.

    What a `tf.function` captures is public only for values that are fixed at tracing.

    Args:
        read: Called without arguments at each call of the function; returns one tensor for each spec.
        specs: Shapes and dtypes.
        key: Hashable; tracing again with the same key gives the same tensors.
    """
    graph = tf.compat.v1.get_default_graph()
    # Bodies of loops capture from the function around them.
    while isinstance(getattr(graph, "outer_graph", None), FuncGraph):
        graph = graph.outer_graph
    return [
        graph.capture_call_time_value(lambda i=i: read()[i], spec, key=(key, i))
        for i, spec in enumerate(specs)
    ]


def repeatable(function: Any) -> Any:
    """The same function, compiled so that sums do not depend on which thread is first.

    TensorFlow's memory optimizer replaces a sum of three or more tensors (`AddN`), such as gradients of two
    passes and weight decay, by additions to a temporary variable in whatever order they arrive. The last bit
    then changes from call to call, and attacks that step by signs make it grow. Here that optimizer is off
    for the calls of this function, and for no others. No public option does that: `enable_op_determinism`
    leaves it on.

    Args:
        function: A `tf.function`, or a function that calls some. Functions are optimized at their first call,
            so the first call must be one through this wrapper.
    """
    options = None

    @functools.wraps(function)
    def call(*args, **kwargs):
        nonlocal options
        state = context.context()
        before = state.function_call_options
        if options is None:
            config = state.config
            rewriter = config.graph_options.rewrite_options
            rewriter.memory_optimization = rewriter_config_pb2.RewriterConfig.NO_MEM_OPT
            options = context.FunctionCallOptions(before.executor_type, config)
        state.function_call_options = options
        try:
            return function(*args, **kwargs)
        finally:
            state.function_call_options = before

    return call
