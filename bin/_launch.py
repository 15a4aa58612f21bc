"""Runs a program of athe_tf from a checkout, in its own environment where `make install` made one."""

import importlib
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def launch(program: str) -> None:
    """Hands over to `athe_tf.programs.<program>`."""
    python = ROOT / ".venv" / "bin" / "python"
    inside = "VIRTUAL_ENV" in os.environ or "CONDA_PREFIX" in os.environ
    if python.exists() and not inside and pathlib.Path(sys.prefix) != ROOT / ".venv":
        os.execv(python, [str(python), *sys.argv])
    sys.path.insert(0, str(ROOT))
    importlib.import_module(f"athe_tf.programs.{program}").main()
