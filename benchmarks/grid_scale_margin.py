"""Scale and margin of hypersphere embedding: the two grids of Table 9, by any config.

Purpose:  how the scale s and the margin m trade clean accuracy for robustness (TRADES + HE in the paper).
Expected: on CIFAR-10 the numbers in `PAPER`; they are PGD-20 on unscaled cosines, which flatters HE.
Cost:     ten runs: about six minutes on digits; on CIFAR-10 ten times that of configs/cifar_trades_he.flags.
Command:  python benchmarks/grid_scale_margin.py --config=configs/digits_trades_he.flags --workdir=runs/grid

The same command continues where it was interrupted. Further flags go to bin/train, as --data_dir=/data/tfds.
"""

import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# (s, m): clean and PGD-20 accuracy in % (Table 9 of the HE paper).
PAPER = {
    (15, 0.0): (82.53, 60.35),
    (15, 0.1): (85.00, 61.13),
    (15, 0.2): (84.88, 62.02),
    (15, 0.3): (82.99, 61.54),
    (15, 0.4): (78.05, 58.05),
    (15, 0.5): (74.71, 56.27),
    (1, 0.2): (89.34, 50.33),
    (5, 0.2): (85.70, 58.75),
    (10, 0.2): (85.30, 60.17),
    (20, 0.2): (77.67, 57.51),
}
ATTACKS = "pgd-20,cw-linf-50x5"


def commands(config, folder, scale, margin, flags):
    """What trains one cell of the grid, and what measures it."""
    train = ["bin/train", f"--flagfile={config}", f"--scale={scale}", f"--margin={margin}"]
    evaluate = ["bin/evaluate", f"--model={folder}", f"--attacks={ATTACKS}", f"--output={folder}/evaluation"]
    return [*train, *flags, f"--workdir={folder}"], evaluate


def measure(config, folder, scale, margin, flags):
    """The evaluation of one cell, made now unless it is there already."""
    result = folder / "evaluation" / "evaluation.json"
    if not result.exists():
        for command in commands(config, folder, scale, margin, flags):
            subprocess.run([sys.executable, *command], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return json.loads(result.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", default="configs/digits_trades_he.flags")
    parser.add_argument("--workdir", default="runs/grid_scale_margin")
    parser.add_argument("--dry_run", action="store_true", help="print the commands and stop")
    options, flags = parser.parse_known_args()
    print("| s | m | clean | PGD-20 | worst case | paper: clean | paper: PGD-20 |")
    print("|---|---|---|---|---|---|---|")
    for (scale, margin), (clean, pgd) in PAPER.items():
        folder = pathlib.Path(options.workdir).resolve() / f"s{scale}_m{margin}"
        if options.dry_run:
            for command in commands(options.config, folder, scale, margin, flags):
                print(" ".join(command))
            continue
        report = measure(options.config, folder, scale, margin, flags)
        ours = (report["clean_accuracy"], report["attacks"][0]["accuracy"], report["worst_case_accuracy"])
        cells = [scale, margin, *(f"{100 * value:.1f}" for value in ours), clean, pgd]
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)


if __name__ == "__main__":
    main()
