"""RayS: the nearest decision boundary along a corner of the cube, from labels alone."""

import math

import tensorflow as tf

from athe_tf.attacks.black_box import query_budget
from athe_tf.attacks.engine.active_set import shrinking_loop
from athe_tf.attacks.engine.results import Attempt, misclassified
from athe_tf.attacks.engine.victim import Victim
from athe_tf.attacks.minimum_norm import MinimumNormAttack
from athe_tf.threat import per_example
from athe_tf.utils.errors import check


class RayS(MinimumNormAttack):
    """Ray searching (Chen and Gu, 2020): hard labels only, linf.

    A direction is a sign for each pixel and channel. The attack flips the signs of a block: first of the
    whole image, then of its halves, its quarters, and so on down to single entries. If the image at the
    best distance so far is adversarial in the new direction too, a binary search finds how near the
    boundary is there, and the direction is kept if it is nearer. Blocks are contiguous channel by channel,
    as in the reference.

    `AttackResult.norm` is the smallest linf distance found, above epsilon too: its mean over the images is
    the ADBD, the average decision boundary distance. With `stop_on_success`, which evaluation wants, an image
    is done as soon as it is adversarial within epsilon, and `norm` is an upper bound.

    Every label that is asked for is a query, those of the binary search included, and each image walks at its
    own pace: no probe is spent to wait for others.

    Example:

    >>> result = athe_tf.attacks.get("rays", epsilon=0.031).run(model, x, y)
    >>> adbd = athe_tf.attacks.RayS(epsilon=0.031, stop_on_success=False).run(model, x, y).norm.mean()

    Args:
        epsilon: Radius at which the images found are counted, in pixels of [0, 1].
        norm: `"linf"`.
        n_queries: Most queries of an image, the clean one included. Defaults to 10,000.
        steps: The same; what the number in `"rays-10000"` sets.
        stop_on_success: Let an image go once it is adversarial within epsilon. Defaults to `True`.
        tolerance: Where a binary search ends, in the Euclidean length of the perturbation, as in the
            reference: `tolerance / sqrt(entries)` in linf. Defaults to 0.001.

    Reference: https://arxiv.org/abs/2006.12792
    """

    name = "rays"
    norms = ("linf",)

    def __init__(
        self,
        epsilon,
        norm="linf",
        *,
        n_queries: int = 10_000,
        steps: int | None = None,
        stop_on_success: bool = True,
        tolerance: float = 1e-3,
    ):
        self.n_queries = query_budget(n_queries, steps, least=2)
        super().__init__(epsilon, norm, steps=self.n_queries - 1)  # one query went to the clean image
        check(tolerance > 0, f"`tolerance` must be positive. Received: tolerance={tolerance}.")
        self.stop_on_success = stop_on_success
        self.tolerance = tolerance

    def attempt(self, victim: Victim, x, y, ids, seed, round_index) -> Attempt:
        """One search. Every iteration is one probe of every image, wherever it is in its search."""
        size = math.prod(x.shape[1:])
        blocks = Blocks(x.shape[1:])
        tolerance = self.tolerance / math.sqrt(size)

        def body(i, state, constants):
            signs, radius, norm, low, searching, taken, level, block, queries = state
            images, labels = constants
            # Until a flip is taken, the direction that is searched is the best one, flipped.
            flipped = blocks.flip(signs, level, block)
            direction = tf.where(per_example(taken), signs, flipped)
            # At a radius of 1 every pixel is at the end of the box: as good as infinite.
            high = tf.minimum(radius, 1.0)
            probe_radius = tf.where(searching, (low + high) / 2, high)
            probe = _along(images, direction, probe_radius)
            wrong = misclassified(victim.logits(probe), labels)
            nearer = wrong & (probe_radius < radius)
            signs = tf.where(per_example(nearer), direction, signs)
            radius = tf.where(nearer, probe_radius, radius)
            norm = tf.where(nearer, self.threat.distance(images, probe), norm)
            low = tf.where(searching & ~wrong, probe_radius, low)
            searching |= wrong
            next_block = ~searching | (tf.minimum(radius, 1.0) - low <= tolerance)
            level, block = blocks.next(level, block, next_block)
            searching &= ~next_block
            state = [
                signs,
                radius,
                norm,
                tf.where(searching, low, 0.0),
                searching,
                searching & (taken | nearer),
                level,
                block,
                queries + 1,
            ]
            done = self.within(norm) if self.stop_on_success else tf.zeros_like(wrong)
            return state, done

        zeros = tf.zeros(tf.shape(x)[:1], tf.int32)
        nowhere = tf.fill(tf.shape(zeros), float("inf"))
        none = zeros > 0
        # Signs fit a byte; the state of every image travels through every iteration.
        state = [tf.ones_like(x, tf.int8), nowhere, nowhere, tf.zeros_like(nowhere), none, none]
        signs, radius, norm, *_, queries = shrinking_loop(
            body, [*state, zeros, zeros, zeros], [x, y], self.steps
        )
        found = tf.where(per_example(tf.math.is_finite(radius)), _along(x, signs, tf.minimum(radius, 1.0)), x)
        gradients = tf.zeros_like(queries)
        return self.outcome(victim, x, y, found, norm, queries, gradients, gradients)

    def settings(self) -> dict:
        settings = super().settings() | {
            name: getattr(self, name) for name in ("n_queries", "stop_on_success", "tolerance")
        }
        del settings["steps"], settings["clip_to_epsilon"]
        return settings


def _along(images, signs, radius):
    return tf.clip_by_value(images + per_example(radius) * tf.cast(signs, tf.float32), 0.0, 1.0)


class Blocks:
    """The dyadic divisions of an image: at level l there are 2^l blocks of entries, channel by channel.

    Args:
        shape: `[height, width, channels]`.
    """

    def __init__(self, shape):
        self.size = math.prod(shape)
        height, width, channels = shape
        # Where an entry of [H, W, C] stands when channels come first.
        order = tf.reshape(tf.range(self.size), [channels, height, width])
        self.place = tf.transpose(order, [1, 2, 0])
        # From this level on blocks are single entries, and the search goes over them again and again.
        self.last_level = (self.size - 1).bit_length()

    def flip(self, signs, level, block):
        """`signs` with those of one block turned; level and block are the image's own."""
        size = self._block_size(level)
        start = per_example(block * size)
        inside = (start <= self.place) & (self.place < start + per_example(size))
        return tf.where(inside, -signs, signs)

    def next(self, level, block, moves):
        """`(level, block)` of the next block, for the images that move on."""
        block = tf.where(moves, block + 1, block)
        finished = block * self._block_size(level) >= self.size
        deeper = tf.minimum(level + 1, self.last_level)
        return tf.where(finished, deeper, level), tf.where(finished, 0, block)

    def _block_size(self, level):
        count = tf.bitwise.left_shift(tf.ones_like(level), level)
        return (self.size + count - 1) // count
