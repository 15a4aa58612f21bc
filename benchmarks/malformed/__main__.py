"""Hands malformed files to every program that reads such files.

    python -m benchmarks.malformed
    python -m benchmarks.malformed --only=npz

Each command must end within 10 seconds with exit code 2 and a message, without a traceback, without writing
anything, and with less than 4 GiB of memory. Prints what is not so, and the numbers.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence

from benchmarks.malformed import data, reports
from tests.warm_processes import WarmProcess, run_program

SECONDS = 10
GIBIBYTES = 4.0


def all_cases(folder: pathlib.Path) -> Iterator[tuple[str, Sequence[str]]]:
    """Every case: its name, and the program with its flags. Makes the files that it names."""
    for part in (data, reports):
        inside = folder / part.__name__.rpartition(".")[2]
        inside.mkdir()
        yield from part.cases(inside)


def files_below(folder: pathlib.Path) -> dict[str, tuple[int, int]]:
    """Paths with sizes and times of change; links are not followed."""
    found = {}
    for path, folders, files in os.walk(folder):
        for name in (*folders, *files):
            status = os.lstat(os.path.join(path, name))
            found[os.path.join(path, name)] = (status.st_size, status.st_mtime_ns)
    return found


def peak_memory(pid: int) -> float:
    """The most memory that a process had, in GiB; 0 if it is gone."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    sizes = [line.split()[1] for line in lines if line.startswith("VmHWM")]
    return int(sizes[0]) / 2**20 if sizes else 0.0


def run(command: Sequence[str], folder: pathlib.Path, streams: pathlib.Path):
    """Runs a command: `(exit code or None after the time limit, output, seconds, GiB)`."""
    program, *flags = command
    output = streams / "output.txt"
    output.write_text("")
    began, memory, code = time.perf_counter(), 0.0, None
    process = WarmProcess(
        f"athe_tf.programs.{program.removeprefix('bin/')}", flags, output, output, folder=folder
    )
    while code is None and time.perf_counter() - began < SECONDS:
        memory = max(memory, peak_memory(process.pid))
        try:
            code = process.wait(timeout=0.05)
        except subprocess.TimeoutExpired:
            continue
    process.kill()
    seconds = time.perf_counter() - began
    return code, output.read_text(errors="replace"), seconds, memory


def problem_of(code, text: str, memory: float) -> str | None:
    """What is wrong with how a program ended, or `None`."""
    if code is None:
        return f"no end after {SECONDS} s"
    if "Traceback" in text:
        return f"a traceback: {text[-600:]}"
    if code != 2:
        return f"exit code {code}: {text[-600:]}"
    if not text.strip():
        return "no message"
    return f"{memory:.1f} GiB of memory" if memory > GIBIBYTES else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default="", help="Only cases whose name contains this.")
    parser.add_argument("--show", action="store_true", help="Print every message.")
    options = parser.parse_args()
    run_program("report", "--help")  # starts the server of warm processes
    tried, wrong, slowest, largest = 0, 0, 0.0, 0.0
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryDirectory() as streams:
        for name, command in all_cases(pathlib.Path(scratch)):
            if options.only not in name:
                continue
            before = files_below(pathlib.Path(scratch))
            code, text, seconds, memory = run(command, pathlib.Path(scratch), pathlib.Path(streams))
            problem = problem_of(code, text, memory)
            written = [path for path in files_below(pathlib.Path(scratch)) if path not in before]
            problem = problem or (f"wrote {written}" if written else None)
            tried, wrong = tried + 1, wrong + (problem is not None)
            slowest, largest = max(slowest, seconds), max(largest, memory)
            if problem is not None or options.show:
                print(f"{name}: {problem or text.strip()}", flush=True)
    print(
        f"{tried - wrong} of {tried} refused as they should be; at most {slowest:.1f} s and {largest:.1f} GiB"
    )
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
