"""Losses are computed in float32 or better, whatever the network computes in."""

import tensorflow as tf


def full_precision(logits):
    """The same logits; float32 instead of half precision, in which a `Dense` of a mixed policy computes."""
    return tf.cast(logits, tf.float32) if logits.dtype in (tf.float16, tf.bfloat16) else logits
