"""What the server of `tests/warm_processes.py` imports; nothing here may compute with TensorFlow."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import athe_tf
import athe_tf.cli.evaluate
import athe_tf.cli.export
import athe_tf.cli.train
import athe_tf.distribution.spread
import athe_tf.evaluation.evaluate
import athe_tf.recipe
import athe_tf.saved_model
import athe_tf.training.run  # noqa: F401
