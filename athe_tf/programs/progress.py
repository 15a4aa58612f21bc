"""How a program shows that it is getting on: a line that is overwritten on a terminal, else one an attack."""

import sys
import time
from collections.abc import Callable

WIDTH = 24
# Redrawing more often than this only makes a terminal flicker.
EVERY = 0.1


class AttackProgress:
    """Shows an evaluation's progress.

    On a terminal, a bar with the running accuracy and the time left of the attack under way:

        2 of 4, pgd-20  [##########..............]  41 %   robust 63.1 %   0:12 left

    The time left assumes that no further image falls, so it shrinks faster than it says. Elsewhere, one line
    for each attack that is done.

    Args:
        stream: Where to write; standard error by default.
        clock: What the time is, in seconds.
    """

    def __init__(self, stream=None, clock: Callable[[], float] = time.monotonic):
        self.stream = sys.stderr if stream is None else stream
        self.clock = clock
        self.terminal = bool(self.stream.isatty())
        self.current: str | None = None
        self.began = self.drawn = 0.0
        self.first = 0.0

    def update(self, progress) -> None:
        """Called with a `Progress` of `athe_tf.evaluation.attack_run`."""
        if not self.terminal:
            return
        now = self.clock()
        if progress.attack != self.current:
            # What was done before, by a process that was interrupted, says nothing about the speed of this.
            self.current, self.began, self.first = progress.attack, now, progress.done
        elif now - self.drawn < EVERY and progress.done < progress.most:
            return
        self.drawn = now
        self.stream.write(f"\r\033[K{self.line(progress, now - self.began)}")
        self.stream.flush()

    def line(self, progress, elapsed: float) -> str:
        """The text of the bar."""
        share = min(progress.done / progress.most, 1.0) if progress.most else 1.0
        bar = ("#" * round(share * WIDTH)).ljust(WIDTH, ".")
        place = f"{progress.number} of {progress.attacks}, " if progress.attacks else ""
        text = f"{place}{progress.attack}  [{bar}] {share:>4.0%}"
        if progress.attacks:
            text += f"   robust {progress.accuracy:.1%}"
        worked = progress.done - self.first
        if worked > 0 and elapsed > 0:
            text += f"   {duration(elapsed * (progress.most - progress.done) / worked)} left"
        return text

    def finished(self, line) -> None:
        """Called with an `AttackReport` when an attack is done."""
        if self.terminal:
            self.clear()
            return
        if line.robust is None:
            print(f"{line.name}: not run: {line.reason}", file=self.stream, flush=True)
        else:
            text = f"{line.name}: {100 * line.accuracy:.2f} %, {duration(line.seconds)}"
            print(text, file=self.stream, flush=True)

    def clear(self) -> None:
        """Makes the terminal's line empty again."""
        if self.terminal:
            self.stream.write("\r\033[K")
            self.stream.flush()


def duration(seconds: float) -> str:
    """A time as people read it.

    Example:

    >>> duration(12), duration(4000)
    ('0:12', '1:06:40')
    """
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
