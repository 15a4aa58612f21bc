"""Makes hand-chosen slips in the code, one at a time, and prints which of them no test notices.

    python -m benchmarks.mutation
    python -m benchmarks.mutation --only=attacks
    python -m benchmarks.mutation --only=A6,A7
    python -m benchmarks.mutation --list

Works in a copy of the files that git knows. The tests of all chosen slips must pass before anything is
changed; then each slip runs its own tests and is killed if they fail. Exits with 1 if a list does not fit
the code.
"""

import argparse
import collections
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

from benchmarks.mutation.slip import PACKAGES, ROOT, Slip, slips_of

# A slip may make a loop endless.
SECONDS = 600
KILLED, SURVIVED, EQUIVALENT, ERROR = "killed", "SURVIVED", "equivalent", "ERROR"
# Exit codes of pytest: tests failed; a slip that breaks the import of a test is also noticed.
FAILED = (1, 2)


def chosen(only: str) -> list[tuple[str, Slip]]:
    """Packages with their slips, of which `only` names packages and ids; all of them if it is empty."""
    names = set(filter(None, only.split(",")))
    slips = [(package, slip) for package in PACKAGES for slip in slips_of(package)]
    unknown = names - set(PACKAGES) - {slip.id for _, slip in slips}
    if unknown:
        sys.exit(f"No such package or slip: {', '.join(sorted(unknown))}.")
    return [pair for pair in slips if not names or pair[0] in names or pair[1].id in names]


def copy_files(folder: pathlib.Path) -> None:
    """Copies what git knows, as it is on disk, and makes sure that Python imports the copy."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    command = [sys.executable, "-c", "import athe_tf; print(athe_tf.__file__)"]
    imported = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
    if not pathlib.Path(imported.strip()).is_relative_to(folder):
        sys.exit(f"The tests would import {imported.strip()} instead of the copy in {folder}.")


def run_tests(folder: pathlib.Path, tests: Sequence[str]) -> tuple[int | None, str]:
    """The exit code of pytest, `None` after the time limit, and its output."""
    # Two slips in one file can have the same size and be made within a second: no bytecode is kept.
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return None, process.communicate()[0]
    return process.returncode, output


def outcome(slip: Slip, folder: pathlib.Path) -> tuple[str, str]:
    """What became of a slip, and a remark: the test that noticed it, or the reason why none does."""
    path = folder / slip.file
    text = path.read_text()
    path.write_text(text.replace(slip.old, slip.new))
    code, output = run_tests(folder, slip.tests)
    path.write_text(text)
    if code is None:
        return KILLED, f"no end after {SECONDS} s"
    if code in FAILED:
        noticed = [
            line.split(" - ")[0] for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))
        ]
        return KILLED, noticed[0].partition(" ")[2] if noticed else ""
    if code == 0:
        return (EQUIVALENT, slip.reason) if slip.reason else (SURVIVED, f"{slip.old!r} -> {slip.new!r}")
    return ERROR, output[-2000:]


def score(counts: collections.Counter) -> str:
    """One line of the table: the columns after the name."""
    counting = counts[KILLED] + counts[SURVIVED]
    share = f"{counts[KILLED] / counting:.0%}" if counting else "-"
    return f"{counting:>7} {counts[KILLED]:>7} {counts[SURVIVED]:>9} {counts[EQUIVALENT]:>11} {share:>6}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default="", help="Packages and ids of slips, with commas between them.")
    parser.add_argument("--list", action="store_true", help="Print the slips, and change nothing.")
    options = parser.parse_args()
    pairs = chosen(options.only)
    if options.list:
        for package, slip in pairs:
            print(f"{slip.id:5} {package:14} {slip.file}: {slip.old!r} -> {slip.new!r}")
        return
    problems = [f"{slip.id}: {problem}" for _, slip in pairs if (problem := slip.problem())]
    if problems:
        sys.exit("\n".join(problems))
    counts: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch).resolve()
        copy_files(folder)
        code, output = run_tests(folder, sorted({test for _, slip in pairs for test in slip.tests}))
        if code != 0:
            sys.exit(f"The tests must pass before the code is changed:\n{output[-4000:]}")
        for package, slip in pairs:
            began = time.perf_counter()
            result, remark = outcome(slip, folder)
            counts[package][result] += 1
            print(f"{slip.id:5} {result:10} {time.perf_counter() - began:5.0f} s  {remark}", flush=True)
    print(f"\n{'package':14} {'slips':>7} {'killed':>7} {'survived':>9} {'equivalent':>11} {'score':>6}")
    for package, counter in counts.items():
        print(f"{package:14} {score(counter)}")
    total = sum(counts.values(), collections.Counter())
    print(f"{'all':14} {score(total)}")
    sys.exit(1 if total[ERROR] else 0)


if __name__ == "__main__":
    main()
