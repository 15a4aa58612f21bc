"""How `bin/analyze` shows its progress: one line, replaced, on a terminal; otherwise a line per minute."""

import sys
import time

from athe_tf.programs.heartbeat import INTERVAL, Heartbeat
from athe_tf.utils.number_format import format_duration
from athe_tf.utils.streams import one_line

# A terminal flickers if it is redrawn more often than this, in seconds.
REDRAW = 0.1


class AnalysisDisplay:
    """Shows which analysis is running, and how far it is, also while a single step takes long.

    A context; `start` and `update` are called inside of it.

    Args:
        stream: Where to write; standard error by default.
        interval: Seconds between two lines. Defaults to a minute.
    """

    def __init__(self, stream=None, interval: float = INTERVAL):
        self.stream = sys.stderr if stream is None else stream
        self.terminal = bool(self.stream.isatty())
        self._heartbeat = Heartbeat(self._write, self.line, interval)
        self._drawn = 0.0
        self.start("Starting")

    def __enter__(self) -> "AnalysisDisplay":
        self._heartbeat.__enter__()
        return self

    def __exit__(self, *error) -> None:
        self._heartbeat.__exit__(*error)
        self.clear()

    def start(self, what: str) -> None:
        """Names what is running from now on."""
        self._what, self._began = what, time.monotonic()
        self._done: int = 0
        self._total: int | None = None

    def update(self, done: int, total: int | None) -> None:
        """The `progress` function of an analysis."""
        self._done, self._total = done, total
        if self.terminal and time.monotonic() - self._drawn >= REDRAW:
            self._heartbeat.write(self.line())

    def line(self) -> str:
        """What is running, how many steps are done, and since when."""
        steps = f"{self._done} of {self._total} steps" if self._total else f"{self._done} steps"
        elapsed = format_duration(time.monotonic() - self._began)
        return one_line(f"{self._what}: {f'{steps}, ' if self._done else ''}{elapsed}")

    def clear(self) -> None:
        """Clears the terminal's line."""
        if self.terminal:
            self._write("")

    def _write(self, line: str) -> None:
        self._drawn = time.monotonic()
        self.stream.write(f"\r\033[K{line}" if self.terminal else f"{line}\n")
        self.stream.flush()
