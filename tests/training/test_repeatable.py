"""A compiled step computes the same bits whenever it gets the same input."""

import argparse

import keras
import numpy as np
import pytest
from tensorflow.python.eager import context

from athe_tf.utils.tensorflow_compat import repeatable
from benchmarks.repeatability import differing
from benchmarks.train_step import ROWS, step_of, trainer_for

# Large enough that TensorFlow's memory optimizer takes an interest in the sums of a step.
ARGUMENTS = argparse.Namespace(model="wrn-10-1", steps=1, batch_size=128)


def random_batch():
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(ARGUMENTS.batch_size, 32, 32, 3)).astype("float32")
    return x, rng.integers(0, 10, ARGUMENTS.batch_size).astype("int32")


def operations_of(call) -> list[str]:
    """The operations of the graphs that a first call runs, as TensorFlow optimized them."""
    context.context().enable_graph_collection()
    try:
        call()
        collected = context.context().export_run_metadata()
    finally:
        context.context().disable_graph_collection()
    return [node.op for graphs in collected.function_graphs for node in graphs.post_optimization_graph.node]


def test_the_options_of_other_calls_are_left_alone():
    before = context.context().function_call_options
    with pytest.raises(ZeroDivisionError):
        repeatable(lambda: 1 / 0)()
    assert context.context().function_call_options is before


# Frameworks whose sums TensorFlow reordered; benchmarks/repeatability.py has all, and takes an hour.
@pytest.mark.parametrize("name", ["TRADES", "LLR+HE", "FastAT+GradAlign"])
def test_no_sum_of_a_step_depends_on_the_order_of_threads(name):
    _, framework, head = next(row for row in ROWS if row[0] == name)
    trainer = trainer_for(name, framework, head, ARGUMENTS)
    assert "TemporaryVariable" not in operations_of(step_of(trainer, *random_batch()))
    if name == "TRADES":  # as Keras makes it; when this fails, `repeatable` is not needed any longer
        trainer.train_function = keras.Model._make_function(trainer, trainer.train_step)
        assert "TemporaryVariable" in operations_of(step_of(trainer, *random_batch()))


def test_a_step_on_a_wide_resnet_repeats_bit_for_bit():
    trainer = trainer_for("TRADES", "trades", "linear", ARGUMENTS)
    assert differing(trainer, step_of(trainer, *random_batch()), repeats=10) == 0
