"""Every private name of TensorFlow, and of Keras' training loop for it, that this library uses.

See `keras_compat.py` for the others.
"""

import functools
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras.src.backend.tensorflow import trainer as keras_trainer
from tensorflow.core.protobuf import rewriter_config_pb2
from tensorflow.python.eager import context
from tensorflow.python.framework.config import is_op_determinism_enabled as is_op_determinism_enabled

from athe_tf.utils.graph_checks import readable_errors


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
            return readable_errors()(repeatable(super()._make_function(step_function)))
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
    """Whether a strategy spans several processes; the public count is of replicas, not of processes."""
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
