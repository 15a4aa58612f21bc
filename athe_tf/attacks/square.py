"""Square: random search over square patches, in linf, l2 and l1."""

import math

import numpy as np
import tensorflow as tf

from athe_tf.attacks.black_box import BlackBoxAttack, query_budget
from athe_tf.attacks.engine.arguments import check_at_least
from athe_tf.attacks.engine.loop import shrinking_loop
from athe_tf.attacks.engine.results import Costs
from athe_tf.models.victim import Victim
from athe_tf.threat import TINY
from athe_tf.utils import rng
from athe_tf.utils.errors import check
from athe_tf.utils.where import where_pixels, where_rows

# The share of the image that a window covers is halved after each of these iterations.
HALVED_AFTER = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)
SCHEDULE_LENGTH = 10_000

# Independent random sequences of one iteration.
WINDOW, OTHER_WINDOW, SIGNS, TURNED = range(4)

# A start of 5 x 5 tiles in l2 and l1.
TILES = 5


class Square(BlackBoxAttack):
    """Square attack (Andriushchenko et al., 2020): random search, one patch at a time.

    In linf the start is vertical stripes of +-epsilon. Every iteration sets a random square window to
    +-epsilon, one sign per channel, and keeps the change if the margin grows. In l2 and l1 the start is a
    grid of tiles, each a hill and a valley; an iteration takes the perturbation out of one window and puts
    it, reshaped by such a pair, into another. Windows shrink with time. The result does not depend on scale
    or shift of the logits, and masked gradients do not matter.

    Every image has its own windows, which may touch all edges. `shared_window=True` does as AutoAttack
    does: one window for all images of an iteration, in linf one sign too, and never in the last row or
    column.

    On small images, with less than 10 pixels on the shorter side, the tiles of the l2 and l1 start are single
    pixels and cover the image; with less than 3, windows are as wide as that side.

    Example:

    >>> result = athe_tf.attacks.get("square-1000", epsilon=8 / 255).run(model, x, y)
    >>> mean_queries = result.queries[result.success].mean()

    Args:
        epsilon: Radius of the ball, in pixels of [0, 1].
        norm: `"linf"` (default), `"l2"` or `"l1"`.
        n_queries: Iterations of one restart, one query per image each, as AutoAttack counts; the number in
            `"square-5000"`. The clean image and the start take one query each on top. Defaults to 5000.
        p_init: Share of the image that the first windows cover. Defaults to 0.8, as in AutoAttack.
        rescale_schedule: Rescale the schedule, which is made for 10,000 iterations, to `n_queries`. Defaults
            to `False`, as in AutoAttack.
        restarts: Number of searches that are tried until one succeeds. Defaults to 1.
        shared_window: One window for all images of an iteration. Defaults to `False`.
        targeted: Take `y` as the classes to reach, by their margin; the released code climbs cross-entropy
            there. Defaults to `False`.

    Reference: https://arxiv.org/abs/1912.00049
    """

    name = "square"
    number_argument = "n_queries"

    def __init__(
        self,
        epsilon,
        norm="linf",
        *,
        n_queries: int = 5000,
        p_init: float = 0.8,
        rescale_schedule: bool = False,
        restarts: int = 1,
        shared_window: bool = False,
        targeted: bool = False,
    ):
        super().__init__(epsilon, norm, targeted)
        check(0 < p_init <= 1, f"`p_init` must lie in (0, 1]. Received: p_init={p_init}.")
        check_at_least(1, restarts=restarts)
        self.n_queries = query_budget(n_queries, minimum=1)
        self.p_init, self.rescale_schedule, self.restarts = p_init, rescale_schedule, int(restarts)
        self.shared_window = shared_window

    def search(self, victim: Victim, x, y, ids, seed):
        moves = (Patches if math.isinf(self.threat.order) else Hills)(self, x.shape[1:])

        def body(i, state, constants):
            best, _, best_margin = state
            images, labels, names = constants
            candidate = tf.cond(
                i == 0,
                lambda: best,
                lambda: moves.propose(images, best, names, rng.fold(seed, i), self.stage(i - 1)),
            )
            margin, wrong = self.margin_and_success(victim, candidate, labels)
            better = wrong | (margin > best_margin)
            best = where_rows(better, candidate, best)
            best_margin = tf.where(better, margin, best_margin)
            return [best, wrong, best_margin], wrong

        nothing = tf.fill(tf.shape(x)[:1], -float("inf"))
        start = moves.start(x, ids, rng.fold(seed, 0))
        state = [start, nothing > 0, nothing]
        return shrinking_loop(body, state, [x, y, ids], self.costs(victim).steps)

    def costs(self, victim: Victim) -> Costs:
        return Costs(self.n_queries + 1, after=0)  # the start is the first candidate

    def stage(self, iteration):
        """How many times the area of the windows has been halved."""
        if self.rescale_schedule:
            iteration = iteration * SCHEDULE_LENGTH // self.n_queries
        return tf.reduce_sum(tf.cast(iteration > tf.constant(HALVED_AFTER), tf.int32))


class Windows:
    """Squares in an image `[height, width, channels]`: how large at each stage, and where."""

    smallest = 1

    def __init__(self, attack: Square, shape):
        self.height, self.width, self.channels = shape
        self.threat = attack.threat
        self.shared = attack.shared_window
        self.sides = [self._side(attack.p_init / 2**stage) for stage in range(len(HALVED_AFTER) + 1)]

    def _side(self, share: float) -> int:
        side = max(round(math.sqrt(share * self.height * self.width)), self.smallest)
        return min(self.fitted(side), self.height, self.width)

    def fitted(self, side: int) -> int:
        """The side that is used in place of this one."""
        return side

    def draw(self, ids, seed, side, stream: int):
        """A window per image, and positions seen from its corner: `(inside [n, H, W, 1], rows, columns)`."""
        names = tf.zeros_like(ids) if self.shared else ids
        where = rng.uniform(seed, names, (2,), 0.0, 1.0, stream)
        rows, columns = (
            tf.range(length) - self._corner(where[:, axis : axis + 1], length - side)
            for axis, length in enumerate((self.height, self.width))
        )
        inside_rows, inside_columns = ((place >= 0) & (place < side) for place in (rows, columns))
        inside = inside_rows[:, :, tf.newaxis, tf.newaxis] & inside_columns[:, tf.newaxis, :, tf.newaxis]
        return inside, rows, columns

    def _corner(self, uniform, room):
        # AutoAttack draws from `room` places, so that its windows never reach the last row and column.
        places = room if self.shared else room + 1
        corner = tf.cast(uniform * tf.cast(places, tf.float32), tf.int32)
        return tf.clip_by_value(corner, 0, tf.maximum(places - 1, 0))  # the product may round up


class Patches(Windows):
    """The moves in linf: windows of one color, at the full distance."""

    def start(self, x, ids, seed):
        """Vertical stripes."""
        return self.threat.stretch(x, rng.rademacher(seed, ids, (1, self.width, self.channels), SIGNS))

    def propose(self, images, best, ids, seed, stage):
        """`best` with a window of another color."""
        inside, _, _ = self.draw(ids, seed, tf.gather(self.sides, stage), WINDOW)
        names = tf.zeros_like(ids) if self.shared else ids
        signs = rng.rademacher(seed, names, (1, 1, self.channels), SIGNS)
        return where_pixels(inside, self.threat.stretch(images, signs), best)


class Hills(Windows):
    """The moves in l2 and l1: windows that each hold a hill and a valley."""

    smallest = 3

    def __init__(self, attack: Square, shape):
        super().__init__(attack, shape)
        largest = max(self.sides)
        self.shapes = np.zeros((len(self.sides), largest, largest), np.float32)
        for stage, side in enumerate(self.sides):
            self.shapes[stage, :side, :side] = hill_and_valley(side, self.threat.order)

    def fitted(self, side: int) -> int:
        return side + 1 - side % 2  # odd, so that a hill has a middle

    def start(self, x, ids, seed):
        """Tiles of random sign and orientation, as many as fit."""
        side = max(min(self.height, self.width) // TILES, 1)
        down, across = self.height // side, self.width // side
        tile = hill_and_valley(side, self.threat.order)
        upright, turned = (np.tile(t, (down, across))[:, :, np.newaxis] for t in (tile, tile.T))

        def drawn(channels, stream):
            signs = rng.rademacher(seed, ids, (down, across, channels), stream)
            return tf.repeat(tf.repeat(signs, side, axis=1), side, axis=2)

        tiles = drawn(self.channels, SIGNS) * tf.where(drawn(1, TURNED) > 0, upright, turned)
        spare = self.height - down * side, self.width - across * side
        margins = [[pixels // 2, pixels - pixels // 2] for pixels in spare]
        return self.threat.stretch(x, tf.pad(tiles, [[0, 0], *margins, [0, 0]]))

    def propose(self, images, best, ids, seed, stage):
        """`best` with the perturbation of one window moved into another."""
        side, length = tf.gather(self.sides, stage), self.threat.length
        target, rows, columns = self.draw(ids, seed, side, WINDOW)
        source, _, _ = self.draw(ids, seed, side, OTHER_WINDOW)
        delta = best - images
        there = tf.where(target, delta, 0.0)
        signs = rng.rademacher(seed, ids, (1, 1, self.channels), SIGNS)
        turned = rng.rademacher(seed, tf.zeros_like(ids) if self.shared else ids, (1, 1), TURNED) > 0
        hill = tf.where(target, signs * self._hill(stage, rows, columns, turned), 0.0)
        new = hill + there / (length(there, [1, 2]) + TINY)
        new *= self._available(delta, target | source) / (length(new, [1, 2]) + TINY)
        delta = tf.where(target, new, tf.where(source, 0.0, delta))
        return self.threat.stretch(images, delta)

    def _hill(self, stage, rows, columns, turned):
        """The pair of a stage, placed where each image has its window, `[n, H, W, 1]`."""
        largest = self.shapes.shape[-1]
        rows, columns = (tf.clip_by_value(place, 0, largest - 1) for place in (rows, columns))
        rows, columns = rows[:, :, tf.newaxis], columns[:, tf.newaxis, :]
        index = tf.where(turned, columns * largest + rows, rows * largest + columns)
        flat = tf.reshape(tf.gather(self.shapes, stage), [-1])
        return tf.gather(flat, index)[..., tf.newaxis]

    def _available(self, delta, windows):
        """How long a channel of the new window may be: what both windows held, and what was never used."""
        power, length = self.threat.order, self.threat.length
        held = length(tf.where(windows, delta, 0.0), [1, 2]) ** power
        unused = tf.maximum(self.threat.epsilon**power - length(delta, [1, 2, 3]) ** power, 0.0)
        available = unused / self.channels + held
        # AutoAttack's l1 takes more than is available; the projection shortens it, and makes it sparse.
        return tf.sqrt(available) if power == 2 else available * self.channels


def hill_and_valley(side: int, order: float) -> np.ndarray:
    """`[side, side]` of length one in the l2 or l1 norm (`order` 2 or 1): a hill above, a valley below.

    Either is a sum of concentric squares, whose heights fall with their size: with its square in l2, with
    its fourth power in l1.

    Example:

    >>> hill_and_valley(1, 2)
    array([[-1.]], dtype=float32)
    """
    upper = side // 2
    shape = np.concatenate([_hill(upper, side, order), -_hill(side - upper, side, order)], axis=0)
    return (shape / np.linalg.norm(shape.ravel(), order)).astype(np.float32)


def _hill(height: int, width: int, order: float) -> np.ndarray:
    down = abs(np.arange(height) - height // 2)[:, np.newaxis]
    across = abs(np.arange(width) - width // 2)[np.newaxis, :]
    squares = 1.0 / np.arange(1, max(height, width) // 2 + 2) ** (4 // order)
    # A point lies in every square that reaches as far as it.
    height_at = np.cumsum(squares[::-1])[::-1]
    hill = height_at[np.maximum(down, across)]
    return hill / np.linalg.norm(hill.ravel(), order) if hill.size else hill
