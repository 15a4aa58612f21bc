"""The test of the attacks on robust models: AutoAttack and `swift` find what exists (docs/special_models.md).

    python -m benchmarks.attack_test --dataset=cifar10 --data_dir=DIR --state=FILE results/cifar10_mini/*
    python -m benchmarks.attack_test --dataset=digits --epsilon=0.2 --state=FILE runs/*

One line per model and attack: the share of the planted adversarial examples that the attack finds, that of
random search with as many queries, and the passes per image. The file of `--state` keeps what was measured.
"""

import argparse
import json
import pathlib

import athe_tf  # before keras
from athe_tf.evaluation import attack_test, sanity
from athe_tf.evaluation.inputs import EvaluationInputs
from athe_tf.saving.names import find_model
from athe_tf.utils.number_format import parse_number
from benchmarks.timing import table

import keras  # isort: skip

ATTACKS = "swift,autoattack"


def tested(model: str, name: str, images, arguments) -> dict:
    """What an attack finds of the planted adversarial examples of a model."""
    inputs = EvaluationInputs.open(
        athe_tf.victim(find_model(model)), *images, arguments.norm, arguments.epsilon, 0, arguments.images
    )
    attack = athe_tf.attacks.get(name, epsilon=arguments.epsilon, norm=arguments.norm)
    probe = sanity.SanityProbe(inputs, [], wanted=[attack])
    test = attack_test.try_attacks(inputs, probe.wanted, probe.rows, 1000 * arguments.images)
    keras.backend.clear_session()
    found = {"found": test.found.mean(), "by chance": test.by_chance.mean(), "images": len(test.found)}
    return {**found, "passes": sum(test.passes) / len(test.found)}


def main() -> None:
    """Tests, and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("models", nargs="+", help="files, or folders of training runs")
    parser.add_argument("--attacks", default=ATTACKS)
    parser.add_argument("--dataset", default="cifar10")
    parser.add_argument("--data_dir")
    parser.add_argument("--norm", default="linf")
    parser.add_argument("--epsilon", type=parse_number, default=8 / 255)
    parser.add_argument("--images", type=int, default=50)
    parser.add_argument("--state", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    known = json.loads(arguments.state.read_text()) if arguments.state.exists() else {}
    images = athe_tf.data.load(arguments.dataset, data_dir=arguments.data_dir).test.arrays(arguments.images)
    lines, weak = [], 0
    for model in arguments.models:
        for name in arguments.attacks.split(","):
            label = pathlib.Path(model).name
            if (key := f"{label}, {name}") not in known:
                known[key] = tested(model, name, images, arguments)
                arguments.state.write_text(json.dumps(known))
            one = known[key]
            weak += one["found"] < sanity.ENOUGH
            shares = f"{one['found']:.0%}", f"{one['by chance']:.0%}"
            lines.append((label, name, *shares, one["images"], f"{one['passes']:.0f}"))
    print(table([("model", "attack", "found", "by chance", "images", "passes per image"), *lines]))
    print(f"\n{len(lines)} tests of {len(arguments.models)} models; {weak} failed.")


if __name__ == "__main__":
    main()
