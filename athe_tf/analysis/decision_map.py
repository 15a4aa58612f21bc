"""The classes around an image, on a plane of two perturbations."""

import dataclasses

import numpy as np

from athe_tf.analysis import drawing
from athe_tf.analysis.directions import random_signs
from athe_tf.analysis.options import AnalysisOptions
from athe_tf.analysis.result import AnalysisResult
from athe_tf.analysis.subject import Subject
from athe_tf.utils.errors import check, check_integer


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class DecisionMap(AnalysisResult):
    """The predicted classes on a plane through an image; made by `decision_map`.

    Example:

    >>> athe_tf.analysis.decision_map(model, (x, y), attack, points=3).classes.shape
    (3, 3)

    Args:
        label: The label of the image.
        epsilon: Radius of the attack.
        steps: Positions along either direction, in pixels of [0, 1].
        classes: Predicted class, `[positions along the second direction, along the first]`.
    """

    analysis = "decision_map"
    shared = False
    what_to_see = (
        "Predicted classes (numbers) around one image (the cross); each shade is a class, light is the true "
        "one. To the right: towards the adversarial image. The dashed diamond is the ball of the attack: "
        "other classes inside it are adversarial images."
    )
    size = (4.4, 4.2)

    label: int
    epsilon: float
    steps: np.ndarray
    classes: np.ndarray

    @property
    def key_numbers(self):
        # Where both signs agree, a pixel moves by the sum of both steps: the linf ball is a diamond here.
        distances = np.abs(self.steps)[:, np.newaxis] + np.abs(self.steps)
        part = self.classes[distances <= self.epsilon * (1 + 1e-6)]
        return {
            "true class": float(self.label),
            "share of the ball with the true class (%)": 100 * float((part == self.label).mean()),
        }

    def draw(self, axes, series, count):
        (ax,) = axes
        pixels = 255 * self.steps
        present = [self.label, *(int(c) for c in np.unique(self.classes) if c != self.label)]
        rank = np.vectorize(present.index)(self.classes)
        edges = (pixels[0], pixels[-1]) * 2
        ax.imshow(rank, origin="lower", extent=edges, cmap="cividis_r", vmin=0, vmax=max(len(present), 2) - 1,
                  interpolation="nearest", aspect="equal")  # fmt: skip
        for number in present:
            rows, columns = np.nonzero(self.classes == number)
            row, column = _inner_point(rows, columns)
            box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.5}
            ax.text(pixels[column], pixels[row], str(number), ha="center", va="center", bbox=box, fontsize=11)
        radius = 255 * self.epsilon
        for shade, width in (("white", 3.2), ("#1a2128", 1.4)):
            ax.plot(
                [radius, 0, -radius, 0, radius],
                [0, radius, 0, -radius, 0],
                "--",
                color=shade,
                linewidth=width,
            )
        ax.plot(0, 0, "x", color="#b02a00", markersize=9, markeredgewidth=2.5)
        ax.set_xlabel("towards the adversarial image (1/255)", fontsize=drawing.FONT_SIZE)
        ax.set_ylabel("random signs (1/255)", fontsize=drawing.FONT_SIZE)
        ax.set_title(f"{self.model}, true class {self.label}", fontsize=drawing.FONT_SIZE)


def _inner_point(rows, columns) -> tuple[int, int]:
    """The point of a region that is nearest to its centre."""
    nearest = np.argmin((rows - rows.mean()) ** 2 + (columns - columns.mean()) ** 2)
    return int(rows[nearest]), int(columns[nearest])


def decision_map(
    model,
    data,
    attack=None,
    options: AnalysisOptions | None = None,
    *,
    index: int = 0,
    radius: float | None = None,
    points: int = 41,
) -> DecisionMap:
    """Computes the predicted classes on the plane of an adversarial perturbation and random signs.

    Pixels are clipped to [0, 1], as those of real images are.

    Example:

    >>> result = athe_tf.analysis.decision_map(model, (x, y), attack, points=3)

    Args:
        model: A Keras model, or anything that `athe_tf.victim` takes.
        data: `(images, labels)`, a `tf.data.Dataset` of batches, or an image set of `athe_tf.data`.
        attack: A PGD attack. Defaults to PGD-10 within 8/255.
        options: The seed and the like.
        index: Position of the image. Defaults to 0.
        radius: How far the plane reaches. Defaults to three times epsilon.
        points: Number of positions along a direction. Defaults to 41.
    """
    check_integer("points", points, 3)
    check_integer("index", index, 0)
    options = dataclasses.replace(options or AnalysisOptions(), max_examples=index + 1)
    subject = Subject(model, data, attack, options)
    check(len(subject) > index, f"There are {len(subject)} images. Received: index={index}.")
    subject.x, subject.y = subject.x[index:], subject.y[index:]
    norm, epsilon = subject.attack.threat.norm, float(subject.attack.threat.epsilon)
    check(norm == "linf", f"decision_map walks along signs, as linf attacks do. Received: norm={norm!r}.")
    steps = np.linspace(-1, 1, points) * (3 * epsilon if radius is None else radius)
    first = np.sign(subject.all_adversarial() - subject.x)
    second = random_signs(subject.x.shape, options.seed)
    rows = [np.clip(subject.x + b * second + steps[:, None, None, None] * first, 0, 1) for b in steps]
    classes = [subject.predicted(row.astype(np.float32)).argmax(axis=1) for row in rows]
    facts = subject.facts(index=index, points=f"{points} x {points}")
    return DecisionMap(
        **facts, label=int(subject.y[0]), epsilon=epsilon, steps=steps, classes=np.array(classes)
    )
