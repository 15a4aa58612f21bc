"""Whether adversarial examples are better crafted with or without the dropout of the network.

    python -m benchmarks.dropout_crafting --seeds=0,1,2 --epochs=12

A small network with dropout before its head and without batch normalization, so that `bn_mode` changes the
dropout and nothing else: "eval" crafts without it, "train" with a new mask in every pass. The loss always has
dropout. Robust accuracy is the worst case of PGD-20 and C&W on the digits test images, in inference mode.
"""

import argparse
import statistics

import athe_tf  # before keras
from benchmarks.timing import table

import keras  # isort: skip

EPSILON = 0.2
FRAMEWORKS = ("trades", "pgd_at")
MODES = {"without dropout": "eval", "with dropout": "train"}


def make_net(shape, classes: int, rate: float, seed: int) -> keras.Model:
    """Two convolutions and two dense layers."""
    keras.utils.set_random_seed(seed)
    layers = [
        keras.layers.Conv2D(filters, 3, padding="same", activation="relu", strides=strides)
        for filters, strides in ((16, 1), (32, 2))
    ]
    layers += [keras.layers.Flatten(), keras.layers.Dense(64, activation="relu"), keras.layers.Dropout(rate)]
    return keras.Sequential([keras.Input(shape), *layers, keras.layers.Dense(classes)])


def measure(splits, framework: str, mode: str, rate: float, seed: int, epochs: int) -> tuple[float, float]:
    """Clean and robust accuracy on the test images after one training."""
    net = make_net(splits.image_shape, splits.num_classes, rate, seed)
    attack = athe_tf.attacks.PGD(EPSILON, step_size=EPSILON / 4, steps=5)
    trainer = athe_tf.training.get(framework)(net, attack, bn_mode=mode, seed=seed)
    trainer.compile(keras.optimizers.Adam(2e-3))
    stream = splits.train.stream(64, seed=seed, epochs=epochs)
    steps = splits.train.steps_per_epoch(64)
    trainer.fit(stream, steps_per_epoch=steps, epochs=epochs, shuffle=False, verbose=0)
    x, y = splits.test.arrays(None)
    attacks = ["pgd-20", "cw-linf-20"]
    result = athe_tf.evaluate(net, x, y, attacks=attacks, epsilon=EPSILON, checks=False, verbose=0)
    return result.clean_accuracy, result.worst_case_accuracy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--rate", type=float, default=0.3)
    arguments = parser.parse_args()
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    splits = athe_tf.data.load("digits")
    rows = [("framework", "crafted", *(f"seed {seed}: clean, robust" for seed in seeds), "mean robust")]
    for framework in FRAMEWORKS:
        for label, mode in MODES.items():
            found = [
                measure(splits, framework, mode, arguments.rate, seed, arguments.epochs) for seed in seeds
            ]
            cells = [f"{100 * clean:.1f}%, {100 * robust:.1f}%" for clean, robust in found]
            mean = statistics.mean(robust for _, robust in found)
            rows.append((framework, label, *cells, f"{100 * mean:.1f}%"))
    print(table(rows))


if __name__ == "__main__":
    main()
