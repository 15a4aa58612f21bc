"""Starts TensorFlow without the messages that it prints on machines without a GPU."""

import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator

from athe_tf.programs.interruption import INTERRUPTION
from athe_tf.utils.quiet_start import start_as_usual

# Another process shows the messages, even if TensorFlow aborts this one, unless this one writes a line to it
# first. Then it removes their file.
_SHOW_AT_END = 'read _ || cat "$0" >&2; rm -f "$0"'


@contextlib.contextmanager
def stderr_held_back(show_when: Callable[[], bool]) -> Iterator[None]:
    """Holds the process's stderr in a file; shows it if `show_when()`, on an error, if the process dies."""
    sys.stderr.flush()
    kept = os.dup(2)
    held, path = tempfile.mkstemp(prefix="athe_tf_stderr_")
    # A session of its own: Ctrl+C in a terminal is not for it.
    shower = subprocess.Popen(
        ["/bin/sh", "-c", _SHOW_AT_END, path], stdin=subprocess.PIPE, start_new_session=True
    )
    os.dup2(held, 2)
    os.close(held)

    def release(show: bool) -> None:
        os.dup2(kept, 2)
        os.close(kept)
        shower.communicate(b"" if show else b"hide\n")

    shown = True
    try:
        with INTERRUPTION.at_once(last=lambda: release(False)):
            yield
        shown = show_when()
    finally:
        sys.stderr.flush()
        release(shown)


def start_tensorflow() -> None:
    """Imports TensorFlow and lists devices; shows its messages only if there is an NVIDIA driver.

    The messages come from C++ before any log level is read. `TF_CPP_MIN_LOG_LEVEL=0` in the environment shows
    all of them.
    """
    start_as_usual()  # two filters in a row could lose the last words of an aborted process
    wanted = os.environ.get("TF_CPP_MIN_LOG_LEVEL") == "0" or pathlib.Path("/dev/nvidia0").exists()
    with stderr_held_back(lambda: wanted):
        import tensorflow as tf

        tf.config.list_physical_devices()
