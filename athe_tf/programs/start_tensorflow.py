"""Starts TensorFlow without the messages that it prints on machines without a GPU."""

import contextlib
import os
import pathlib
import sys
import tempfile


@contextlib.contextmanager
def _stderr_held_back(show_when):
    """Captures the process's stderr, and shows it if `show_when()` is true or on an error."""
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        shown = True
        try:
            yield
            shown = show_when()
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
            if shown:
                held.seek(0)
                sys.stderr.write(held.read().decode(errors="replace"))


def start_tensorflow() -> None:
    """Imports TensorFlow and lists devices; shows its messages only if there is an NVIDIA driver.

    The messages come from C++ before any log level is read. `TF_CPP_MIN_LOG_LEVEL=0` in the environment shows
    all of them.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    wanted = os.environ["TF_CPP_MIN_LOG_LEVEL"] == "0" or pathlib.Path("/dev/nvidia0").exists()
    with _stderr_held_back(lambda: wanted):
        import tensorflow as tf

        tf.config.list_physical_devices()
