"""Gradients with respect to images, the loops that climb them, and Adam; shared by attacks and training."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from athe_tf.models.victim import Victim
from athe_tf.threat import flat
from athe_tf.utils import replicas
from athe_tf.utils.errors import NoGradients
from athe_tf.utils.where import where_rows

# The decays of Adam.
MEAN_DECAY, SQUARE_DECAY = 0.9, 0.999


def gradient_of(objective, x):
    """`(outputs, gradient, faults)` of a function from images to `(loss per example, outputs)`.

    Only the input is watched, so no weight gradient is computed. Entries that are not finite are replaced by
    zero, because one NaN would poison every later iterate; `faults` as in `finite_gradient`.
    """
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(x)
        loss, outputs = objective(x)
    return outputs, *finite_gradient(tape.gradient(loss, x))


def mean_gradient(objective, x, samples: int):
    """As `gradient_of`, averaged over several passes through a randomized model.

    The outputs must be floating-point tensors: they are averaged too. A loop in the graph, so that neither
    the graph nor the memory grows with the number of samples.
    """
    if samples == 1:
        return gradient_of(objective, x)

    def body(i, outputs, gradient, faults):
        more, slope, bad = gradient_of(objective, x)
        outputs = [a + b / samples for a, b in zip(outputs, more, strict=True)]
        return i + 1, outputs, gradient + slope / samples, faults + bad

    first, slope, bad = gradient_of(objective, x)
    loop = (1, [output / samples for output in first], slope / samples, bad)
    return tf.while_loop(lambda i, *_: i < samples, body, loop, parallel_iterations=1)[1:]


def finite_gradient(gradient):
    """`(gradient, faults)`: what a tape returned, with zeros in place of entries that are not finite.

    `faults` has two columns, 0 or 1 for each image: a gradient that was not finite, and one that was zero.
    """
    gradient = existing_gradient(gradient)
    length = tf.reduce_sum(tf.abs(flat(gradient)), axis=1)
    finite = tf.math.is_finite(length)
    faults = tf.stack([~finite, length == 0], axis=1)

    def repaired():
        # Four times as fast as `tf.where`.
        return tf.math.multiply_no_nan(gradient, tf.cast(tf.math.is_finite(gradient), gradient.dtype))

    gradient = tf.cond(tf.reduce_all(finite), lambda: tf.identity(gradient), repaired)
    return gradient, tf.cast(faults, tf.int32)


def existing_gradient(gradient):
    """What a tape returned; raises `NoGradients` if that is nothing."""
    if gradient is None:
        raise NoGradients(
            "The model's output does not depend differentiably on its input, so no gradient attack can be "
            "run on it. Look for rounding, tf.stop_gradient or a cast to integers in it, or use a black-box "
            "attack."
        )
    return gradient


def input_gradient(loss, x):
    """`(losses, gradient of their sum)` at `x`, for a function from images to one value per example.

    An outer tape can differentiate both: that is a second derivative.
    """
    x = tf.convert_to_tensor(x)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(x)
        losses = loss(x)
    return losses, existing_gradient(tape.gradient(losses, x))


def inner_product(a, b):
    """The inner product of two batches of images; one value per example."""
    return tf.reduce_sum(a * b, axis=[1, 2, 3])


def repeated(body, state: Sequence, times: int, victim: Victim) -> Sequence:
    """`state` after `body` was applied to it `times` times.

    A loop in the graph, so that `body` is traced once. Replicas cannot communicate inside such a loop, which
    batch normalization in training mode makes them do: then the loop is unrolled.
    """
    if replicas.count() > 1 and not victim.independent:
        for _ in range(times):
            state = body(*state)
        return state
    return tf.while_loop(lambda *_: True, body, state, maximum_iterations=times, parallel_iterations=1)


def best_round(climb, rounds: int, score, x, victim: Victim):
    """`(images, flags)`: for each example, the image of the round with the highest score; for training.

    Args:
        climb: From the index of a round to images and their flags of `gradient_health`.
        rounds: Number of rounds. A single one needs no comparison.
        score: From images to one value per example.
        x: The clean images, for examples whose scores are all NaN.
        victim: The attacked model.
    """
    if rounds == 1:
        return climb(0)

    def body(round_index, best, best_score, flags):
        x_adv, more = climb(round_index)
        new_score = score(x_adv)
        best = where_rows(new_score > best_score, x_adv, best)
        return round_index + 1, best, tf.maximum(new_score, best_score), flags | more

    lowest = tf.fill(tf.shape(x)[:1], tf.constant(-float("inf"), x.dtype))
    _, best, _, flags = repeated(body, (0, x, lowest, tf.zeros(tf.shape(x)[:1], tf.int32)), rounds, victim)
    return best, flags


class Adam(NamedTuple):
    """The running averages of a gradient and of its square (Kingma and Ba, 2015).

    Example:

    >>> adam = Adam(0.0, 0.0).updated(tf.constant(2.0))
    >>> mean, root = adam.unbiased(1.0)
    >>> round(float(mean / root), 3)
    1.0
    """

    mean: Any
    square: Any

    def updated(self, gradient) -> "Adam":
        """The averages after one more gradient."""
        return Adam(
            MEAN_DECAY * self.mean + (1 - MEAN_DECAY) * gradient,
            SQUARE_DECAY * self.square + (1 - SQUARE_DECAY) * tf.square(gradient),
        )

    def unbiased(self, updates, epsilon: float = 1e-8):
        """`(mean, root of the mean square)` without the bias of their start at zero; a step is their ratio.

        Args:
            updates: How many gradients went into the averages.
            epsilon: Added to the root.
        """
        mean = self.mean / (1 - MEAN_DECAY**updates)
        return mean, tf.sqrt(self.square / (1 - SQUARE_DECAY**updates)) + epsilon


def adam_memory(x) -> list:
    """What `adam_direction` starts with: both means, and the number of updates of each example."""
    return [tf.zeros_like(x), tf.zeros_like(x), tf.zeros_like(x[:, :1, :1, :1])]


def adam_direction(gradient, memory: list, epsilon: float = 1e-8):
    """`(direction, memory)` of an update by Adam at rate 1."""
    mean, square, updates = memory
    adam, updates = Adam(mean, square).updated(gradient), updates + 1.0
    unbiased, root = adam.unbiased(updates, epsilon)
    return unbiased / root, [*adam, updates]
