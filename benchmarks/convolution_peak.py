"""What the machine can do at best: floating-point operations a second in 3x3 convolutions."""

import math

import athe_tf  # noqa: F401  (chooses oneDNN before TensorFlow is imported)

import tensorflow as tf  # isort: skip

# (batch, side, channels in and out): large enough to be bound by arithmetic.
CHAIN = 60e9  # operations of a chain
SHAPES = [(64, 32, 64), (64, 16, 128), (64, 8, 256), (32, 32, 128)]


def network_flops(model) -> int:
    """Multiplications and additions of one forward pass of one image: convolutions and dense layers."""
    total = 0
    for layer in model.layers:
        kernel = getattr(layer, "kernel", None)
        if kernel is None:
            continue
        positions = math.prod(layer.output.shape[1:-1]) if len(kernel.shape) == 4 else 1
        total += 2 * math.prod(kernel.shape) * positions
    return total


def peak_candidates() -> dict:
    """Chains of convolutions to time among other candidates: from a name to `(function, its operations)`.

    A chain takes about as long as a training step, so that the machine's slow moments hit both alike.
    """
    candidates = {}
    for batch, side, channels in SHAPES:
        x = tf.random.normal([batch, side, side, channels])
        w = tf.random.normal([3, 3, channels, channels]) / (3 * channels**0.5)
        operations = 2 * 9 * channels * channels * side * side * batch
        length = round(CHAIN / operations)

        @tf.function
        def convolve(x=x, w=w, length=length):
            for _ in range(length):
                x = tf.nn.conv2d(x, w, 1, "SAME")
            return tf.reduce_max(x)

        name = f"convolution {batch}x{side}x{side}x{channels}"
        candidates[name] = (lambda f=convolve: f().numpy(), length * operations)
    return candidates


def peak_of(best: dict, candidates: dict) -> float:
    """The highest rate among the candidates' best times, in floating-point operations a second."""
    return max(operations / best[name] for name, (_, operations) in candidates.items())
