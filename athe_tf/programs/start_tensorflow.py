"""Starts TensorFlow without the messages that it prints on machines without a GPU."""

import contextlib
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator

from athe_tf.programs.interruption import INTERRUPTION

# Another process holds the messages back, so that they are shown even if this one is aborted. It reads them
# until this one says whether to show them; if this one ends without an answer, it shows them.
_HOLDER = """
import os, select, sys
answer, held = int(sys.argv[1]), b""
while 0 in select.select([0, answer], [], [])[0]:
    part = os.read(0, 65536)
    held += part
    if not part:
        break
if os.read(answer, 1) != b"n":
    while held:
        held = held[os.write(2, held):]
"""


@contextlib.contextmanager
def stderr_held_back(show_when: Callable[[], bool]) -> Iterator[None]:
    """Captures the process's stderr; shows it if `show_when()`, on an error, and if the process dies."""
    sys.stderr.flush()
    kept = os.dup(2)
    answer_end, answer = os.pipe()
    holder = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _HOLDER, str(answer_end)],
        stdin=subprocess.PIPE,
        pass_fds=(answer_end,),
        start_new_session=True,  # Ctrl+C in a terminal is not for it
    )
    assert holder.stdin is not None
    os.close(answer_end)
    os.dup2(holder.stdin.fileno(), 2)
    holder.stdin.close()

    def release(show: bool) -> None:
        os.write(answer, b"y" if show else b"n")
        os.close(answer)
        os.dup2(kept, 2)
        os.close(kept)
        holder.wait()

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
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    wanted = os.environ["TF_CPP_MIN_LOG_LEVEL"] == "0" or pathlib.Path("/dev/nvidia0").exists()
    with stderr_held_back(lambda: wanted):
        import tensorflow as tf

        tf.config.list_physical_devices()
