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
from collections.abc import Sequence

import athe_tf
from athe_tf.programs.config import TrainConfig
from athe_tf.programs.run import train
from athe_tf.programs.train import PROGRAM
from athe_tf.programs.workdir import Workdir
from benchmarks.timing import table

import keras  # isort: skip  (after athe_tf, which chooses oneDNN)

ROOT = pathlib.Path(__file__).resolve().parent.parent
FRAMEWORKS = ("pgd_at", "alp", "trades", "free_at", "fast_at")
HEADS = ("", "_he", "_mhe")
BEYOND = ("mart", "trades_awp", "fast_nfgsm", "fast_gradalign")
CONFIGS = [
    "standard",
    *(framework + head for framework in FRAMEWORKS for head in HEADS),
    *(method + head for method in BEYOND for head in ("", "_he")),
    "llr",
]
ATTACKS = ("pgd-50", "cw-linf-50x5")


def run_one(folder: pathlib.Path, config_name: str, seed: int) -> None:
    """Trains and evaluates one config with one seed, unless that is done."""
    result = folder / f"{config_name}_seed{seed}" / "evaluation.json"
    if result.exists():
        return
    config = read_config(config_name, seed, result.parent)
    splits = athe_tf.data.load(config.dataset)
    train(config, splits, Workdir(config.workdir), write=lambda *_, **__: None)
    net = athe_tf.load_model(Workdir(config.workdir).best)
    found = athe_tf.evaluate(
        net, splits.test, attacks=ATTACKS, epsilon=config.epsilon, norm=config.norm, checks=False
    )
    result.write_text(found.to_json())
    keras.backend.clear_session()


def read_config(name: str, seed: int, workdir: pathlib.Path | None) -> TrainConfig:
    """The config of a file in configs/."""
    arguments = ["bin/train", f"--flagfile={ROOT / 'configs' / f'digits_{name}.flags'}", f"--seed={seed}"]
    return PROGRAM.read([*arguments, *([] if workdir is None else [f"--workdir={workdir}"])])[0]


def results(folder: pathlib.Path, config: str, seeds: Sequence[int]) -> dict[int, dict]:
    """The evaluations of a config by seed, of those that are there."""
    paths = {seed: folder / f"{config}_seed{seed}" / "evaluation.json" for seed in seeds}
    return {seed: json.loads(path.read_text()) for seed, path in paths.items() if path.exists()}


def shown(values: Sequence[float]) -> str:
    """Mean and standard deviation over seeds, in per cent; one seed has no deviation."""
    mean = f"{100 * statistics.mean(values):.1f}"
    return mean if len(values) == 1 else f"{mean} ± {100 * statistics.stdev(values):.1f}"


def summary(folder: pathlib.Path, configs: Sequence[str], seeds: Sequence[int]) -> str:
    """The means over seeds, as a table in Markdown."""
    rows = [("run", "seeds", "clean %", "PGD-50 (CE) %", "margin-PGD-50 x 5%", "worst case %")]
    for config in configs:
        found = list(results(folder, config, seeds).values())
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


def each_seed(folder: pathlib.Path, configs: Sequence[str], seeds: Sequence[int]) -> str:
    """The accuracies of every run, one line each."""
    return "\n".join(
        f"{config}, seed {seed}: {100 * report['clean_accuracy']:.1f}% clean, "
        f"{100 * report['worst_case_accuracy']:.1f}% robust"
        for config in configs
        for seed, report in results(folder, config, seeds).items()
    )


def main() -> None:
    """Runs what is missing, and prints the table, then every run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("runs/study"))
    parser.add_argument("--configs", default=",".join(CONFIGS), help="configs/digits_NAME.flags")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--worker", type=int, help="which of the processes this is; given by the program")
    parser.add_argument("--table", action="store_true", help="only print what is there")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    configs = arguments.configs.split(",")
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    if arguments.worker is not None:
        jobs = [(config, seed) for seed in seeds for config in configs]
        for config, seed in jobs[arguments.worker :: arguments.processes]:
            run_one(folder, config, seed)
        return
    if not arguments.table:
        command = [sys.executable, "-m", "benchmarks.digits_study", *sys.argv[1:]]
        workers = [subprocess.Popen([*command, f"--worker={i}"]) for i in range(arguments.processes)]
        codes = [worker.wait() for worker in workers]
        if any(codes):
            raise SystemExit("A worker failed.")
    print(summary(folder, configs, seeds))
    print("\n" + each_seed(folder, configs, seeds))


if __name__ == "__main__":
    main()
