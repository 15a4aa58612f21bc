"""Tests of `athe_tf.conversion`."""
