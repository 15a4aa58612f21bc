"""What Keras' `fit` lacks on several workers (keras#20585).

With a `MultiWorkerMirroredStrategy`, Keras 3 fails in two places before the first step:

* `_maybe_symbolic_build` takes the mean of the replicas' first batches to learn their shape, which cannot be
  computed across processes. The batch of any replica has the same shape.
* `reduce_per_replica` averages the logs of a step along an axis that scalars do not have.

`repair_fit` replaces both, for the whole process; strategies of one worker keep Keras' own functions.
`tests/distribution/test_distribution_workers.py` fails as soon as Keras no longer needs it: then remove this
file.
"""

import functools

import keras

from athe_tf.utils.tensorflow_compat import is_multi_worker, wrap_trainer


def repair_fit() -> None:
    """Makes `fit` and `evaluate` of any Keras model work on several workers; calling it again does nothing.

    Example:

    >>> athe_tf.distribution.repair_fit()
    >>> # strategy = tf.distribute.MultiWorkerMirroredStrategy(), compile and fit as usual
    """
    wrap_trainer(_repaired_reduction, _repaired_build)


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
