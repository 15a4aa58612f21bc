"""What the replicas of a `tf.distribute` strategy tell each other; on one device there is nobody to tell.

For code that runs on a replica, such as layers in training and the steps of a framework. Not inside a
`tf.while_loop`, where replicas cannot meet.
"""

import tensorflow as tf


def count() -> int:
    """How many replicas compute this step."""
    context = tf.distribute.get_replica_context()
    return 1 if context is None else context.num_replicas_in_sync


def index():
    """Which of them this one is: an integer tensor."""
    return tf.distribute.get_replica_context().replica_id_in_sync_group


def placed(values: list) -> list:
    """The same values, with a device on record.

    Where a worker has one device, TensorFlow asks the value itself where the result should be, and fails on
    values such as gradients, which often do not say where they are.
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

    The gradient of a mean with respect to one replica's value is the mean of what all replicas send back.
    """
    if count() == 1:
        return tf.identity(value), lambda gradient: gradient
    context = tf.distribute.get_replica_context()
    return context.all_reduce(tf.distribute.ReduceOp.MEAN, placed([value]))[0], mean
