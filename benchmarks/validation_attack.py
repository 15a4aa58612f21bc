"""Whether a stronger validation attack chooses a better epoch: PGD-10 against the short form of `swift`.

    python -m benchmarks.validation_attack --configs=fast_at,pgd_at --seeds=0,1,2

Each run of `configs/digits_NAME.flags` is trained once. After every epoch both attacks measure the robust
accuracy on the validation images; each chooses the epoch where its own is highest, the first of several. The
weights of every chosen epoch are measured on the test images with `swift`, all of its stages.
"""

import argparse
import statistics

import athe_tf  # before keras
from benchmarks.digits_study import read_config
from benchmarks.timing import table

import keras  # isort: skip
import numpy as np  # isort: skip

from athe_tf.programs.build import make_trainer

VALIDATION = ("pgd-10", "swift")


class EveryEpoch(keras.callbacks.Callback):
    """Keeps the weights of every epoch, and what each validation attack says about them."""

    def __init__(self, splits, config):
        super().__init__()
        self.x, self.y = splits.validation.arrays(None)
        self.attacks = [athe_tf.attacks.get(name, epsilon=config.epsilon) for name in VALIDATION]
        self.weights, self.accuracies = [], []

    def on_epoch_end(self, epoch, logs=None):
        net = self.model.shipped
        self.weights.append(net.get_weights())
        found = []
        for attack in self.attacks:
            logits = np.asarray(net(attack(net, self.x, self.y), training=False))
            found.append(float((logits.argmax(axis=1) == self.y).mean()))
        self.accuracies.append(found)


def measure(name: str, seed: int, epochs: int | None) -> dict[str, tuple[int, float, float]]:
    """For each validation attack: the epoch it chose, its own accuracy there, and that on test images."""
    config = read_config(name, seed, None)
    keras.utils.set_random_seed(seed)
    splits = athe_tf.data.load(config.dataset)
    trainer = make_trainer(config, splits)
    watched = EveryEpoch(splits, config)
    trainer.fit(
        splits.train.stream(config.batch_size, seed=seed, epochs=config.epochs),
        steps_per_epoch=splits.train.steps_per_epoch(config.batch_size),
        epochs=epochs or config.epochs,
        shuffle=False,
        callbacks=[watched],
        verbose=0,
    )
    judge = athe_tf.attacks.get("swift", epsilon=config.epsilon)
    x, y = splits.test.arrays(None)
    chosen, tested = {}, {}
    for column, attack in enumerate(VALIDATION):
        epoch = int(np.argmax([row[column] for row in watched.accuracies]))
        if epoch not in tested:
            trainer.shipped.set_weights(watched.weights[epoch])
            tested[epoch] = float((~judge.run(trainer.shipped, x, y).success).mean())
        chosen[attack] = (epoch + 1, watched.accuracies[epoch][column], tested[epoch])
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--configs", default="fast_at,pgd_at")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--epochs", type=int, help="Stop the runs after this many epochs.")
    arguments = parser.parse_args()
    rows = [("run", "seed", *(f"{name}: epoch, on validation, on test" for name in VALIDATION), "difference")]
    for config in arguments.configs.split(","):
        gains = []
        for seed in map(int, arguments.seeds.split(",")):
            chosen = measure(config, seed, arguments.epochs)
            gains.append(chosen[VALIDATION[1]][2] - chosen[VALIDATION[0]][2])
            cells = [f"{epoch}, {100 * own:.1f}%, {100 * test:.2f}%" for epoch, own, test in chosen.values()]
            rows.append((config, str(seed), *cells, f"{100 * gains[-1]:+.2f}"))
            print(rows[-1], flush=True)
        rows.append((config, "mean", "", "", f"{100 * statistics.mean(gains):+.2f}"))
    print(table(rows))


if __name__ == "__main__":
    main()
