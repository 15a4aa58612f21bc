"""What the programs do at Ctrl+C (SIGINT), SIGTERM and SIGHUP (the terminal or connection was closed).

A signal raises `Interrupted` in the main thread, so that files that are being written are removed and locks
are released. Python can do that only between two operations, and a compiled attack or training step is one
operation that may take minutes. So a thread waits for the signals, too: if the program has not ended after
`PATIENCE` seconds, the thread removes what is half written and ends the process.

In the context `after_this_step`, the first signal is only recorded: training finishes its step and writes a
backup. Another one ends the program at once, if it comes more than a second later: launchers may send the
same one twice.
"""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator

from athe_tf.utils.files import remove_unfinished

WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "hung up"}
SIGNALS = tuple(WORDS)
# Seconds; Ctrl+C is answered within two.
PATIENCE = 1.0
#: Exit code of a worker that ends because another one was lost: Kubeflow restarts a replica that ends with
#: more than 127, and a Slurm script can requeue its job.
RESTART_ALL = 138


class Interrupted(KeyboardInterrupt):
    """The user or a scheduler wants the program to end: the signal's number, and a remark for the user."""

    def __init__(self, number: int, remark: str = ""):
        super().__init__(number)
        self.number = number
        self.remark = remark

    def __str__(self) -> str:
        return f"{WORDS[signal.Signals(self.number)]}.{self.remark and f' {self.remark}'}"


class Interruption:
    """How the running program reacts to signals.

    Attributes:
        program: Its name, for messages.
        remark: What the user should know when it ends, such as how to resume.
        requested: The signal that asked the program to end after this step, if any.
    """

    def __init__(self) -> None:
        self._exiting = threading.Lock()
        self._reset("athe_tf")

    def _reset(self, program: str) -> None:
        self.program = program
        self.remark = ""
        self.requested: int | None = None
        self._notice: str | None = None
        self._since = 0.0
        self._last: Callable[[], object] | None = None
        self._ended = False

    @contextlib.contextmanager
    def handled(self, program: str) -> Iterator[None]:
        """A context in which this handles the signals of the process; only for its main thread."""
        self._reset(program)
        before = {number: signal.getsignal(number) for number in SIGNALS}
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        woken = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        threading.Thread(target=self._wait, args=(reading,), daemon=True).start()
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:  # as shells start commands in the background
                signal.signal(number, self._in_main_thread)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(woken)
            os.close(writing)  # which ends the thread

    def after_this_step(self, notice: str) -> contextlib.AbstractContextManager[None]:
        """A context that asks `requested` after every step; the first signal shows the notice."""
        return self._during("_notice", notice)

    def at_once(self, last: Callable[[], object]) -> contextlib.AbstractContextManager[None]:
        """A context in which a signal calls `last` and ends the process: C++ code may swallow exceptions."""
        return self._during("_last", last)

    @contextlib.contextmanager
    def _during(self, name: str, value) -> Iterator[None]:
        setattr(self, name, value)
        try:
            yield
        finally:
            setattr(self, name, None)

    def end(self, error: KeyboardInterrupt) -> int:
        """Tells the user that the program ends, once, and returns the exit code."""
        shown = error if isinstance(error, Interrupted) else Interrupted(signal.SIGINT, self.remark)
        if not self._ended:
            self._ended = True
            self._tell(str(shown))
        return 128 + shown.number  # as shells count it: 130 for Ctrl+C, 143 for SIGTERM

    def _in_main_thread(self, number, frame) -> None:
        if self._last is not None:
            self._exit(number)
        if self._notice is None or (self.requested is not None and self._again()):
            raise Interrupted(number, self.remark)
        self.requested = number

    def _wait(self, reading: int) -> None:
        """The thread: one byte arrives for every signal, whatever the main thread does."""
        while received := os.read(reading, 1):
            number = received[0]
            if number not in SIGNALS:
                continue
            first, self._since = not self._since, self._since or time.monotonic()
            if self._notice is not None and (first or not self._again()):
                if first:
                    self._tell(self._notice)
                continue
            time.sleep(PATIENCE)
            self._exit(number)
        os.close(reading)

    def _again(self) -> bool:
        return time.monotonic() - self._since > PATIENCE

    def _exit(self, number: int) -> None:
        if not self._exiting.acquire(blocking=False):
            time.sleep(60)  # the other thread ends the process
        if self._last is not None:
            self._last()
        code = self.end(Interrupted(number, self.remark))
        remove_unfinished()
        with contextlib.suppress(Exception):
            sys.stdout.flush()
        os._exit(code)

    def _tell(self, text: str) -> None:
        clear = "\r\033[K" if os.isatty(2) else ""  # of a progress bar
        with contextlib.suppress(OSError):
            os.write(2, f"{clear}{self.program}: {text}\n".encode())


#: The reaction of this process.
INTERRUPTION = Interruption()
