"""Communication between the replicas of a `tf.distribute` strategy; without effect on one device.

For code that runs on a replica, such as layers in training and the steps of a framework. Not inside a
`tf.while_loop`, where replicas cannot communicate.
"""

import contextlib
import contextvars
from collections.abc import Iterator

import keras
import numpy as np
import tensorflow as tf

from athe_tf.utils.tensorflow_compat import is_multi_worker

# Which part of a replica's batch is being computed, and how many parts there are. A context variable, because
# replicas are traced in threads of their own.
_PART = contextvars.ContextVar("athe_tf_part_of_batch", default=(0, 1))


@contextlib.contextmanager
def part_of_batch(number: int, count: int) -> Iterator[None]:
    """Context in which `positions` are those of one of the equal parts of a replica's batch."""
    token = _PART.set((number, count))
    try:
        yield
    finally:
        _PART.reset(token)


def count() -> int:
    """Number of replicas that compute this step."""
    context = tf.distribute.get_replica_context()
    return 1 if context is None else context.num_replicas_in_sync


def index() -> tf.Tensor:
    """The index of this replica: an integer tensor."""
    return tf.distribute.get_replica_context().replica_id_in_sync_group


def placed(values: list) -> list:
    """The same values, with an explicit device.

    On workers with one device, TensorFlow puts a result on the device of the value, and fails on values
    without one, such as many gradients.
    """
    if count() == 1:
        return list(values)
    devices = tf.distribute.get_strategy().extended.worker_devices
    if len(devices) > 1:
        return list(values)
    with tf.device(devices[0]):
        return [None if value is None else tf.identity(value) for value in values]


def total(values: list) -> list:
    """The sums over all replicas; not differentiable."""
    if count() == 1:
        return list(values)
    context = tf.distribute.get_replica_context()
    return context.all_reduce(tf.distribute.ReduceOp.SUM, placed(values))


@tf.custom_gradient
def mean(value):
    """The mean over all replicas of a tensor, differentiable any number of times.

    The gradient of a mean with respect to one replica's value is the mean of the gradients of all replicas.
    """
    if count() == 1:
        return tf.identity(value), lambda gradient: gradient
    context = tf.distribute.get_replica_context()
    return context.all_reduce(tf.distribute.ReduceOp.MEAN, placed([value]))[0], mean


def rows(x):
    """The positions of the examples in this replica's share of the batch."""
    number, (part, _) = tf.shape(x)[0], _PART.get()
    return tf.range(number) + part * number


def positions(x):
    """The positions of the examples in the global batch, whichever replica they are on."""
    number, (_, parts) = tf.shape(x)[0], _PART.get()
    if count() == 1:
        return rows(x)
    if parts > 1 or x.shape[0] is not None:
        return rows(x) + index() * parts * number
    # A last batch that the replicas do not share evenly, in validation.
    mine = tf.one_hot(index(), count()) * tf.cast(number, tf.float32)
    before = tf.cumsum(total([mine])[0], exclusive=True)[index()]
    return tf.range(number) + tf.cast(before, tf.int32)


def clipped(gradients: list, limit) -> list:
    """Gradients whose sum over the replicas is no longer than `limit`.

    Keras clips what each replica has for itself, so that the number of replicas would change the result.
    """
    shortened, _ = tf.clip_by_global_norm(total(gradients), limit)
    # The optimizer will add them up again.
    return [gradient / count() for gradient in shortened]


def synchronize(variables) -> None:
    """Gives floating-point variables the mean of their values on all replicas.

    Keras lets moving statistics of batch normalization drift apart, silently.
    """
    floats = [variable for variable in variables if tf.as_dtype(variable.dtype).is_floating]
    if count() == 1 or not floats:
        return
    sums = total([tf.convert_to_tensor(variable) for variable in floats])
    for variable, value in zip(floats, sums, strict=True):
        variable.assign(value / count())


def divided_variable(name: str, shape, dtype: str) -> keras.Variable:
    """A variable of zeros that is not trained; each replica has a share of the rows, and never reads others.

    `whole_value` and `assign_whole` read and write the rows of all replicas, in order.
    """
    strategy = tf.distribute.get_strategy()
    own = (shape[0] // strategy.num_replicas_in_sync, *shape[1:])
    kind: dict = {"synchronization": "on_read", "aggregation": "none", "trainable": False, "autocast": False}
    variable = keras.Variable("zeros", own, dtype, name=name, **kind)
    variable.divided_by = strategy if strategy.num_replicas_in_sync > 1 else None
    return variable


def whole_shape(variable) -> tuple:
    """The shape of a variable; of a divided one, with the rows of all replicas."""
    strategy, shape = getattr(variable, "divided_by", None), tuple(variable.shape)
    return shape if strategy is None else (strategy.num_replicas_in_sync * shape[0], *shape[1:])


def whole_value(variable) -> np.ndarray:
    """The value of a variable; of a divided one, the rows of all replicas. All workers must call this."""
    strategy = getattr(variable, "divided_by", None)
    if strategy is None:
        return np.asarray(variable)
    own = strategy.run(lambda: tf.convert_to_tensor(variable))
    if is_multi_worker(strategy):
        return np.asarray(strategy.gather(own, axis=0))
    return np.concatenate([np.asarray(part) for part in strategy.experimental_local_results(own)])


def assign_whole(variable, value) -> None:
    """Writes what `whole_value` returned, on any number of replicas."""
    strategy = getattr(variable, "divided_by", None)
    if strategy is None:
        variable.assign(value)
    else:
        parts = tf.reshape(value, [-1, *variable.shape])
        strategy.run(lambda: variable.assign(parts[index()]))
