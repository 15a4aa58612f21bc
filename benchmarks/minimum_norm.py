"""DDN and FMN beside foolbox's: the norms that they find, image by image, and their time.

    python -m benchmarks.minimum_norm --model=runs/A --dataset=digits --images=200
    python -m benchmarks.minimum_norm --model=zoo:cifar10-fast-at-wrn10-1 --dataset=cifar10 --data_dir=DIR

Only images that are classified correctly. Times are interleaved in one process, best of `--repeats`, without
compiling. FMN in l2 is left out: the projection of foolbox 3.3.4 divides norms by themselves there.
"""

import argparse

import athe_tf  # before keras
from benchmarks.timing import interleaved, table

import foolbox  # isort: skip
import numpy as np  # isort: skip
import tensorflow as tf  # isort: skip

from athe_tf import attacks
from athe_tf.programs.workdir import find_model
from athe_tf.saving.keras_file import load_model

CASES = {
    ("ddn", "l2"): foolbox.attacks.DDNAttack,
    ("fmn", "linf"): foolbox.attacks.LInfFMNAttack,
    ("fmn", "l1"): foolbox.attacks.L1FMNAttack,
}


def compare(net, x, y, name: str, norm: str, steps: int, repeats: int) -> tuple:
    """A line of the table."""
    victim, wrapped = athe_tf.victim(net), foolbox.TensorFlowModel(net, bounds=(0, 1))
    # Far away: whatever is found counts.
    largest = 1.0 if norm == "linf" else float(x[0].size)
    attack = attacks.get(name, epsilon=largest, norm=norm, steps=steps)
    theirs = CASES[name, norm](steps=steps)
    images, labels = tf.constant(x), tf.constant(y, tf.int64)

    def run_ours():
        return attack.run(victim, x, y, batch_size=len(x))

    def run_theirs():
        return theirs(wrapped, images, labels, epsilons=None)

    result, (_, found, success) = run_ours(), run_theirs()
    lengths, success = attack.threat.distance(x, found).numpy(), success.numpy()
    ratios = (result.norm / lengths)[success & result.success]
    best = interleaved({"ours": run_ours, "theirs": run_theirs}, repeats, warm_up=0)
    return (
        f"{name} {norm}",
        f"{100 * result.success.mean():.1f}% / {100 * success.mean():.1f}%",
        f"{np.median(result.norm):.4g} / {np.median(lengths):.4g}",
        ", ".join(f"{np.quantile(ratios, share):.4f}" for share in (0.5, 0.05, 0.95)),
        f"{best['theirs'] / best['ours']:.2f}",
    )


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--dataset", default="cifar10")
    parser.add_argument("--data_dir")
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    net = load_model(find_model(arguments.model))
    x, y = athe_tf.data.load(arguments.dataset, data_dir=arguments.data_dir).test.arrays(arguments.images)
    right = net.predict(x, verbose=0).argmax(axis=1) == y
    x, y = x[right], y[right]
    print(f"{arguments.model}: {len(x)} images of {arguments.dataset}, {arguments.steps} steps\n")
    head = (
        "attack",
        "found, ours / theirs",
        "median norm",
        "ratio: median, 5%, 95%",
        "their time over ours",
    )
    rows = [compare(net, x, y, *case, arguments.steps, arguments.repeats) for case in CASES]
    print(table([head, *rows]))


if __name__ == "__main__":
    main()
