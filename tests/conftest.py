"""Makes every test run as the programs do: athe_tf is imported before TensorFlow, and chooses oneDNN."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import athe_tf  # noqa: F401
