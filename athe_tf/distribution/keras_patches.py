"""What Keras' `fit` lacks on several workers (keras#20585).

With a `MultiWorkerMirroredStrategy`, Keras 3 fails in two places before the first step:

* `_maybe_symbolic_build` wants the mean of the replicas' first batches, for its shape, and cannot compute it
  over several processes. The batch of any replica has the shape.
* `reduce_per_replica` averages the logs of a step along an axis that scalars do not have.

`repair_fit` replaces both, for the whole process; strategies of one worker take Keras' own way as before.
`tests/test_distribution_workers.py` fails on the day that Keras no longer needs it: then remove this file.
"""

import functools

import keras
import tensorflow as tf
from keras.src.backend.tensorflow import trainer as keras_trainer


def is_multi_worker(strategy) -> bool:
    """Whether a strategy spans several processes."""
    return (
        isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
        and getattr(strategy.extended, "_num_workers", 1) > 1
    )


def repair_fit() -> None:
    """Makes `fit` and `evaluate` work on several workers; calling it again does nothing."""
    trainer = keras_trainer.TensorFlowTrainer
    if hasattr(keras_trainer.reduce_per_replica, "__wrapped__"):
        return
    keras_trainer.reduce_per_replica = _repaired_reduction(keras_trainer.reduce_per_replica)
    trainer._maybe_symbolic_build = _repaired_build(trainer._maybe_symbolic_build)


def _repaired_reduction(original):
    @functools.wraps(original)
    def reduce_per_replica(values, strategy, reduction):
        if not is_multi_worker(strategy) or reduction not in ("auto", "mean"):
            return original(values, strategy, reduction)
        return keras.tree.map_structure(lambda v: strategy.reduce("MEAN", v, axis=None), values)

    return reduce_per_replica


def _repaired_build(original):
    @functools.wraps(original)
    def maybe_symbolic_build(self, iterator=None, data_batch=None):
        strategy = self.distribute_strategy
        if iterator is not None and is_multi_worker(strategy):
            _, _, batches = next(iter(iterator))
            local = keras.tree.map_structure(
                lambda v: strategy.experimental_local_results(v)[0], next(batches)
            )
            return original(self, data_batch=local)
        return original(self, iterator=iterator, data_batch=data_batch)

    return maybe_symbolic_build
