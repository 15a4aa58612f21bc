"""Compiled functions that compute the same bits whenever they get the same input."""

import functools

from tensorflow.core.protobuf import rewriter_config_pb2
from tensorflow.python.eager import context


def repeatable(function):
    """The same function, compiled so that sums do not depend on which thread is first.

    TensorFlow's memory optimizer replaces a sum of three or more tensors (`AddN`), such as gradients of two
    passes and weight decay, by additions to a temporary variable in whatever order they arrive. The last bit
    then changes from call to call, and attacks that step by signs make it grow. Here that optimizer is off
    for the calls of this function, and for no others. No public option does that: `enable_op_determinism`
    leaves it on.

    Args:
        function: A `tf.function`, or a function that calls some. Functions are optimized when they are called
            first, so the first call must be one through this wrapper.
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
