"""Starts the installed programs: `athe-tf-train` and so on."""

import importlib
import sys


def analyze() -> None:
    """`athe-tf-analyze`."""
    _start("analyze")


def train() -> None:
    """`athe-tf-train`."""
    _start("train")


def evaluate() -> None:
    """`athe-tf-evaluate`."""
    _start("evaluate")


def export() -> None:
    """`athe-tf-export`."""
    _start("export")


def import_torch() -> None:
    """`athe-tf-import_torch`."""
    _start("import_torch")


def report() -> None:
    """`athe-tf-report`."""
    _start("report")


def reproduce() -> None:
    """`athe-tf-reproduce`."""
    _start("reproduce")


def _start(program: str) -> None:
    """Imports a program here, where Ctrl+C is no traceback, and runs it."""
    try:
        module = importlib.import_module(f"athe_tf.programs.{program}")
    except KeyboardInterrupt:
        print(f"athe-tf-{program}: interrupted.", file=sys.stderr)
        sys.exit(130)
    module.main()
