"""Attacks on models of the zoo with the model's own gradients, with folded ones, and in bfloat16.

    python -m benchmarks.cheaper_gradients --images=500
    python -m benchmarks.cheaper_gradients --images=200 --attacks=cr,square-500 --data_dir=DIR

The model itself decides whether an image is broken. "only the model's" are images that fall to the gradients
of the model and not to these; "only these" the reverse. Times are CPU seconds of the second of two equal
runs, as a ratio: larger is faster.
"""

import argparse
import time

import athe_tf
from athe_tf import attacks
from athe_tf.models.folding import cheaper_gradients
from athe_tf.models.victim import victim_of
from athe_tf.utils.choices import GRADIENTS
from benchmarks.timing import table

MODELS = ",".join(name for name in athe_tf.zoo.names() if name.startswith("cifar10"))


def measured(attack, victim, x, y) -> tuple:
    """`(which images are broken, CPU seconds)`."""
    for _ in range(2):
        began = time.process_time()
        broken = attack.run(victim, x, y).success
    return broken, time.process_time() - began


def main() -> None:
    """Runs and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--attacks", default="pgd-40")
    parser.add_argument("--images", type=int, default=500)
    parser.add_argument("--data_dir")
    arguments = parser.parse_args()
    splits = athe_tf.data.load("cifar10", data_dir=arguments.data_dir)
    x, y = splits.test.arrays(arguments.images)
    rows: list[tuple] = [("model", "attack", "gradients", "robust", "only the model's", "only these", "time")]
    for model in arguments.models.split(","):
        own = victim_of(athe_tf.zoo.load(model))
        for name in arguments.attacks.split(","):
            changes = {"loss": "margin"} if name.startswith("pgd") else {}
            attack = attacks.get(name, epsilon=8 / 255, **changes)
            found = {kind: measured(attack, cheaper_gradients(own, kind), x, y) for kind in GRADIENTS}
            base, seconds = found["model"]
            for kind, (broken, time_of_kind) in found.items():
                counts = (base & ~broken).sum(), (broken & ~base).sum()
                rest = f"{100 * (~broken).mean():.1f} %", *counts, f"{seconds / time_of_kind:.2f} x"
                rows.append((model, name, kind, *rest))
    print(table(rows))


if __name__ == "__main__":
    main()
