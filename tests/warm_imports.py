"""What the server of `tests/warm_processes.py` imports; nothing here may compute with TensorFlow."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
