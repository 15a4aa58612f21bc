"""The loss on a plane through the weights, or through the pixels."""

import numpy as np

from athe_tf.analysis import drawing
from athe_tf.analysis.result import AnalysisResult, argument
from athe_tf.analysis.subject import Subject, function_of
from athe_tf.utils.errors import check
from athe_tf.utils.options import option

#: From each space to the directions that can span its plane; the first is the default.
SPACES = {"weights": ("random", "eigenvectors"), "pixels": ("attack", "random")}
#: Titles of the two axes, without the unit of pixels.
TITLES = {
    ("weights", "random"): [f"random direction {i} (times filter length)" for i in (1, 2)],
    ("weights", "eigenvectors"): [f"{nth} eigenvector (length of the step)" for nth in ("1st", "2nd")],
    ("pixels", "attack"): ["toward the adversarial image", "random signs"],
    ("pixels", "random"): ["random signs 1", "random signs 2"],
}
MIDDLES = {
    "weights": "The mean loss of adversarial images, with the weights of the model",
    "pixels": "The mean loss of images, with the clean images",
}
LOSS = "mean loss (nats)"
# Number of contours.
LEVELS = 12


def points_option(default: int):
    """The size of a grid."""
    return option(default, "Grid points of landscape and decision_map per direction.", ge=3)


class Landscape(AnalysisResult):
    """The mean loss on a grid; made by `landscape`.

    Example:

    >>> result = athe_tf.analysis.landscape(model, (x, y), attack, space="pixels", points=3)
    >>> result.losses.shape
    (3, 3)
    >>> axes = result.plot(projection="3d")  # a surface; without it, contours

    Args:
        space: `"weights"` or `"pixels"`.
        directions: What spans the plane.
        norm: The norm that measures steps in pixels.
        steps: Positions along either direction.
        losses: Mean loss, `[positions along the second direction, along the first]`.
    """

    analysis = "landscape"
    summary = "adversarial loss on a plane, in weights or pixels (PAS)"
    shared = False
    projections = (drawing.FLAT, drawing.DEEP)
    size = (5.2, 4.4)

    space: str
    directions: str
    norm: str
    steps: np.ndarray
    losses: np.ndarray

    @classmethod
    def compute(
        cls,
        subject: Subject,
        *,
        space: str = option("weights", "Space of the loss landscape.", choices=tuple(SPACES)),
        directions: str | None = option(
            None,
            "Directions of landscape: random or eigenvectors in weights, attack or random in pixels. "
            "Defaults to the first one listed.",
            choices=("random", "eigenvectors", "attack"),
        ),
        radius: float | None = argument(
            None, "How far the plane reaches. Defaults to 0.5 in weights, twice epsilon in pixels."
        ),
        points: int = points_option(11),
        loss: str = argument(
            "ce", "In pixels, the name of an attack's loss; in weights it is always the default."
        ),
    ) -> "Landscape":
        """Computes the mean loss on a plane through the weights or the pixels.

        In weights, the images are adversarial ones of the model itself, made once; the directions are random
        and filter-normalized, or the two largest eigenvectors of the Hessian. In pixels, the plane starts at
        the clean images and pixels may leave [0, 1], so that the plane is not bent at the border; the
        directions are each image's adversarial perturbation and random signs, or random signs twice, all of
        length one in the norm of the attack. The plane in weights needs a Keras model.

        Reference: https://arxiv.org/abs/1712.09913
        """
        from athe_tf.attacks import losses

        check(
            loss == "ce" or space == "pixels",
            f"In the space of weights the loss is cross-entropy. Received: loss='{loss}'. Leave it out, or "
            "use space='pixels'.",
        )
        check(
            points % 2 == 1, f"`points` must be odd, so that the model is in the middle. Received: {points}."
        )
        directions = directions or SPACES[space][0]
        in_weights = space == "weights"
        reach = 0.5 if in_weights else 2 * subject.epsilon
        radius = reach if radius is None else radius
        steps = np.linspace(-radius, radius, points)
        if in_weights:
            values = _weight_plane(subject, directions, steps)
        else:
            values = _pixel_plane(subject, directions, steps, losses.get(loss))
        grid, norm = f"{points} x {points}", subject.attack.threat.norm
        facts = subject.facts(space=space, directions=directions, points=grid, loss=loss)
        return cls(**facts, space=space, directions=directions, norm=norm, steps=steps, losses=values)

    @classmethod
    def check_options(cls, options, display_name=str):
        known = SPACES[options.space]
        check(
            options.directions in (None, *known),
            f"In {options.space}, the directions of landscape are one of {list(known)}. Received: "
            f"{display_name('directions')}={options.directions}.",
        )

    @classmethod
    def requirement(cls, own):
        return "weights" if own.space == "weights" else cls.needs

    @classmethod
    def file_stem(cls, own):
        return f"landscape_{own.space}_{own.directions or SPACES[own.space][0]}"

    @property
    def what_to_see(self):  # type: ignore[override]  # it depends on the space
        return (
            f"{MIDDLES[self.space]} in the middle of the plane. Contours far apart, a flat surface: the loss "
            "tolerates changes. Contours close together or bent: it is sharp. The models share the levels."
        )

    @property
    def key_numbers(self):
        middle = len(self.steps) // 2
        return {
            "loss in the middle": float(self.losses[middle, middle]),
            "largest on the plane": float(self.losses.max()),
        }

    def draw(self, axes, series, results):
        (ax,) = axes
        every = np.concatenate([one.losses for one in results])
        factor, unit = drawing.pixel_unit(self.norm) if self.space == "pixels" else (1.0, "")
        steps = factor * self.steps
        titles = [f"{title} ({unit})" if unit else title for title in TITLES[self.space, self.directions]]
        if ax.name == drawing.DEEP:
            _draw_surface(ax, steps, self.losses, every)
            # Titles are oblique there, and have less room.
            titles = [title.replace(" (", "\n(") for title in titles]
        else:
            _draw_contours(ax, steps, self.losses, every)
        drawing.titles(ax, titles[0], titles[1], self.model)


def _draw_contours(ax, steps, losses, every) -> None:
    levels = np.linspace(every.min(), max(every.max(), every.min() + 1e-9), LEVELS + 1)
    filled = ax.contourf(steps, steps, losses, levels, cmap="cividis")
    ax.contour(steps, steps, losses, levels, colors="white", linewidths=0.8)
    bar = ax.figure.colorbar(filled, ax=ax, shrink=0.85, ticks=levels[::3], format="%.2f")
    bar.set_label(LOSS, fontsize=drawing.FONT_SIZE)
    bar.ax.tick_params(labelsize=drawing.SMALL)
    for shade, width in (("white", 5.0), (drawing.INK, 2.0)):
        ax.plot(0, 0, "x", color=shade, markersize=10, markeredgewidth=width)
    ax.set_aspect("equal")


def _draw_surface(ax, steps, losses, every) -> None:
    across, along = np.meshgrid(steps, steps)
    ax.plot_surface(
        across, along, losses, cmap="cividis", vmin=every.min(), vmax=every.max(),
        edgecolor="#55606b", linewidth=0.3, rcount=len(steps), ccount=len(steps),
    )  # fmt: skip
    ax.set_zlim(every.min(), every.max())
    ax.set_zlabel(LOSS, fontsize=drawing.FONT_SIZE, labelpad=6)
    ax.locator_params(nbins=4)
    # Room for the titles of the axes, which must not touch the numbers.
    ax.set_box_aspect((1, 1, 0.8), zoom=0.8)
    for axis in (ax.xaxis, ax.yaxis):
        axis.labelpad = 14


def _weight_plane(subject: Subject, directions: str, steps: np.ndarray) -> np.ndarray:
    loss = subject.weight_loss(subject.all_adversarial())
    seed = subject.options.seed
    if directions == "eigenvectors":
        first, second = loss.eigenpairs(2, seed, subject.report)[1].T
    else:
        first, second = loss.filter_normalized(2 * seed), loss.filter_normalized(2 * seed + 1)

    def at(a, b):
        with loss.moved(a * first + b * second):
            return loss.value()

    rows = subject.track(steps, len(steps))
    return np.array([[at(a, b) for a in steps] for b in rows])


def _pixel_plane(subject: Subject, directions: str, steps: np.ndarray, function) -> np.ndarray:
    import tensorflow as tf

    @tf.function(autograph=False, reduce_retracing=True)
    def total(x, y):
        return tf.reduce_sum(function(subject.victim.logits(x), y))

    # All images have the same random directions, so that the batch size does not matter.
    first, second = (subject.random_signs(2 * subject.options.seed + i) for i in range(2))
    sums = np.zeros((len(steps), len(steps)))
    for x, y, ids in subject.batches():
        if directions == "attack":
            first = subject.unit_perturbations(subject.adversarial(x, y, ids) - x)
        for row, b in enumerate(steps):
            for column, a in enumerate(steps):
                moved = x + tf.cast(a * first + b * second, x.dtype)
                sums[row, column] += float(total(moved, y))
    return sums / len(subject)


landscape = function_of(Landscape.compute)
