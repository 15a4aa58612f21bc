"""Starts the installed programs: `athe-tf-train` and so on."""

import functools
import importlib
import sys

_NAMES = (
    "analyze", "evaluate", "export", "import_model", "import_torch", "report", "reproduce", "selftest",
    "train",
)  # fmt: skip


def _start(program: str) -> None:
    """Imports the program so that Ctrl+C prints no traceback, and runs it."""
    try:
        module = importlib.import_module(f"athe_tf.programs.{program}")
    except KeyboardInterrupt:
        name = program.removesuffix("_model")
        print(f"athe-tf-{name}: interrupted.", file=sys.stderr)
        sys.exit(130)
    module.main()


globals().update({name: functools.partial(_start, name) for name in _NAMES})
