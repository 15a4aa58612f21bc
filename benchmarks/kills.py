"""Programs that are killed at random moments, as often as it pleases, end with the undisturbed result.

    python -m benchmarks.kills --program=train --runs=100
    python -m benchmarks.kills --program=evaluate --runs=50

Each run is killed at moments drawn from the duration of the undisturbed run, with SIGKILL or SIGTERM, until
it has been killed `--kills` times, and then ends. Digests of all files of the result are compared.
"""

import argparse
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from benchmarks.faults import CASES, ERRORS, FOLDER, Case, difference, run, start, undisturbed


def killed_run(case: Case, folder: pathlib.Path, seconds: float, kills: int, draw: random.Random) -> str:
    """Runs a program to its end through several kills; returns what happened, one word per kill."""
    happened = []
    for _ in range(kills):
        process = start(folder, case.name, case.flags)
        chosen = draw.choice([signal.SIGKILL, signal.SIGTERM])
        moment = draw.uniform(0.05, 1.0) * seconds
        try:
            code = process.wait(timeout=moment)
            happened.append(f"ended with {code}")
            break
        except subprocess.TimeoutExpired:
            process.signal(chosen)
            code = process.wait(timeout=60)
        happened.append(f"{chosen.name} at {moment:.1f} s -> {code}")
        if "Traceback" in (folder / ERRORS).read_text(errors="replace"):
            happened.append("TRACEBACK")
    code, errors, _ = run(folder, case.name, case.flags)
    happened.append(f"{code}" if code == 0 else f"{code}: {errors[-500:]}")
    return ", ".join(happened)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--program", choices=["train", "evaluate"], default="train")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--kills", type=int, default=2, help="Kills per run.")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    case, draw, same = CASES[options.program], random.Random(options.seed), 0
    with tempfile.TemporaryDirectory() as scratch:
        before, expected, _ = undisturbed(case, pathlib.Path(scratch))
        began = time.perf_counter()
        shutil.copytree(before, pathlib.Path(scratch) / "timed")
        run(pathlib.Path(scratch) / "timed", case.name, case.flags)
        seconds = time.perf_counter() - began
        for number in range(1, options.runs + 1):
            folder = pathlib.Path(scratch) / "run"
            shutil.copytree(before, folder)
            happened = killed_run(case, folder, seconds, options.kills, draw)
            problem = difference(folder / FOLDER, expected)
            same += problem is None and "TRACEBACK" not in happened
            print(f"{number}: {happened}: {problem or 'identical'}", flush=True)
            shutil.rmtree(folder)
    print(f"{same} of {options.runs} runs identical")
    sys.exit(0 if same == options.runs else 1)


if __name__ == "__main__":
    main()
