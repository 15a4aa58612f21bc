"""Our AutoAttack beside pyautoattack's: the same weights, images, norm and epsilon, stage by stage.

    python -m benchmarks.autoattack --model=runs/cifar_he --data_dir=DIR --images=300
    python -m benchmarks.autoattack --model=runs/cifar_he --data_dir=DIR --survivors=7

Needs PyTorch and pyautoattack, and a WRN that `bin/train` made. Both run the version `standard` in one
process, first pyautoattack and then ours, then in the other order; each of our runs compiles anew. Robust
accuracies are those after each stage of the cascade. With `--survivors`, the images are the first ones that
withstand `cr`.
"""

import argparse
import json
import logging
import time

import athe_tf  # before keras
from benchmarks.timing import table

import numpy as np  # isort: skip
import torch  # isort: skip

from athe_tf import attacks
from athe_tf.models.names import parse_name
from athe_tf.programs.workdir import find_model, run_of
from athe_tf.saving.keras_file import load_model
from athe_tf.utils.number_format import format_number, parse_number
from benchmarks.torch_twins import copy_weights, torch_wrn


class Stages(logging.Handler):
    """Reads pyautoattack's log: robust accuracy and seconds after each stage."""

    def __init__(self):
        super().__init__(logging.DEBUG)
        self.began = time.perf_counter()
        self.found: dict[str, tuple[float, float]] = {}

    def emit(self, record):
        text = record.getMessage()
        if text.startswith("robust accuracy after"):
            name, accuracy = text.split()[3].rstrip(":").lower(), float(text.split()[4].rstrip("%"))
            now = time.perf_counter()
            self.found[name] = accuracy, now - self.began
            self.began = now


def theirs(net, config, x, y, batch_size) -> dict[str, tuple[float, float]]:
    """`{stage: (robust accuracy in %, seconds)}` of pyautoattack."""
    from pyautoattack import AutoAttack

    normalization = net.get_layer("normalization")
    mean, std = (np.ravel(part) for part in (normalization.mean, np.sqrt(normalization.variance)))
    sizes = parse_name(config.model)[1]
    twin = torch_wrn(**sizes, num_classes=10, head=config.head, scale=config.scale, mean=mean, std=std).eval()
    copy_weights(net, twin)
    images, labels = torch.tensor(x.transpose(0, 3, 1, 2).copy()), torch.tensor(y).long()
    with torch.no_grad():
        np.testing.assert_allclose(twin(images[:64]).numpy(), net(x[:64]), atol=1e-3)
    logger = logging.getLogger("auto-attack")
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    stages = Stages()
    logger.addHandler(stages)
    attack = AutoAttack(twin, norm=config.norm.capitalize(), eps=config.epsilon, seed=0, version="standard")
    stages.began = time.perf_counter()
    attack.run_standard_evaluation(images, labels, batch_size=batch_size)
    logger.removeHandler(stages)
    return stages.found


def ours(net, config, x, y, batch_size) -> dict[str, tuple[float, float]]:
    """The same of ours; the first stage pays for the clean pass and the checks."""
    attack = attacks.AutoAttack(epsilon=config.epsilon, norm=config.norm)
    began = time.perf_counter()
    result = attack.run(net, x, y, batch_size=batch_size)
    checks = time.perf_counter() - began - sum(stage.seconds for stage in result.stages)
    found = {}
    for stage in result.stages:
        if stage.seconds:
            found[stage.name] = 100 * result.robust_after(stage).mean(), stage.seconds + checks
            checks = 0.0
    return found


def compared(runs: dict[str, dict[str, tuple[float, float]]]) -> list[tuple]:
    """The lines of a table."""
    lines: list[tuple] = [
        ("after", "ours", "pyautoattack", "difference", "seconds", "theirs", "their time over ours")
    ]
    for name in dict.fromkeys([*runs["ours"], *runs["theirs"]]):
        mine, other = (runs[who].get(name) for who in ("ours", "theirs"))
        if mine is None or other is None:
            cells = ["-" if run is None else f"{run[0]:.2f}%" for run in (mine, other)]
            lines.append((name, *cells, *[""] * 4))
        else:
            lines.append((name, *_beside(mine, other)))
    ours_in_all, theirs_in_all = (
        (list(runs[who].values())[-1][0], sum(seconds for _, seconds in runs[who].values()))
        for who in ("ours", "theirs")
    )
    lines.append(("in all", *_beside(ours_in_all, theirs_in_all)))
    return lines


def _beside(mine: tuple[float, float], other: tuple[float, float]) -> tuple[str, ...]:
    """Accuracies, their difference, seconds, and their ratio."""
    (accuracy, seconds), (their_accuracy, their_seconds) = mine, other
    return (
        f"{accuracy:.2f}%", f"{their_accuracy:.2f}%", f"{accuracy - their_accuracy:+.2f}",
        f"{seconds:.1f}", f"{their_seconds:.1f}", f"{their_seconds / seconds:.2f}",
    )  # fmt: skip


def main() -> None:
    """Runs both and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="the folder of a training run of a WRN")
    parser.add_argument("--data_dir")
    parser.add_argument("--epsilon", type=parse_number, help="that of training by default")
    parser.add_argument("--images", type=int, default=300)
    parser.add_argument("--survivors", type=int, help="only so many images, which withstand 'cr'")
    parser.add_argument("--batch_size", type=int, default=250)
    parser.add_argument("--one_order", action="store_true", help="only pyautoattack first")
    arguments = parser.parse_args()
    # As it stands there: runs of earlier versions can be measured too.
    known = json.loads(run_of(arguments.model).config.read_text())
    given = {} if arguments.epsilon is None else {"epsilon": arguments.epsilon}
    config = argparse.Namespace(**known | given)
    net = load_model(find_model(arguments.model))
    splits = athe_tf.data.load(config.dataset, data_dir=arguments.data_dir)
    x, y = splits.test.arrays(arguments.images)
    if arguments.survivors is not None:
        hard = attacks.get("cr", epsilon=config.epsilon, norm=config.norm).run(net, x, y).success
        chosen = np.flatnonzero(~hard)[: arguments.survivors]
        x, y = x[chosen], y[chosen]
    print(
        f"{config.model}, head {config.head}, {config.framework}, {config.epochs} epochs; {len(x)} test "
        f"images of {config.dataset}, {config.norm} {format_number(config.epsilon)}, "
        f"batch {arguments.batch_size}"
    )
    for order in ((theirs, ours), (ours, theirs))[: 1 if arguments.one_order else 2]:
        runs = {who.__name__: who(net, config, x, y, arguments.batch_size) for who in order}
        print(f"\nfirst {order[0].__name__}, then {order[1].__name__}:\n")
        print(table(compared(runs)), flush=True)


if __name__ == "__main__":
    main()
