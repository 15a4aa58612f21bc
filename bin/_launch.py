"""Runs a program of athe_tf from a checkout, in its own environment where `make install` made one."""

import os
import signal
import sys

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def end(number, frame) -> None:
    """Ends the process; until the program itself handles signals, there is nothing to clean up."""
    os.write(2, f"bin/{os.path.basename(sys.argv[0])}: interrupted.\n".encode())
    os._exit(128 + number)


# Before anything else: an exception in the middle of an import ends in a traceback.
for one in SIGNALS:
    if signal.getsignal(one) is not signal.SIG_IGN:
        signal.signal(one, end)
signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

import importlib  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


def launch(program: str) -> None:
    """Hands over to `athe_tf.programs.<program>`."""
    own = os.path.join(ROOT, ".venv")
    inside = "VIRTUAL_ENV" in os.environ or "CONDA_PREFIX" in os.environ
    python = os.path.join(own, "bin", "python")
    if inside or not os.path.exists(python):
        python = sys.executable
    # The scripts start without installed packages (-S): quickly, so that Ctrl+C soon finds its handler.
    if sys.flags.no_site or (python != sys.executable and sys.prefix != own):
        # Signals wait while that Python starts; it unblocks them above.
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        os.execv(python, [python, *sys.argv])
    sys.path.insert(0, ROOT)
    importlib.import_module(f"athe_tf.programs.{program}").main()
