"""What attacks take around the network: their passes per second beside those of the plain gradient.

    python -m benchmarks.overhead --model=zoo:cifar10-fast-at-wrn10-1 --batch_size=70

The images cannot be fooled (the ball is tiny), so every batch stays full to the last step. The plain gradient
is that of the cross-entropy, compiled, called again and again on the same batches, with as many in flight as
the attacks have. Targeted attacks have one target. Compiling does not count; all are interleaved in one
process, and the best round counts.
"""

import argparse

import athe_tf  # before keras
from benchmarks.timing import interleaved, table

import numpy as np  # isort: skip
import tensorflow as tf  # isort: skip

from athe_tf import attacks
from athe_tf.attacks.engine.driver import map_batches, stream_count
from athe_tf.programs.workdir import find_model
from athe_tf.saving.keras_file import load_model

TINY = 1e-9
# Calls of the plain gradient per measurement: as many as the attacks have steps.
STEPS = 100


def plain_gradient(net, x, y, batch_size: int):
    """A function that computes the gradient of each batch `STEPS` times."""

    @tf.function(autograph=False)
    def gradient(images, labels):
        with tf.GradientTape() as tape:
            tape.watch(images)
            logits = net(images, training=False)
            loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        return tape.gradient(loss, images)

    starts = range(0, len(x), batch_size)
    batches = [
        (tf.constant(x[start : start + batch_size]), tf.constant(y[start : start + batch_size]))
        for start in starts
    ]

    def many(batch):
        for _ in range(STEPS):
            result = gradient(*batch)
        return result.numpy()

    return lambda: list(map_batches([many] * stream_count(), batches))


def measure(net, x, y, batch_size: int, names: list[str], repeats: int) -> list[tuple]:
    """The lines of the table."""
    passes = {"gradient": 2 * STEPS * len(x)}
    functions = {"gradient": plain_gradient(net, x, y, batch_size)}
    victim = athe_tf.victim(net)
    for name in names:
        attack = attacks.get(name, epsilon=TINY, **({"n_targets": 1} if name.endswith("-t") else {}))

        def run(attack=attack):
            return attack.run(victim, x, y, batch_size=batch_size)

        functions[name], passes[name] = run, int(run().passes.sum())
    best = interleaved(functions, repeats, warm_up=1)
    speed = {name: passes[name] / seconds for name, seconds in best.items()}
    lines: list[tuple] = [("", "passes per image", "passes/s", "of the plain gradient")]
    for name, value in speed.items():
        share = f"{value / speed['gradient']:.3f}"
        lines.append((name, f"{passes[name] / len(x):.0f}", f"{value:.0f}", share))
    return lines


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", default="zoo:cifar10-fast-at-wrn10-1")
    parser.add_argument("--attacks", default="pgd-100,apgd-ce,apgd-t,fab-t")
    parser.add_argument("--batch_size", type=int, default=70)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    net = load_model(find_model(arguments.model))
    count = stream_count() * arguments.batch_size
    x = np.random.default_rng(0).uniform(size=(count, *net.input_shape[1:])).astype("float32")
    y = net.predict(x, verbose=0).argmax(axis=1).astype("int32")
    names = arguments.attacks.split(",")
    print(f"{arguments.model}: {stream_count()} batches of {arguments.batch_size} at once\n")
    print(table(measure(net, x, y, arguments.batch_size, names, arguments.repeats)))


if __name__ == "__main__":
    main()
