"""How far an evaluation is, and how that is shown: a bar on a terminal, otherwise lines."""

import dataclasses
import sys
import time
from collections.abc import Callable

from athe_tf.evaluation.options import EvaluationOptions
from athe_tf.utils.number_format import format_duration
from athe_tf.utils.streams import one_line

WIDTH = 24
# A terminal flickers if it is redrawn more often than this, in seconds.
INTERVAL = 0.1
# In a log, a line at least this often, in seconds.
LOG_INTERVAL = 60.0


@dataclasses.dataclass
class EvaluationProgress:
    """How far an evaluation is; the argument of a `progress` function.

    Example:

    >>> EvaluationProgress("pgd-20", 2, 4, done=100.0, total=400.0, robust=90, examples=120).accuracy
    0.75

    Attributes:
        attack: The label of the attack, or the name of another part of the evaluation.
        number: Its position among all attacks, from 1; 0 if it is not an attack.
        attacks: The number of attacks; 0 if this is not an attack.
        done: Forward and backward passes done in this attack.
        total: Passes in total, if no further adversarial example is found.
        robust: Images that are robust so far.
        examples: Number of images.
    """

    attack: str
    number: int
    attacks: int
    done: float
    total: float
    robust: int
    examples: int

    @property
    def accuracy(self) -> float:
        """The accuracy if no further adversarial example is found."""
        return self.robust / self.examples


def teller(progress: Callable | None, name: str, number: int = 0, attacks: int = 0) -> Callable | None:
    """A function of `(done, total, robust, examples)` for one attack, or another part of an evaluation."""
    return progress and (lambda *numbers: progress(EvaluationProgress(name, number, attacks, *numbers)))


class ProgressDisplay:
    """Shows the progress of an evaluation.

    On a terminal, a bar with the accuracy so far and the time left in the current attack:

        2 of 4, pgd-20  [##########..............]  41%   robust 63.1%   17 passes per image   12.0 s left

    The time left assumes that no further adversarial example is found, so it is an upper bound. Elsewhere,
    one line for each attack that has finished, and one every minute while an attack takes longer.

    Args:
        stream: Where to write; standard error by default.
        clock: Returns the time in seconds.
    """

    def __init__(self, stream=None, clock: Callable[[], float] = time.monotonic):
        self.stream = sys.stderr if stream is None else stream
        self.clock = clock
        self.terminal = bool(self.stream.isatty())
        self.current: str | None = None
        self.began = self.drawn = clock()
        self.first = 0.0

    def added_to(self, options: EvaluationOptions) -> EvaluationOptions:
        """The same options of an evaluation, which also tell this display how far it is."""

        def both(name: str, *functions: Callable | None):
            return {name: lambda argument: [call(argument) for call in functions if call is not None]}

        told = both("progress", self.update, options.progress)
        return dataclasses.replace(options, **told, **both("finished", self.finished, options.finished))

    def update(self, progress: EvaluationProgress) -> None:
        """The `progress` function of an evaluation."""
        now = self.clock()
        if progress.attack != self.current:
            # Work done before an interruption says nothing about the speed of this process.
            self.current, self.began, self.first = progress.attack, now, progress.done
        elif self.terminal and now - self.drawn < INTERVAL and progress.done < progress.total:
            return
        if not self.terminal and now - self.drawn < LOG_INTERVAL:
            return
        self.drawn = now
        line = self.line(progress, now - self.began)
        self.stream.write(f"\r\033[K{line}" if self.terminal else f"{line}\n")
        self.stream.flush()

    def line(self, progress: EvaluationProgress, elapsed: float) -> str:
        """The text of the bar."""
        share = min(progress.done / progress.total, 1.0) if progress.total else 1.0
        bar = ("#" * round(share * WIDTH)).ljust(WIDTH, ".")
        position = f"{progress.number} of {progress.attacks}, " if progress.attacks else ""
        text = f"{position}{progress.attack}  [{bar}] {share:>4.0%}"
        if progress.attacks:
            passes = progress.done / progress.examples
            text += f"   robust {progress.accuracy:.1%}   {passes:.0f} passes per image"
        worked = progress.done - self.first
        if worked > 0 and elapsed > 0:
            text += f"   {format_duration(elapsed * (progress.total - progress.done) / worked)} left"
        return text

    def finished(self, outcome) -> None:
        """The `finished` function of an evaluation; takes an `AttackOutcome`."""
        self.drawn = self.clock()
        if self.terminal:
            return self.clear()
        text = f"not run: {outcome.not_run}"
        if outcome.robust is not None:
            text = f"{100 * outcome.accuracy:.2f}%, {format_duration(outcome.seconds)}, "
            text += f"{sum(outcome.passes_per_image.values()):.0f} passes per image"
        print(one_line(f"{outcome.name}: {text}"), file=self.stream, flush=True)

    def clear(self) -> None:
        """Clears the terminal's line."""
        if self.terminal:
            self.stream.write("\r\033[K")
            self.stream.flush()
