"""`cr` and `swift` beside AutoAttack: robust accuracy, passes and time on the same images, image by image.

    python -m benchmarks.swift --model=runs/A --model=runs/B --dataset=cifar10 --epsilon=8/255 --state=DIR
    python -m benchmarks.swift --model=runs/A --logit_factor=100 --dataset=cifar10 --epsilon=8/255 --state=DIR

Models are files or folders of training runs, with names of their own. AutoAttack takes many minutes per
model on a CPU; `--state` keeps what every attack found, so that a repeated command resumes and then only
prints. Seconds include compiling.
A data set with fewer test images than `--images` is completed with training images: attacks are compared
here, not models.
`--logit_factor` multiplies all logits: 100, or 1/15 for the raw cosines of a head of scale 15.
"""

import argparse
import pathlib

import athe_tf  # before keras
from benchmarks.timing import table

import numpy as np  # isort: skip

from athe_tf.attacks import Victim, victim
from athe_tf.programs.workdir import find_model
from athe_tf.saving.keras_file import load_model
from athe_tf.utils.number_format import format_number, parse_number

ATTACKS = ("cr", "swift", "autoattack")


def scaled(net, factor: float) -> Victim:
    """The model with all logits multiplied."""
    inner = victim(net)
    if factor == 1.0:
        return inner
    return Victim(lambda x: factor * inner.logits(x), num_classes=inner.num_classes, name=inner.name)


def images_of(arguments) -> tuple[np.ndarray, np.ndarray, str]:
    """Images, labels, and what they are."""
    splits = athe_tf.data.load(arguments.dataset, data_dir=arguments.data_dir)
    x, y = splits.test.arrays(arguments.images)
    missing = arguments.images - len(x)
    if missing <= 0:
        return x, y, f"{len(x)} test images"
    more_x, more_y = splits.train.arrays(missing)
    described = f"{len(x)} test and {len(more_x)} training images"
    return np.concatenate([x, more_x]), np.concatenate([y, more_y]), described


def measure(path: str, arguments) -> tuple[str, dict]:
    """`(a line about the model, the result of each attack)`."""
    x, y, described = images_of(arguments)
    net = load_model(find_model(path))
    target, label = scaled(net, arguments.logit_factor), pathlib.Path(path).name
    factor = "" if arguments.logit_factor == 1.0 else f".x{arguments.logit_factor:g}"
    results = {}
    for name in arguments.attacks.split(","):
        state = pathlib.Path(arguments.state) / f"{label}{factor}.{arguments.norm}.{name}.npz"
        attack = athe_tf.attacks.get(name, epsilon=arguments.epsilon, norm=arguments.norm)
        results[name] = attack.run(target, x, y, batch_size=arguments.batch_size, state=state)
    title = (
        f"{label}: {described} of {arguments.dataset}, {arguments.norm} {format_number(arguments.epsilon)}"
    )
    return title + (f", logits times {arguments.logit_factor:g}" if factor else ""), results


def rows(results: dict):
    """A line for each attack, compared with the last one."""
    *_, reference = results.values()
    for name, result in results.items():
        robust, standard = ~result.success, ~reference.success
        seconds = sum(stage.seconds for stage in result.stages)
        yield (
            name,
            f"{100 * robust.mean():.2f}%",
            f"{100 * (robust.mean() - standard.mean()):+.2f}",
            f"{result.queries.mean():.1f}",
            f"{result.gradients.mean():.1f}",
            f"{reference.passes.sum() / result.passes.sum():.1f}",
            f"{seconds:.0f}",
            f"{sum(stage.seconds for stage in reference.stages) / seconds:.1f}",
            listed(robust & ~standard),
            listed(standard & ~robust),
        )


def listed(flags: np.ndarray) -> str:
    """The numbers of the images with a flag."""
    return " ".join(str(row) for row in np.flatnonzero(flags)) or "-"


def main() -> None:
    """Runs the attacks and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--model", action="append", required=True, help="a file, or the folder of a training run"
    )
    parser.add_argument("--dataset", default="cifar10")
    parser.add_argument("--norm", default="linf")
    parser.add_argument("--data_dir")
    parser.add_argument("--epsilon", type=parse_number, default=8 / 255)
    parser.add_argument("--attacks", default=",".join(ATTACKS), help="the last one is what others compare to")
    parser.add_argument("--images", type=int, default=500)
    parser.add_argument("--batch_size", type=int, default=250)
    parser.add_argument("--logit_factor", type=parse_number, default=1.0)
    parser.add_argument("--state", required=True, help="a folder for what the attacks found")
    arguments = parser.parse_args()
    pathlib.Path(arguments.state).mkdir(parents=True, exist_ok=True)
    head = (
        "attack", "robust", "difference", "forward", "backward", "times fewer passes", "seconds",
        "times faster", "robust here, broken there", "broken here, robust there",
    )  # fmt: skip
    for path in arguments.model:
        title, results = measure(path, arguments)
        print(f"{title}\n")
        print(table([head, *rows(results)]), flush=True)
        for note in dict.fromkeys(note for result in results.values() for note in result.notes):
            print(f"- {note}")
        print()


if __name__ == "__main__":
    main()
