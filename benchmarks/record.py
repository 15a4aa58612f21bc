"""Keeps what a command prints, as the source of numbers in the docs: results/printed/NAME.txt.

    python -m benchmarks.record overhead python -m benchmarks.overhead --repeats=4
    python -m benchmarks.record angles bin/analyze --model=runs/he --what=angles --output=/data/angles

The file begins with the command. Absolute paths become `DIR`: they belong to one machine. Progress and
warnings, on standard error, are shown and not kept. A command that fails leaves no file.
"""

import argparse
import pathlib
import re
import shlex
import subprocess
import sys

from athe_tf.utils.files import write_text

PRINTED = pathlib.Path(__file__).parents[1] / "results" / "printed"


def without_paths(text: str) -> str:
    """The text with `DIR` in the place of absolute paths.

    Example:

    >>> without_paths("bin/evaluate --data_dir=/data/tfds --epsilon=8/255")
    'bin/evaluate --data_dir=DIR --epsilon=8/255'
    """
    return re.sub(r"(?<![^\s='\"(])/[\w.-]+(/[\w.-]+)*/?", "DIR", text)


def record(name: str, command: list[str], folder: pathlib.Path = PRINTED) -> int:
    """Runs a command, and writes what it printed; returns its exit code."""
    python = [sys.executable, *command[1:]] if command[0] == "python" else command
    result = subprocess.run(python, stdout=subprocess.PIPE, text=True)
    print(result.stdout, end="")
    if result.returncode == 0:
        path = folder / f"{name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [line.rstrip() for line in result.stdout.strip().splitlines()]
        write_text(path, without_paths("\n".join([f"$ {shlex.join(command)}", "", *lines]) + "\n"))
    return result.returncode


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("name", help="The file's name in results/printed, without .txt.")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="The command and its arguments.")
    arguments = parser.parse_args()
    if not arguments.command:
        parser.error("a command must follow the name")
    sys.exit(record(arguments.name, arguments.command))


if __name__ == "__main__":
    main()
