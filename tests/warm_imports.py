"""What the server of `tests/warm_processes.py` imports; nothing here may compute with TensorFlow."""

# ruff: noqa: F401
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import athe_tf
import athe_tf.distribution.strategy
import athe_tf.evaluation.evaluator
import athe_tf.programs.evaluate
import athe_tf.programs.export
import athe_tf.programs.run
import athe_tf.programs.train
import athe_tf.saving.opening
