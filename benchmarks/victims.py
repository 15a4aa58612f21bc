"""What it costs that a model is measured as it is now: repeated attacks on a model, a function, its victim.

    python -m benchmarks.victims

Interleaved, best of several, as ratios to the Keras model, which keeps its compiled attacks. A function may
have changed, so its attack is compiled again unless its victim is passed.
"""

import athe_tf  # before keras
from benchmarks.timing import interleaved, table

import numpy as np  # isort: skip


def main() -> None:
    """Prints the table."""
    net = athe_tf.models.build("small_cnn", 10, input_shape=(28, 28, 1))
    rng = np.random.default_rng(0)
    x, y = rng.random((64, 28, 28, 1), "float32"), rng.integers(0, 10, 64)
    attack = athe_tf.attacks.PGD(0.1, steps=10)
    settings = {"attacks": ["pgd-10"], "epsilon": 0.1, "checks": False}

    def function(images):
        return net(images, training=False)

    models = {"Keras model": net, "again": net, "function": function}
    models["its victim"] = athe_tf.victim(function, num_classes=10)
    run = interleaved({name: lambda m=m: attack.run(m, x, y) for name, m in models.items()}, 5)
    whole = interleaved(
        {name: lambda m=m: athe_tf.evaluate(m, x, y, **settings) for name, m in models.items()}, 5
    )
    rows = [("model", "PGD-10, Attack.run", "PGD-10, evaluate")]
    for name in models:
        ratios = [
            f"{times[name]:.3f} s, {times[name] / times['Keras model']:.2f} x" for times in (run, whole)
        ]
        rows.append((name, *ratios))
    print(table(rows))


if __name__ == "__main__":
    main()
