"""Flags of attacks that XLA compiles for batches of one size, beside those of the shrinking form.

    python -m benchmarks.xla_flags                              # 200 digits, swift and AutoAttack

A small network is trained on the digits first. Prints, per attack, the images whose flags differ with the
distance of their logits from the boundary, and how many passes either form took.
"""

import argparse

import athe_tf

import numpy as np  # isort: skip

from athe_tf import attacks, training
from benchmarks.timing import table


def trained():
    """A small convolutional network, and the images to attack."""
    splits = athe_tf.data.load("digits")
    net = athe_tf.models.build(
        "small_cnn", 10, head="he", input_shape=splits.image_shape, mean=splits.mean, std=splits.std
    )
    trainer = training.FastAT(net, attacks.PGD(0.2, steps=1, step_size=0.25), margin=0.2)
    trainer.compile(training.TorchSGD(0.05))
    stream = splits.train.stream(64, seed=0, epochs=6)
    trainer.fit(stream, steps_per_epoch=18, epochs=6, verbose=0, shuffle=False)
    return net, splits.test


def main() -> None:
    """Attacks in both forms, and prints what differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--attacks", default="swift,autoattack-lite")
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--epsilon", type=float, default=0.2)
    arguments = parser.parse_args()
    net, source = trained()
    victim, (x, y) = athe_tf.victim(net), source.arrays(arguments.images)
    rows = [("attack", "robust", "robust, XLA", "flags that differ", "passes", "passes, XLA")]
    for name in arguments.attacks.split(","):
        plain, compiled = (
            attacks.get(name, epsilon=arguments.epsilon).run(
                victim, x, y, batch_size=100, jit_compile=jit_compile
            )
            for jit_compile in (False, True)
        )
        for image in np.flatnonzero(plain.success != compiled.success):
            found = (plain if plain.success[image] else compiled).x_adv[image : image + 1]
            logits = np.sort(np.delete(np.asarray(victim.logits(found))[0], y[image]))[-1]
            print(f"{name}, image {image}: {logits - np.asarray(victim.logits(found))[0, y[image]]:.1e}")
        robust = [int((~each.success).sum()) for each in (plain, compiled)]
        passes = [int(each.passes.sum()) for each in (plain, compiled)]
        rows.append((name, *robust, int((plain.success != compiled.success).sum()), *passes))
    print(table(rows))


if __name__ == "__main__":
    main()
