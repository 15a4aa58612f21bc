"""Spatial: rotations and translations, on a grid or at random."""

import math

import numpy as np
import tensorflow as tf

from athe_tf.attacks.black_box import BlackBoxAttack
from athe_tf.attacks.engine.arguments import check_at_least
from athe_tf.attacks.engine.loop import shrinking_loop
from athe_tf.attacks.engine.results import Costs
from athe_tf.models.victim import Victim
from athe_tf.utils import rng
from athe_tf.utils.errors import check
from athe_tf.utils.where import where_rows

# The share of an image's side: the 3 pixels of 32 that Engstrom et al. allow on CIFAR-10.
TRANSLATION = 3 / 32
GRID = (5, 5, 31)


def transformed(images, down, right, degrees):
    """Images rotated about their centers, counter-clockwise, and then moved.

    Bilinear, in one pass, with black outside. Without rotation and translation an image is unchanged,
    bit for bit.

    Args:
        images: `[N, H, W, C]`.
        down: Pixels, `[N]`.
        right: Pixels, `[N]`.
        degrees: `[N]`.
    """
    angle = degrees * (math.pi / 180)
    cosine, sine = tf.cos(angle), tf.sin(angle)
    middle_y, middle_x = ((length - 1) / 2 for length in images.shape[1:3])
    # The operation asks where each pixel of the result comes from.
    from_x, from_y = middle_x + right, middle_y + down
    x_row = [cosine, -sine, middle_x - (cosine * from_x - sine * from_y)]
    y_row = [sine, cosine, middle_y - (sine * from_x + cosine * from_y)]
    perspective = [tf.zeros_like(angle)] * 2
    moved = tf.raw_ops.ImageProjectiveTransformV3(
        images=images,
        transforms=tf.stack([*x_row, *y_row, *perspective], axis=1),
        output_shape=tf.shape(images)[1:3],
        fill_value=0.0,
        interpolation="BILINEAR",
        fill_mode="CONSTANT",
    )
    return tf.clip_by_value(tf.ensure_shape(moved, images.shape), 0.0, 1.0)


class Spatial(BlackBoxAttack):
    """Rotations and translations (Engstrom et al., 2019): small moves that no lp ball contains.

    This is a threat model of its own. `epsilon` and `norm` do not enter; they are taken so that all
    attacks can be made in one way. `AttackResult.norm` is the larger share, in [0, 1], that a move takes
    of its limits on rotation and translation; as everywhere, 0 for images that are wrong from the start and
    infinite for those that no move fooled.

    `"spatial"` goes over a grid of 5 x 5 translations and 31 rotations, the farthest moves first;
    `"spatial-10"` is the worst of 10 random moves, each image's own. An image is done when a move fools
    the model; the call, which gives an image for every example, gives the one with the largest margin.

    Rotation and translation are one bilinear interpolation; the reference interpolates twice, and blurs.

    Example:

    >>> result = athe_tf.attacks.get("spatial", epsilon=0).run(model, x, y)

    Args:
        epsilon: Not used. Defaults to 0.
        norm: Not used.
        steps: Number of random moves; by default the grid is searched.
        rotation: Largest rotation either way, in degrees. Defaults to 30.
        translation: Largest translation either way, in pixels. Defaults to 3/32 of each side: 3 pixels on
            CIFAR-10.
        grid: Numbers of translations down, translations to the right, and rotations. Defaults to (5, 5, 31).

    Reference: https://arxiv.org/abs/1712.02779
    """

    name = "spatial"
    in_ball = False
    measures_size = True

    def __init__(
        self,
        epsilon=0.0,
        norm="linf",
        *,
        steps: int | None = None,
        rotation: float = 30.0,
        translation: float | None = None,
        grid: tuple[int, int, int] = GRID,
    ):
        super().__init__(epsilon, norm)
        check_at_least(1, steps=steps)
        check_at_least(0, translation=translation)
        check(0 <= rotation <= 180, f"`rotation` must lie in [0, 180]. Received: rotation={rotation}.")
        valid = len(grid) == 3 and min(grid) >= 1
        check(valid, f"`grid` must be three positive numbers. Received: grid={grid}.")
        self.steps = None if steps is None else int(steps)
        self.rotation, self.translation, self.grid = rotation, translation, tuple(grid)

    def limits(self, shape) -> np.ndarray:
        """The largest moves `[down, right, degrees]` for images `[N, H, W, C]`."""
        sides = [TRANSLATION * side if self.translation is None else self.translation for side in shape[1:3]]
        return np.array([*sides, self.rotation], np.float32)

    def moves(self) -> np.ndarray:
        """The grid, in shares of the limits, `[K, 3]`; the farthest first, for they fool most often."""
        axes = [np.linspace(-1, 1, count) if count > 1 else np.zeros(1) for count in self.grid]
        grid = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
        order = np.argsort(-np.linalg.norm(grid, axis=1), kind="stable")
        return grid[order].astype(np.float32)

    def search(self, victim: Victim, x, y, ids, seed):
        limits = tf.constant(self.limits(x.shape))
        grid = tf.constant(self.moves())

        def body(i, state, constants):
            best, _, best_margin, best_share = state
            images, labels, names = constants
            if self.steps is None:
                shares = tf.tile(grid[i : i + 1], [tf.shape(images)[0], 1])
            else:
                shares = rng.uniform(rng.fold(seed, i), names, (3,))
            candidate = transformed(images, *tf.unstack(shares * limits, axis=1))
            margin, wrong = self.margin_and_success(victim, candidate, labels)
            better = wrong | (margin > best_margin)
            share = tf.reduce_max(tf.abs(shares) * tf.cast(limits > 0, tf.float32), axis=1)
            best = where_rows(better, candidate, best)
            best_margin = tf.where(better, margin, best_margin)
            best_share = tf.where(better, share, best_share)
            return [best, wrong, best_margin, best_share], wrong

        margins = tf.fill(tf.shape(x)[:1], -float("inf"))
        state = [x, margins > 0, margins, tf.zeros_like(margins)]
        return shrinking_loop(body, state, [x, y, ids], self.costs(victim).steps)

    def costs(self, victim: Victim) -> Costs:
        return Costs(math.prod(self.grid) if self.steps is None else self.steps, after=0)
