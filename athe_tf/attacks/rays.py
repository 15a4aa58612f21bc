"""RayS: the nearest decision boundary along a corner of the cube, from labels alone."""

import math
from typing import Any, NamedTuple

import tensorflow as tf

from athe_tf.attacks.black_box import query_budget
from athe_tf.attacks.engine.arguments import check_positive
from athe_tf.attacks.engine.loop import shrinking_loop
from athe_tf.attacks.engine.results import Costs, RoundResult, misclassified
from athe_tf.attacks.minimum_norm import MinimumNormAttack
from athe_tf.models.victim import Victim
from athe_tf.threat import per_example
from athe_tf.utils.where import where_rows


class Search(NamedTuple):
    """The state of the search of every image; one row per image."""

    signs: Any  # the best direction; a byte each, because the state is copied in every iteration
    radius: Any  # at which it was found adversarial
    norm: Any  # of the perturbation there
    low: Any  # lower end of the binary search
    searching: Any  # whether a binary search is in progress
    accepted: Any  # whether it has improved the best direction, so that `signs` are flipped already
    level: Any  # of the block that is flipped
    block: Any  # its number


class RayS(MinimumNormAttack):
    """Ray searching (Chen and Gu, 2020): hard labels only, linf.

    A direction is a sign for each pixel and channel. The attack flips the signs of a block: first of the
    whole image, then of its halves, its quarters, and so on down to single entries. If the image at the
    best distance so far is adversarial in the new direction too, a binary search finds the distance of the
    boundary there, and the direction is kept if it is nearer. Blocks are contiguous channel by channel,
    as in the reference.

    `AttackResult.norm` is the smallest linf distance found, also above epsilon: its mean over the images is
    the ADBD, the average decision boundary distance. With `stop_on_success`, as evaluation uses it, an image
    is done as soon as it is adversarial within epsilon, and `norm` is an upper bound.

    Every predicted label is a query, those of the binary search included. Each image is at its own place in
    its search: no probe is spent to wait for others.

    Example:

    >>> result = athe_tf.attacks.get("rays-1000", epsilon=0.031).run(model, x, y)
    >>> adbd = RayS(0.031, n_queries=1000, stop_on_success=False).run(model, x, y).norm.mean()

    Args:
        epsilon: Radius at which the images found are counted, in pixels of [0, 1].
        norm: `"linf"`.
        n_queries: Largest number of queries per image, including the clean one; the number in `"rays-10000"`.
            Defaults to 10,000.
        stop_on_success: Finish an image once it is adversarial within epsilon. Defaults to `True`.
        tolerance: Where a binary search ends, in the Euclidean length of the perturbation, as in the
            reference: `tolerance / sqrt(entries)` in linf. Defaults to 0.001.

    Reference: https://arxiv.org/abs/2006.12792
    """

    name = "rays"
    norms = ("linf",)
    number_argument = "n_queries"

    def __init__(
        self,
        epsilon,
        norm="linf",
        *,
        n_queries: int = 10_000,
        stop_on_success: bool = True,
        tolerance: float = 1e-3,
    ):
        self.n_queries = query_budget(n_queries, minimum=2)
        super().__init__(epsilon, norm, steps=self.n_queries - 1)  # one query went to the clean image
        check_positive(tolerance=tolerance)
        self.stop_on_success, self.tolerance = stop_on_success, tolerance

    def costs(self, victim: Victim) -> Costs:
        return Costs(self.steps, after=int(self.clip_to_epsilon))

    def run_round(self, victim: Victim, x, y, ids, seed, round_index) -> RoundResult:
        """One search. Every iteration is one probe of every image, wherever it is in its search."""
        size = math.prod(x.shape[1:])
        blocks = Blocks(x.shape[1:])
        tolerance = self.tolerance / math.sqrt(size)

        def body(i, s: Search, constants):
            images, labels = constants
            # Until a flip is accepted, the direction that is searched is the best one, flipped.
            flipped = blocks.flip(s.signs, s.level, s.block)
            direction = where_rows(s.accepted, s.signs, flipped)
            # At a radius of 1 every pixel is at the edge of the box: as good as infinite.
            high = tf.minimum(s.radius, 1.0)
            probe_radius = tf.where(s.searching, (s.low + high) / 2, high)
            probe = _along(images, direction, probe_radius)
            wrong = misclassified(victim.logits(probe), labels)
            nearer = wrong & (probe_radius < s.radius)
            radius = tf.where(nearer, probe_radius, s.radius)
            norm = tf.where(nearer, self.threat.distance(images, probe), s.norm)
            low = tf.where(s.searching & ~wrong, probe_radius, s.low)
            searching = s.searching | wrong
            next_block = ~searching | (tf.minimum(radius, 1.0) - low <= tolerance)
            searching &= ~next_block
            level, block = blocks.next(s.level, s.block, next_block)
            state = Search(
                signs=where_rows(nearer, direction, s.signs),
                radius=radius,
                norm=norm,
                low=tf.where(searching, low, 0.0),
                searching=searching,
                accepted=searching & (s.accepted | nearer),
                level=level,
                block=block,
            )
            return state, self.threat.within(norm) if self.stop_on_success else tf.zeros_like(wrong)

        zeros = tf.zeros(tf.shape(x)[:1], tf.int32)
        nowhere = tf.fill(tf.shape(zeros), float("inf"))
        none = zeros > 0
        signs = tf.ones_like(x, tf.int8)
        start = Search(signs, nowhere, nowhere, tf.zeros_like(nowhere), none, none, zeros, zeros)
        loop = shrinking_loop(body, start, [x, y], self.steps)
        end = loop.state
        nearest = _along(x, end.signs, tf.minimum(end.radius, 1.0))
        found = where_rows(tf.math.is_finite(end.radius), nearest, x)
        return self.outcome(victim, x, y, found, end.norm, loop)


def _along(images, signs, radius):
    return tf.clip_by_value(images + per_example(radius) * tf.cast(signs, tf.float32), 0.0, 1.0)


class Blocks:
    """The dyadic divisions of an image `[height, width, channels]`.

    At level l there are 2^l blocks of entries, channel by channel.
    """

    def __init__(self, shape):
        self.size = math.prod(shape)
        height, width, channels = shape
        # The place of an entry of [H, W, C] if channels came first.
        order = tf.reshape(tf.range(self.size), [channels, height, width])
        self.place = tf.transpose(order, [1, 2, 0])
        # From this level on blocks are single entries, which the search visits repeatedly.
        self.last_level = (self.size - 1).bit_length()

    def flip(self, signs, level, block):
        """`signs`, flipped in one block; level and block are the image's own."""
        size = self._block_size(level)
        start = per_example(block * size)
        inside = (start <= self.place) & (self.place < start + per_example(size))
        return tf.where(inside, -signs, signs)

    def next(self, level, block, done):
        """`(level, block)` of the next block, for the images that are done with theirs."""
        block = tf.where(done, block + 1, block)
        finished = block * self._block_size(level) >= self.size
        deeper = tf.minimum(level + 1, self.last_level)
        return tf.where(finished, deeper, level), tf.where(finished, 0, block)

    def _block_size(self, level):
        count = tf.bitwise.left_shift(tf.ones_like(level), level)
        return (self.size + count - 1) // count
