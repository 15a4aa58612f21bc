"""Accuracy under PGD-20 at many scales of the logits that the attack sees, for the models of the study.

    python -m benchmarks.scale_curve --data_dir=DIR      # resumes; one file per model in results/scale_curve
    python -m benchmarks.scale_curve --picture           # docs/results/scale_curve.png

The factor multiplies the logits of the model, in the attack only: 1 is the model's own scale, and 1/15 is the
setting of the HE paper's tables for a head that was trained with s = 15. Linear heads get the same factors.
"""

import argparse
import json
import pathlib

import athe_tf  # before keras
from athe_tf.saving.keras_file import load_model
from athe_tf.utils.files import write_text
from benchmarks.results_tables import (
    CURVES,
    FACTORS,
    ROOT,
    curve_of,
    curves,
    evaluated_model,
    mean_curve,
    read_runs,
    relative,
)

#: The attack of the protocol `hypersphere`.
EPSILON, STEPS, STEP_SIZE = 8 / 255, 20, 0.003
PICTURE = ROOT / "docs" / "results" / "scale_curve.png"
#: The lines of the picture.
SHOWN = ("FastAT", "FastAT + HE", "PGD-AT", "PGD-AT + HE", "TRADES", "TRADES + HE")


def curve(path: pathlib.Path, x, y) -> dict[str, str]:
    """For each factor, which images stay correctly classified: a string of zeros and ones."""
    victim = athe_tf.victim(load_model(path))
    found = {}
    for text, factor in FACTORS.items():
        attack = athe_tf.attacks.PGD(
            EPSILON, steps=STEPS, step_size=STEP_SIZE, logit_scale=factor * victim.scale
        )
        success = attack.run(victim, x, y, batch_size=250).success
        found[text] = "".join("0" if one else "1" for one in success)
    return found


def measure(data_dir: str | None, images: int) -> None:
    """Writes the curves that are missing."""
    x, y = athe_tf.data.load("cifar10", data_dir=data_dir).test.arrays(images)
    for run in read_runs():
        if curve_of(run):
            continue
        model = evaluated_model(run.folder)
        flags = curve(model, x, y)
        found = {"model": relative(model), "images": images, "flags": flags}
        CURVES.mkdir(exist_ok=True)
        write_text(CURVES / f"{run.folder.name}.json", json.dumps(found) + "\n")
        print(run.folder.name, {text: f"{100 * flags[text].count('1') / images:.1f}" for text in FACTORS})


def draw() -> None:
    """The picture of the page: means over seeds."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4.2), layout="constrained")
    axes = figure.subplots()
    groups = curves(read_runs())
    for number, label in enumerate(SHOWN):
        if label not in groups:
            continue
        means = [100 * value for value in mean_curve(groups[label])]
        hypersphere = label.endswith("HE")
        axes.plot(
            list(FACTORS.values()), means, "o-" if hypersphere else "s--", color=f"C{number // 2}",
            label=f"{label} ({len(groups[label])} seeds)",
        )  # fmt: skip
        if hypersphere:
            axes.plot(1 / 15, means[0], "o", markersize=13, fillstyle="none", color=f"C{number // 2}")
    axes.set_xscale("log")
    axes.set_xticks(list(FACTORS.values()), list(FACTORS))
    axes.minorticks_off()
    axes.set_xlabel("factor of the logits in the attack (1: the model's own scale)")
    axes.set_ylabel("accuracy under PGD-20 (%)")
    axes.set_title("Circles: HE as published", fontsize=10)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=110)


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data_dir", help="The folder of CIFAR-10.")
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--picture", action="store_true", help="Only draw what is measured.")
    arguments = parser.parse_args()
    if not arguments.picture:
        measure(arguments.data_dir, arguments.images)
    draw()


if __name__ == "__main__":
    main()
