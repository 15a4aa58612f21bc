"""Keras layers: the hypersphere head, batch normalisation that can be told what to do, an ensemble's head."""

from athe_tf.layers.batch_norm import BatchNorm
from athe_tf.layers.cosine_dense import CosineDense
from athe_tf.layers.log_mean_softmax import LogMeanSoftmax

__all__ = ["BatchNorm", "CosineDense", "LogMeanSoftmax"]
