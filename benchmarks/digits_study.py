"""Every framework with and without hypersphere embedding on digits, several seeds: docs/digits.md.

    python -m benchmarks.digits_study --folder=runs/study --seeds=0,1,2 --processes=2
    python -m benchmarks.digits_study --folder=runs/study --table

Trains what configs/digits_*.flags say, and measures the best model of each run (chosen on held-out images) on
the 400 test images: clean, and the worst case over PGD-50 on cross-entropy at the model's scale and PGD-50
with 5 restarts on the margin. Runs that are finished are not repeated.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from benchmarks.timing import table

ROOT = pathlib.Path(__file__).resolve().parent.parent
FRAMEWORKS = ("pgd_at", "alp", "trades", "free_at", "fast_at")
HEADS = ("", "_he", "_mhe")
CONFIGS = ["standard", *(framework + head for framework in FRAMEWORKS for head in HEADS)]
ATTACKS = "pgd-50,cw-linf-50x5"


def run_one(folder: pathlib.Path, config: str, seed: int) -> None:
    """Trains and evaluates one config with one seed, unless that is done."""
    workdir = folder / f"{config}_seed{seed}"
    result = workdir / "evaluation" / "evaluation.json"
    if result.exists() and result.stat().st_size:
        return
    train = ["bin/train", f"--flagfile=configs/digits_{config}.flags", f"--seed={seed}"]
    evaluate = [
        "bin/evaluate",
        f"--model={workdir}",
        f"--attacks={ATTACKS}",
        f"--output={workdir}/evaluation",
    ]
    for command in ([*train, f"--workdir={workdir}"], evaluate):
        done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    print(f"{config}, seed {seed}: done", flush=True)


def results(folder: pathlib.Path, config: str) -> list[dict]:
    """The evaluations of a config, one a seed."""
    paths = sorted(folder.glob(f"{config}_seed*/evaluation/evaluation.json"))
    return [json.loads(path.read_text()) for path in paths if path.stat().st_size]


def shown(values: list[float]) -> str:
    """Mean and standard deviation over seeds, in per cent."""
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{100 * statistics.mean(values):.1f} ± {100 * spread:.1f}"


def summary(folder: pathlib.Path) -> str:
    """The table, in Markdown."""
    rows = [("run", "seeds", "clean %", "PGD-50 (CE) %", "margin-PGD-50 x 5 %", "worst case %")]
    for config in CONFIGS:
        found = results(folder, config)
        if not found:
            continue
        accuracy = [{a["name"]: a["accuracy"] for a in report["attacks"]} for report in found]
        rows.append(
            (
                config,
                len(found),
                shown([report["clean_accuracy"] for report in found]),
                shown([a["pgd-50"] for a in accuracy]),
                shown([a["cw-linf-50x5"] for a in accuracy]),
                shown([report["worst_case_accuracy"] for report in found]),
            )
        )
    return table(rows)


def main() -> None:
    """Runs what is missing, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("runs/study"))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--table", action="store_true", help="only print what is there")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    if not arguments.table:
        seeds = [int(seed) for seed in arguments.seeds.split(",")]
        with ThreadPoolExecutor(arguments.processes) as pool:
            jobs = [pool.submit(run_one, folder, config, seed) for seed in seeds for config in CONFIGS]
            for job in jobs:
                job.result()
    print(summary(folder))


if __name__ == "__main__":
    main()
