"""The angles of a hypersphere head: features to classes, and classes to each other."""

import numpy as np

from athe_tf.analysis import drawing
from athe_tf.analysis.result import AnalysisResult
from athe_tf.analysis.subject import Subject, function_of

BINS = np.linspace(0.0, 180.0, 61)


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
    summary = "angles to the true class and between classes (hypersphere heads)"
    needs = "angles"
    panels = 3
    what_to_see = (
        "Left: angle of features to their true class; the attack shifts the dashed curve to the right. "
        "Middle: angles between class weights; the vertical line is the simplex, where classes are as far "
        "apart as possible. Right: lengths of the features, which the head ignores."
    )
    size = (4.4, 3.4)

    clean: np.ndarray
    adversarial: np.ndarray
    between_classes: np.ndarray
    simplex: float
    feature_norms: np.ndarray

    @classmethod
    def compute(cls, subject: Subject) -> "Angles":
        """Measures the angles of a hypersphere head, before and after an attack."""
        from athe_tf.evaluation import measures

        head = measures.head_of(subject.victim)
        weights = subject.class_weights().numpy().astype("float64")
        features = np.concatenate(
            [subject.victim.compiled_features(x).numpy() for x, _, _ in subject.batches()]
        )
        cosines = np.clip(weights.T @ weights, -1.0, 1.0)[np.triu_indices(weights.shape[1], 1)]

        def to_own(images):
            degrees = measures.angles(subject.predicted(images), head, subject.victim.scale)
            return degrees[np.arange(len(subject)), subject.y]

        return cls(
            **subject.facts(),
            clean=to_own(subject.x),
            adversarial=to_own(subject.all_adversarial()),
            between_classes=np.degrees(np.arccos(cosines)),
            simplex=float(np.degrees(np.arccos(-1.0 / (weights.shape[1] - 1)))),
            feature_norms=np.linalg.norm(features, axis=1),
        )

    @property
    def key_numbers(self):
        norms = self.feature_norms
        return {
            "mean angle clean": float(self.clean.mean()),
            "adversarial": float(self.adversarial.mean()),
            "smallest angle between classes": float(self.between_classes.min()),
            "simplex": self.simplex,
            "relative spread of feature lengths": float(norms.std() / max(norms.mean(), 1e-12)),
        }

    def draw(self, axes, series, results):
        left, middle, right = axes
        drawing.histogram(left, self.clean, BINS, series, f"{self.model}, clean")
        drawing.histogram(left, self.adversarial, BINS, series, f"{self.model}, adversarial", dashed=True)
        drawing.histogram(middle, self.between_classes, BINS, series, self.model)
        middle.axvline(self.simplex, color=drawing.INK, linewidth=1.2)
        drawing.histogram(right, self.feature_norms, 30, series, self.model)
        every = np.concatenate([part for one in results for part in (one.clean, one.adversarial)])
        left.set_xlim(every.min() - 5, every.max() + 5)
        pairs = np.concatenate([one.between_classes for one in results])
        middle.set_xlim(min(pairs.min(), self.simplex) - 5, max(pairs.max(), self.simplex) + 10)
        drawing.finish(left, "angle to the true class (degrees)", "number of images")
        drawing.finish(middle, "angle between class weights (degrees)", "pairs of classes")
        drawing.finish(right, "length of features", "number of images")


angles = function_of(Angles.compute)
