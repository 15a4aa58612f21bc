"""Our AutoAttack beside pyautoattack's: the same weights, images, norm and epsilon, stage by stage.

    python -m benchmarks.autoattack --model=runs/cifar_he --data_dir=DIR --images=300

Needs PyTorch and pyautoattack, and a WRN that `bin/train` made. Both run the version `standard` in one
process, one after the other; our first run, which compiles, is what is compared. Robust accuracies are those
after each stage of the cascade.
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


def main() -> None:
    """Runs both and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="the folder of a training run of a WRN")
    parser.add_argument("--data_dir")
    parser.add_argument("--epsilon", type=parse_number, help="that of training by default")
    parser.add_argument("--images", type=int, default=300)
    parser.add_argument("--batch_size", type=int, default=250)
    arguments = parser.parse_args()
    # As it stands there: runs of earlier versions can be measured too.
    known = json.loads(run_of(arguments.model).config.read_text())
    given = {} if arguments.epsilon is None else {"epsilon": arguments.epsilon}
    config = argparse.Namespace(**known | given)
    net = load_model(find_model(arguments.model))
    splits = athe_tf.data.load(config.dataset, data_dir=arguments.data_dir)
    x, y = splits.test.arrays(arguments.images)
    runs = {who.__name__: who(net, config, x, y, arguments.batch_size) for who in (theirs, ours)}
    print(
        f"{config.model}, head {config.head}, {config.framework}, {config.epochs} epochs; {len(x)} test "
        f"images of {config.dataset}, {config.norm} {format_number(config.epsilon)}, "
        f"batch {arguments.batch_size}\n"
    )
    lines = [("after", "ours", "pyautoattack", "difference", "seconds", "theirs", "their time over ours")]
    for name in dict.fromkeys([*runs["ours"], *runs["theirs"]]):
        mine, other = (runs[who].get(name) for who in ("ours", "theirs"))
        if mine is None or other is None:
            lines.append(
                (name, *("-" if run is None else f"{run[0]:.2f} %" for run in (mine, other)), *[""] * 4)
            )
            continue
        difference, ratio = mine[0] - other[0], other[1] / mine[1]
        lines.append(
            (name, f"{mine[0]:.2f} %", f"{other[0]:.2f} %", f"{difference:+.2f}", f"{mine[1]:.1f}",
             f"{other[1]:.1f}", f"{ratio:.2f}")
        )  # fmt: skip
    totals = [sum(seconds for _, seconds in runs[who].values()) for who in ("ours", "theirs")]
    last = [list(runs[who].values())[-1][0] for who in ("ours", "theirs")]
    lines.append(
        ("in all", f"{last[0]:.2f} %", f"{last[1]:.2f} %", f"{last[0] - last[1]:+.2f}", f"{totals[0]:.1f}",
         f"{totals[1]:.1f}", f"{totals[1] / totals[0]:.2f}")
    )  # fmt: skip
    print(table(lines))


if __name__ == "__main__":
    main()
