"""The classes around an image, on a plane of two perturbations."""

import numpy as np
import scipy

from athe_tf.analysis import drawing
from athe_tf.analysis.landscape import points_option
from athe_tf.analysis.result import AnalysisResult, argument
from athe_tf.analysis.subject import Subject, function_of
from athe_tf.utils.errors import check
from athe_tf.utils.options import option


class DecisionMap(AnalysisResult):
    """The predicted classes on a plane through an image; made by `decision_map`.

    Example:

    >>> athe_tf.analysis.decision_map(model, (x, y), attack, points=3).classes.shape
    (3, 3)

    Args:
        label: The label of the image.
        norm: The norm of the attack.
        epsilon: Radius of the attack.
        steps: Positions along either direction, in pixels of [0, 1] and in the norm of the attack.
        classes: Predicted class, `[positions along the second direction, along the first]`.
        lengths: The norm of the perturbation at each position.
        class_names: The names of the classes.
    """

    analysis = "decision_map"
    summary = "classes on a plane of perturbations around an image"
    shared = False
    what_to_see = (
        "Predicted classes around one image (the cross); each shade is a class, the lightest is the true "
        "one. To the right: toward the adversarial image. The dashed line is the border of the attack's "
        "ball: other classes inside it are adversarial images."
    )
    size = (5.0, 4.6)

    label: int
    norm: str
    epsilon: float
    steps: np.ndarray
    classes: np.ndarray
    lengths: np.ndarray
    class_names: tuple[str, ...]

    @classmethod
    def compute(
        cls,
        subject: Subject,
        *,
        index: int = option(0, "Image of decision_map.", ge=0),
        radius: float | None = argument(None, "How far the plane reaches. Defaults to three times epsilon."),
        points: int = points_option(41),
    ) -> "DecisionMap":
        """Computes the predicted classes on the plane of an adversarial perturbation and random signs.

        Both directions have length one in the norm of the attack. Pixels are clipped to [0, 1], as in real
        images.
        """
        threat = subject.attack.threat
        check(len(subject) > index, f"There are {len(subject)} images. Received: index={index}.")
        subject.x, subject.y = subject.x[index:], subject.y[index:]
        steps = np.linspace(-1, 1, points) * (3 * subject.epsilon if radius is None else radius)
        first = subject.unit_perturbations(subject.all_adversarial() - subject.x)
        second = subject.random_signs(subject.options.seed)
        logits, lengths = [], []
        for b in subject.track(steps, points):
            row = b * second + steps[:, np.newaxis, np.newaxis, np.newaxis] * first
            logits.append(subject.predicted(np.clip(subject.x + row, 0, 1).astype("float32")))
            lengths.append(threat.length(row).numpy())
        return cls(
            **subject.facts(index=index, points=f"{points} x {points}"),
            label=int(subject.y[0]),
            norm=threat.norm,
            epsilon=subject.epsilon,
            steps=steps,
            classes=np.argmax(logits, axis=2),
            lengths=np.array(lengths),
            class_names=subject.class_names(logits[0].shape[1]),
        )

    @classmethod
    def used_images(cls, own, most):
        return own.index + 1

    @classmethod
    def file_stem(cls, own):
        return f"decision_map_{own.index}"

    @property
    def key_numbers(self):
        inside = self.classes[self.lengths <= self.epsilon * (1 + 1e-6)]
        return {"share of the ball with the true class (%)": 100 * float((inside == self.label).mean())}

    def draw(self, axes, series, results):
        (ax,) = axes
        factor, unit = drawing.pixel_unit(self.norm)
        steps = factor * self.steps
        self._draw_classes(ax, steps)
        for shade, width in (("white", 3.2), (drawing.INK, 1.4)):
            ax.contour(
                steps, steps, self.lengths, [self.epsilon], colors=shade, linewidths=width, linestyles="--"
            )
        ax.plot(0, 0, "x", color="#b02a00", markersize=9, markeredgewidth=2.5)
        title = f"{self.model}, true class {self.class_names[self.label]}"
        drawing.titles(ax, f"toward the adversarial image ({unit})", f"random signs ({unit})", title)

    def _draw_classes(self, ax, steps) -> None:
        # The true class is the lightest, whether it is on the map or not.
        shades = [self.label, *(int(c) for c in np.unique(self.classes) if c != self.label)]
        rank = np.vectorize(shades.index)(self.classes)
        half = (steps[1] - steps[0]) / 2
        edges = (steps[0] - half, steps[-1] + half) * 2
        ax.imshow(
            rank, origin="lower", extent=edges, cmap="cividis_r", vmin=0, vmax=max(len(shades), 2) - 1,
            interpolation="nearest", aspect="equal",
        )  # fmt: skip
        box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.5}
        for number in np.unique(self.classes):
            row, column = _widest_place(self.classes == number, self.lengths > self.epsilon)
            ax.text(
                steps[column], steps[row], self.class_names[number], ha="center", va="center", bbox=box,
                fontsize=drawing.SMALL,
            )  # fmt: skip


def _widest_place(region: np.ndarray, preferred: np.ndarray) -> tuple[int, int]:
    """The point of a region with the most room around it, inside the preferred part if they overlap."""
    part = region & preferred if np.any(region & preferred) else region
    room = scipy.ndimage.distance_transform_edt(np.pad(part, 1))[1:-1, 1:-1]
    row, column = np.unravel_index(np.argmax(room), room.shape)
    return int(row), int(column)


decision_map = function_of(DecisionMap.compute)
