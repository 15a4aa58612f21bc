"""The angles of a hypersphere head: features to classes, and classes to each other."""

import dataclasses

import numpy as np

from athe_tf.analysis import drawing
from athe_tf.analysis.options import AnalysisOptions
from athe_tf.analysis.result import AnalysisResult
from athe_tf.analysis.subject import Subject
from athe_tf.evaluation.heads import ANGULAR_HEADS, head_of
from athe_tf.evaluation.heads import angles as angles_of
from athe_tf.utils.errors import InputError

BINS = np.linspace(0.0, 180.0, 61)


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Angles(AnalysisResult):
    """Angles in degrees, clean and adversarial; made by `angles`.

    Example:

    >>> round(athe_tf.analysis.angles(model, (x, y), attack).simplex, 1)
    109.5

    Args:
        clean: Angle of each image's features to the weights of its class.
        adversarial: The same after the attack.
        between_classes: Angles between the weights of all pairs of classes.
        simplex: The angle between all pairs if classes are as far apart as possible: `arccos(-1 / (L - 1))`.
        feature_norms: The length of the features of each clean image, before normalization.
    """

    analysis = "angles"
    panels = 3
    what_to_see = (
        "Left: angle of features to their true class; the attack shifts the dashed curve to the right. "
        "Middle: angles between class weights; the vertical line is the simplex, where classes are as "
        "far apart as possible. Right: lengths of the features, which the head ignores."
    )
    size = (4.2, 3.4)

    clean: np.ndarray
    adversarial: np.ndarray
    between_classes: np.ndarray
    simplex: float
    feature_norms: np.ndarray

    @property
    def key_numbers(self):
        norms = self.feature_norms
        return {
            "mean angle clean": float(self.clean.mean()),
            "adversarial": float(self.adversarial.mean()),
            "smallest angle between classes": float(self.between_classes.min()),
            "simplex": self.simplex,
            "spread of feature lengths (std / mean)": float(norms.std() / max(norms.mean(), 1e-12)),
        }

    def draw(self, axes, series, count):
        left, middle, right = axes
        color = drawing.color(series)
        for values, kind, dash in (
            (self.clean, "clean", "-"),
            (self.adversarial, "adversarial", (0, (4, 2))),
        ):
            left.hist(values, BINS, histtype="step", linewidth=drawing.hist_width(series), color=color,
                      linestyle=dash, label=f"{self.model}, {kind}")  # fmt: skip
        middle.hist(
            self.between_classes,
            BINS,
            histtype="step",
            linewidth=drawing.hist_width(series),
            color=color,
            label=self.model,
        )
        middle.axvline(self.simplex, color="#1a2128", linewidth=1.2)
        right.hist(
            self.feature_norms,
            30,
            histtype="step",
            linewidth=drawing.hist_width(series),
            color=color,
            label=self.model,
        )
        both = np.concatenate([self.clean, self.adversarial])
        left.set_xlim(min(left.get_xlim()[0] if series else 180, both.min() - 5), both.max() + 25)
        middle.set_xlim(40, 160)
        drawing.finish(left, "angle to the true class (degrees)", "number of images")
        drawing.finish(middle, "angle between class weights (degrees)", "pairs of classes")
        drawing.finish(right, "length of features", "number of images")


def angles(model, data, attack=None, options: AnalysisOptions | None = None) -> Angles:
    """Measures the angles of a hypersphere head, before and after an attack.

    Example:

    >>> result = athe_tf.analysis.angles(model, (x, y), attack)

    Args:
        model: A Keras model with a hypersphere head (HE or m-HE).
        data: `(images, labels)`, a `tf.data.Dataset` of batches, or an image set of `athe_tf.data`.
        attack: A PGD attack. Defaults to PGD-10 within 8/255.
        options: Number of images and the like.
    """
    subject = Subject(model, data, attack, options)
    head = head_of(subject.victim)
    if head not in ANGULAR_HEADS:
        raise InputError(
            f"Angles need a hypersphere head: one of {list(ANGULAR_HEADS)}. Received: "
            f"'{subject.victim.name}' with head '{head}'. Convert the model with "
            "athe_tf.models.to_hypersphere."
        )
    weights = subject.class_weights("angles").numpy().astype("float64")
    features = np.concatenate([subject.victim.compiled_features(x).numpy() for x, _, _ in subject.batches()])
    cosines = np.clip(weights.T @ weights, -1.0, 1.0)[np.triu_indices(weights.shape[1], 1)]

    def to_own(images):
        degrees = angles_of(subject.predicted(images), head, subject.victim.scale)
        return degrees[np.arange(len(subject)), subject.y]

    return Angles(
        **subject.facts(),
        clean=to_own(subject.x),
        adversarial=to_own(subject.all_adversarial()),
        between_classes=np.degrees(np.arccos(cosines)),
        simplex=float(np.degrees(np.arccos(-1.0 / (weights.shape[1] - 1)))),
        feature_norms=np.linalg.norm(features, axis=1),
    )
