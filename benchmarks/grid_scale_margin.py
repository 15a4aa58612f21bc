"""Scale and margin of hypersphere embedding: the two grids of Table 9, by any config.

Purpose:  how the scale s and the margin m trade clean accuracy for robustness (TRADES + HE in the paper).
Expected: on CIFAR-10 the rows of Table 9 in configs/papers.json. The paper's PGD-20 attacks unscaled cosines,
          which flatters HE; it stands beside the same measurement of ours, and the worst case beside both.
Cost:     ten runs: about six minutes on digits; on CIFAR-10 ten times that of configs/cifar_trades_he.flags.
Command:  python benchmarks/grid_scale_margin.py --config=configs/digits_trades_he.flags --workdir=runs/grid

The same command continues where it was interrupted. Further flags go to bin/train, as --data_dir=/data/tfds.
On other data than the paper's, the radius is that of the training, and steps keep their proportion to it.
"""

import argparse
import json
import pathlib
import subprocess
import sys

from athe_tf.programs.recipes import with_recipes

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAPER_DATASET = "cifar10"


def table():
    """The rows of Table 9."""
    rows = json.loads((ROOT / "configs" / "papers.json").read_text())["rows"]
    return [row for row in rows if (row["paper"], row["table"]) == ("he2020", "9")]


def setting(config, name):
    """The value of a flag in a config."""
    lines = with_recipes([f"--flagfile={ROOT / config}"])
    return [line.partition("=")[2] for line in lines if line.startswith(f"--{name}=")][-1]


def commands(config, folder, row, flags):
    """What trains one cell of the grid, and what measures it."""
    train = ["bin/train", f"--flagfile={config}", f"--scale={row['scale']}", f"--margin={row['margin']}"]
    evaluate = ["bin/evaluate", f"--model={folder}", f"--protocol={row['protocol']}"]
    if setting(config, "dataset") != PAPER_DATASET:
        evaluate.append(f"--epsilon={setting(config, 'epsilon')}")
    return [*train, *flags, f"--workdir={folder}"], [*evaluate, f"--output={folder}/evaluation"]


def measure(config, folder, row, flags):
    """The evaluation of one cell, made now unless it is there already."""
    result = folder / "evaluation" / "evaluation.json"
    if not result.exists():
        for command in commands(config, folder, row, flags):
            subprocess.run([sys.executable, *command], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return json.loads(result.read_text())


def cells(row, report):
    """One line of the table: ours, then the paper's."""
    found = {"clean": report["clean_accuracy"]} | {a["name"]: a["accuracy"] for a in report["attacks"]}
    published = {column["name"]: column for column in row["columns"]}
    measures = ["clean", published["PGD-20"]["measure"], published["PGD-20"]["own_scale"]]
    ours = [*(found[name] for name in measures), report["worst_case_accuracy"]]
    paper = [published[name]["published"] for name in ("Clean", "PGD-20")]
    return [row["scale"], row["margin"], *(f"{100 * value:.1f}" for value in ours), *paper]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", default="configs/digits_trades_he.flags")
    parser.add_argument("--workdir", default="runs/grid_scale_margin")
    parser.add_argument("--dry_run", action="store_true", help="print the commands and stop")
    options, flags = parser.parse_known_args()
    print("| s | m | clean | PGD-20 as published | PGD-20 | worst case | paper: clean | paper: PGD-20 |")
    print("|---|---|---|---|---|---|---|---|")
    for row in table():
        folder = pathlib.Path(options.workdir).resolve() / f"s{row['scale']}_m{row['margin']}"
        if options.dry_run:
            for command in commands(options.config, folder, row, flags):
                print(" ".join(command))
            continue
        report = measure(options.config, folder, row, flags)
        print("| " + " | ".join(map(str, cells(row, report))) + " |", flush=True)


if __name__ == "__main__":
    main()
