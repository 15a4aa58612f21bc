"""Keras layers: the hypersphere head and a batch normalisation that can be told what to do."""

from athe_tf.layers.batch_norm import BatchNorm
from athe_tf.layers.cosine_dense import CosineDense

__all__ = ["BatchNorm", "CosineDense"]
