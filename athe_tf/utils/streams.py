"""Output for the user: safe for a terminal, and survives closed pipes, full disks and closed streams.

Names in an `evaluation.json` or a `config.json` may come from anybody. Escape sequences in them could
recolor, move or overwrite what a terminal shows.
"""

import os
import re
import sys

from athe_tf.utils.errors import first_line

# Sequences with an end (colors, cursor; titles, links), then those of one character.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"
)
# Characters that are not shown but acted on: controls, separators of lines and paragraphs.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
# Controls but line breaks and tabs, and characters that reverse the direction of what follows.
_REMOVED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def has_controls(text: str) -> bool:
    """Whether a text contains characters that are not shown but acted on: line breaks, tabs, escapes."""
    return _CONTROLS.search(text) is not None


def printable(text) -> str:
    r"""A text without escape sequences and control characters other than line breaks and tabs.

    Example:

    >>> printable("pgd-20\x1b[31m in red")
    'pgd-20 in red'
    """
    # No encoding has lone surrogates, which JSON and names of files can contain.
    shown = str(text).encode("utf-8", "backslashreplace").decode("utf-8")
    return _REMOVED.sub("", _ESCAPES.sub("", shown))


def one_line(text) -> str:
    r"""The same on one line, for cells of tables and names.

    Example:

    >>> one_line("pgd-20\nworst case 99%")
    'pgd-20 worst case 99%'
    """
    return " ".join(printable(text).split())


def print_line(*parts, flush: bool = True) -> bool:
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
