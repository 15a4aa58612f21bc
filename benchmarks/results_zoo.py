"""Makes the zoo from the runs in results/: copies the best models, and writes their cards.

python -m benchmarks.results_zoo

It needs CIFAR-10, as TensorFlow Datasets finds it, for the few images of each card.
"""

import base64
import json
import pathlib
import shutil

import numpy as np

from athe_tf import data
from athe_tf.models.names import HEAD_MARGINS
from athe_tf.results.result import Result
from athe_tf.saving.keras_file import load_model
from athe_tf.saving.names import FOLDER
from benchmarks.results_tables import ROOT, RUNS

#: The names of the models, the runs that they come from, and the commits that trained them.
MODELS = {
    "cifar10-fast-at-wrn10-1": ("fast_at_seed0", "bad7d32"),
    "cifar10-fast-at-he-wrn10-1": ("fast_at_he_seed0", "bad7d32"),
    "cifar10-pgd-at-wrn10-1": ("pgd_at_seed0", "662f1ed"),
    "cifar10-pgd-at-he-wrn10-1": ("pgd_at_he_seed0", "662f1ed"),
    "cifar10-trades-wrn10-1": ("trades_seed0", "662f1ed"),
    "cifar10-trades-he-wrn10-1": ("trades_he_seed0", "662f1ed"),
    "cifar10-free-at-wrn10-1": ("free_at_seed0", "662f1ed"),
    "cifar10-free-at-he-wrn10-1": ("free_at_he_seed0", "662f1ed"),
}
#: How many flags a card stores, and how many images with logits.
FLAGS, PROBE = 256, 4
MAX_BYTES = 500_000


def card_of(name: str, run: pathlib.Path, commit: str, images: np.ndarray) -> dict:
    """The card of a model."""
    config = json.loads((run / "config.json").read_text())
    result = Result.load(run / "evaluation")
    keys = ("dataset", "norm", "epsilon", "framework", "head", "scale", "epochs", "batch_size", "seed")
    accuracy = {"clean": result.clean_accuracy, **{one.name: one.accuracy for one in result.ran}}
    interval = {"clean": result.clean_interval, **{one.name: one.interval for one in result.ran}}
    accuracy["worst_case"] = result.worst_case_accuracy
    interval["worst_case"] = result.worst_case_interval
    margin = HEAD_MARGINS.get(config["head"], 0.0) if config["margin"] is None else config["margin"]
    return {
        "name": name,
        "network": config["model"],
        **{key: config[key] for key in keys},
        "margin": margin,
        "run": run.relative_to(ROOT).as_posix(),
        "trained_by": commit,
        "epoch": json.loads((run / "best.json").read_text())["epoch"],
        "evaluation": {
            "command": result.command,
            "protocol": result.protocol,
            "examples": result.examples,
            "seed": result.seed,
            "accuracy": accuracy,
            "interval": interval,
        },
        "flags": {name: text[:FLAGS] for name, text in result.flags.items() if name in ("clean", "pgd-20")},
        "probe": probe(run / "best.keras", images),
    }


def probe(path: pathlib.Path, images: np.ndarray) -> dict:
    """A few 8-bit images, and the logits of the model for them."""
    logits = np.asarray(load_model(path)(images.astype(np.float32) / 255, training=False))
    return {
        "shape": list(images.shape),
        "images": base64.b64encode(images.tobytes()).decode(),
        "logits": [[float(f"{value:.6g}") for value in row] for row in logits],
    }


def first_images(count: int) -> np.ndarray:
    """The first test images of CIFAR-10, in 8 bits."""
    x, _ = data.load("cifar10").test.arrays(count)
    return np.round(np.asarray(x) * 255).astype(np.uint8)


def main() -> None:
    """Writes the zoo."""
    images = first_images(PROBE)
    for name, (run, commit) in MODELS.items():
        source = RUNS / run / "best.keras"
        if source.stat().st_size > MAX_BYTES:
            raise SystemExit(f"{source} is too large for the zoo: {source.stat().st_size:,} bytes.")
        shutil.copyfile(source, FOLDER / f"{name}.keras")
        text = json.dumps(card_of(name, RUNS / run, commit, images), indent=1) + "\n"
        (FOLDER / f"{name}.json").write_text(text)
        print(f"{name}: from {run}")


if __name__ == "__main__":
    main()
