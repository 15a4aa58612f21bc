"""A line every minute where a program is silent for long, so that a log shows that it works."""

import threading
import time
from collections.abc import Callable
from typing import Self

INTERVAL = 60.0


class Heartbeat:
    """Writes lines, and one of its own whenever a minute has passed without any.

    A context: lines of its own are written inside of it only, by another thread, since the main one may be
    compiling.

    Example:

    >>> with Heartbeat(print, lambda: "Measuring.") as heartbeat:
    ...     heartbeat.write("Started.")
    Started.

    Args:
        write: Called with a line.
        describe: Returns what is going on.
        interval: Seconds without a line. Defaults to a minute.
    """

    def __init__(self, write: Callable, describe: Callable[[], str], interval: float = INTERVAL):
        self._write = write
        self._describe = describe
        self._interval = interval
        self._last = time.monotonic()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def __enter__(self) -> Self:
        self._last = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._stopped.set()
        self._thread.join()

    def write(self, line: str, **kwargs) -> None:
        """Writes a line; the next one of its own comes a minute later."""
        self._last = time.monotonic()
        self._write(line, **kwargs)

    def _beat(self) -> None:
        while not self._stopped.wait(max(self._last + self._interval - time.monotonic(), 0.001)):
            if time.monotonic() - self._last >= self._interval:
                self.write(self._describe())
