"""Leaves out what TensorFlow logs on every start, before it reads any log level; errors are shown."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable

from athe_tf.utils.keras_registration import AtImport

_LEFT_OUT = "/^WARNING: All log messages before absl/d; /^I0000 /d; /^To enable the following instr/d"


def start_quietly() -> None:
    """For when TensorFlow is imported; `TF_CPP_MIN_LOG_LEVEL=0` in the environment shows all lines."""
    wanted = os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2") == "0"
    if sys.platform == "linux" and "tensorflow" not in sys.modules and not wanted:
        sys.meta_path.insert(0, AtImport("tensorflow", _execute))


def start_as_usual() -> None:
    """Undoes `start_quietly`, for who holds back what TensorFlow logs in another way."""
    sys.meta_path[:] = [one for one in sys.meta_path if getattr(one, "name", None) != "tensorflow"]


def _execute(execute: Callable, module) -> None:
    """Executes a module, with a process behind stderr that shows the last words even of an aborted one."""
    try:
        kept = os.dup(2)
        shower = subprocess.Popen(
            ["sed", "-u", _LEFT_OUT], stdin=subprocess.PIPE, stdout=kept, start_new_session=True
        )
    except OSError:  # no stderr, or no sed
        return execute(module)
    assert shower.stdin is not None
    os.dup2(shower.stdin.fileno(), 2)
    try:
        execute(module)
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        shower.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):  # a child of the module may still have the pipe
            shower.wait(timeout=5)
