"""Output for the user that survives closed pipes, full disks and closed standard streams."""

import os
import sys

from athe_tf.utils.errors import first_line
from athe_tf.utils.printable import printable


def say(*parts, flush: bool = True) -> bool:
    """Prints for the user, and returns whether that succeeded.

    A log on a full disk or a closed pipe must not end a run. Once printing has failed, further output is
    discarded.
    """
    try:
        print(*map(printable, parts), flush=flush)
    except OSError as error:
        warn(f"Cannot write to standard output any longer: {first_line(error)}.")
        _discard(sys.stdout)
        return False
    return True


def warn(text: str) -> None:
    """Prints to standard error, if that is possible."""
    try:
        print(printable(text), file=sys.stderr, flush=True)
    except OSError:
        _discard(sys.stderr)


def _discard(stream) -> None:
    """Sends the rest of a stream nowhere: at exit, Python fails if it cannot write what it has buffered."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def open_standard_streams() -> None:
    """Opens /dev/null for standard streams that are closed: the next file would get their numbers."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
    # Python has no streams for descriptors that were closed when it started.
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
