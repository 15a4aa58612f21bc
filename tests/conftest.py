"""Makes every test run as the programs do: athe_tf is imported before TensorFlow, and chooses oneDNN.

Side by side, each of pytest-xdist's workers has a core of its own: they would only be in each other's way.
"""

import os
import signal

# A shell ignores Ctrl+C for what it runs in the background; the programs under test must not inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

worker = os.environ.get("PYTEST_XDIST_WORKER")
if worker is not None and hasattr(os, "sched_setaffinity"):
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[int(worker.removeprefix("gw")) % len(cores)]})

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import athe_tf  # noqa: E402, F401
