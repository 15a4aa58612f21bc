"""The loss on a plane through the weights, or through the pixels."""

import dataclasses

import numpy as np
import tensorflow as tf

from athe_tf.analysis import drawing
from athe_tf.analysis.directions import filter_normalized, random_signs
from athe_tf.analysis.hessian import adversarial_loss, eigenpairs
from athe_tf.analysis.options import AnalysisOptions
from athe_tf.analysis.result import AnalysisResult
from athe_tf.analysis.subject import Subject
from athe_tf.attacks import losses
from athe_tf.utils.errors import check, check_choice, check_integer

SPACES = {"weights": ("random", "eigenvectors"), "pixels": ("attack", "random")}
UNITS = {
    ("weights", "random"): "random direction {} (times filter length)",
    ("weights", "eigenvectors"): "eigenvector {} (unit length in weights)",
    ("pixels", "attack"): "{} direction (pixels of [0, 1])",
    ("pixels", "random"): "random sign direction {} (pixels of [0, 1])",
}


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Landscape(AnalysisResult):
    """The mean loss on a grid; made by `landscape`.

    Example:

    >>> athe_tf.analysis.landscape(model, (x, y), attack, space="pixels", points=3).losses.shape
    (3, 3)

    Args:
        space: `"weights"` or `"pixels"`.
        directions: What spans the plane.
        steps: Positions along either direction.
        losses: Mean loss, `[positions along the second direction, along the first]`.
    """

    analysis = "landscape"
    shared = False
    what_to_see = (
        "The mean loss around the model (the cross). Wide, round contours: a flat loss that tolerates "
        "changes; narrow or bent ones: a sharp loss. Numbers on the lines are losses."
    )
    size = (5.0, 4.2)

    space: str
    directions: str
    steps: np.ndarray
    losses: np.ndarray

    @property
    def key_numbers(self):
        middle = len(self.steps) // 2
        return {
            "loss in the middle": float(self.losses[middle, middle]),
            "largest on the plane": float(self.losses.max()),
        }

    def draw(self, axes, series, count):
        (ax,) = axes
        if ax.name == "3d":
            self._draw_surface(ax)
        else:
            self._draw_contours(ax)
        first, second = ("attack", "random sign") if self.directions == "attack" else (1, 2)
        label = UNITS[self.space, self.directions]
        ax.set_xlabel(label.format(first), fontsize=drawing.FONT_SIZE - 1)
        ax.set_ylabel(label.format(second), fontsize=drawing.FONT_SIZE - 1)
        ax.set_title(f"{self.model}: mean loss in {self.space}", fontsize=drawing.FONT_SIZE)

    def plot_surface(self, ax=None):
        """Draws the loss as a surface.

        Args:
            ax: matplotlib axes with `projection="3d"`. Defaults to a new figure.
        """
        axes = [ax] if ax is not None else drawing.new_axes(self, 1, self.caption, projection="3d")
        self.draw(axes, 0, 1)
        return axes[0]

    def _draw_contours(self, ax) -> None:
        filled = ax.contourf(self.steps, self.steps, self.losses, 12, cmap="cividis")
        lines = ax.contour(self.steps, self.steps, self.losses, filled.levels, colors="white", linewidths=0.8)
        ax.clabel(lines, lines.levels[::2], fontsize=9, fmt="%.2f", colors="white")
        ax.plot(0, 0, "x", color="white", markersize=10, markeredgewidth=2.5)

    def _draw_surface(self, ax) -> None:
        across, along = np.meshgrid(self.steps, self.steps)
        ax.plot_surface(across, along, self.losses, cmap="cividis", edgecolor="#55606b", linewidth=0.3)
        ax.set_box_aspect(None, zoom=0.75)  # room for the titles of the axes
        ax.set_zlabel("mean loss (nats)", fontsize=drawing.FONT_SIZE - 1)


def landscape(
    model,
    data,
    attack=None,
    options: AnalysisOptions | None = None,
    *,
    space: str = "weights",
    directions: str | None = None,
    radius: float | None = None,
    points: int = 11,
    loss: str = "ce",
) -> Landscape:
    """Computes the mean loss on a plane through the weights or the pixels.

    In weights, the images are adversarial ones of the model itself, made once. In pixels, the plane starts at
    the clean images and pixels may leave [0, 1], so that the plane is not bent at the border.

    Example:

    >>> result = athe_tf.analysis.landscape(model, (x, y), attack, points=3)
    >>> axes = result.plot_surface()

    Args:
        model: A Keras model; for pixels, anything that `athe_tf.victim` takes.
        data: `(images, labels)`, a `tf.data.Dataset` of batches, or an image set of `athe_tf.data`.
        attack: A PGD attack. Defaults to PGD-10 within 8/255.
        options: Number of images and the like.
        space: `"weights"` (default) or `"pixels"`.
        directions: In weights `"random"` (default; filter-normalized) or `"eigenvectors"` (the two largest of
            the Hessian); in pixels `"attack"` (default; the sign of the adversarial perturbation, and random
            signs) or `"random"` (random signs twice).
        radius: How far the plane reaches. Defaults to 0.5 in weights, twice epsilon in pixels.
        points: Number of positions along a direction, odd. Defaults to 11.
        loss: In pixels, the name of an attack's loss. Defaults to `"ce"`; in weights it is always that.

    Reference: https://arxiv.org/abs/1712.09913
    """
    check_choice("space", space, SPACES)
    directions = SPACES[space][0] if directions is None else directions
    check_choice("directions", directions, SPACES[space])
    check_integer("points", points, 3)
    check(
        loss == "ce" or space == "pixels",
        f"In the space of weights the loss is cross-entropy. Received: loss='{loss}'. Leave it out, or use "
        "space='pixels'.",
    )
    check(points % 2 == 1, f"`points` must be odd, so that the model is in the middle. Received: {points}.")
    subject = Subject(model, data, attack, options)
    if radius is None:
        radius = 0.5 if space == "weights" else 2 * float(subject.attack.threat.epsilon)
    steps = np.linspace(-radius, radius, points)
    if space == "weights":
        values = _weight_plane(subject, directions, steps)
    else:
        values = _pixel_plane(subject, directions, steps, losses.get(loss))
    facts = subject.facts(space=space, directions=directions, points=f"{points} x {points}", loss=loss)
    return Landscape(**facts, space=space, directions=directions, steps=steps, losses=values)


def _weight_plane(subject: Subject, directions: str, steps: np.ndarray) -> np.ndarray:
    loss = adversarial_loss(subject, "landscape")
    seed = subject.options.seed
    if directions == "eigenvectors":
        first, second = eigenpairs(subject, loss, 2)[1].T
    else:
        first, second = filter_normalized(loss, 2 * seed), filter_normalized(loss, 2 * seed + 1)

    def at(a, b):
        with loss.moved(a * first + b * second):
            return loss.value()

    rows = subject.track(steps, len(steps))
    return np.array([[at(a, b) for a in steps] for b in rows])


def _pixel_plane(subject: Subject, directions: str, steps: np.ndarray, function) -> np.ndarray:
    @tf.function(autograph=False, reduce_retracing=True)
    def total(x, y):
        return tf.reduce_sum(function(subject.victim.logits(x), y))

    seed, sums = subject.options.seed, np.zeros((len(steps), len(steps)))
    for x, y, ids in subject.batches():
        # Every batch has the same random directions, so that the batch size does not matter much.
        second = random_signs(x.shape[1:], 2 * seed + 1)[np.newaxis]
        if directions == "attack":
            first = np.sign(subject.adversarial(x, y, ids).numpy() - x.numpy())
        else:
            first = random_signs(x.shape[1:], 2 * seed)[np.newaxis]
        for row, b in enumerate(steps):
            for column, a in enumerate(steps):
                moved = x + tf.cast(a * first + b * second, x.dtype)
                sums[row, column] += float(total(moved, y))
    return sums / len(subject)
