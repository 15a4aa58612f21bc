"""Whether classes with long weights attract adversarial images: sections 3.3 and 3.4 of the HE paper."""

from typing import TYPE_CHECKING

import numpy as np
import scipy

from athe_tf.analysis import drawing
from athe_tf.analysis.result import AnalysisResult
from athe_tf.analysis.subject import Subject, function_of

if TYPE_CHECKING:
    from athe_tf.models.victim import Victim


class ClassBias(AnalysisResult):
    """Lengths of class weights, and the labels that adversarial images get; made by `class_bias`.

    Example:

    >>> athe_tf.analysis.class_bias(model, (x, y), attack).norms.shape
    (4,)

    Args:
        norms: The length of the weights of each class, as the head uses them.
        labels: For each class, how many images were moved to it from another class.
        labels_unit_weights: The same for the model with class weights of equal length (their mean), attacked
            anew. Equal to `labels` for a head that normalizes its weights.
        class_names: The names of the classes.
    """

    analysis = "class_bias"
    summary = "lengths of class weights, and labels of adversarial images (HE, 3.4)"
    needs = "features"
    panels = 2
    what_to_see = (
        "Left: lengths of class weights; with equal bars, no class is favored by its length. Right: the "
        "wrong labels that adversarial images get; a flat profile means no bias. Hollow markers: the same "
        "model with class weights of equal length (WN), where that makes a difference."
    )

    norms: np.ndarray
    labels: np.ndarray
    labels_unit_weights: np.ndarray
    class_names: tuple[str, ...]

    @classmethod
    def compute(cls, subject: Subject) -> "ClassBias":
        """Compares the lengths of class weights with the labels that adversarial images get.

        Reference:
            Pang et al., "Boosting Adversarial Training with Hypersphere Embedding", NeurIPS 2020, section
            3.4.
        """
        weights = subject.class_weights()
        labels = _wrong_labels(subject, subject.victim)
        equal = _equal_lengths(subject, weights)
        return cls(
            **subject.facts(),
            norms=np.linalg.norm(weights.numpy(), axis=0),
            labels=labels,
            labels_unit_weights=labels if equal is None else _wrong_labels(subject, equal),
            class_names=subject.class_names(len(labels)),
        )

    @property
    def key_numbers(self):
        return {
            "longest / shortest weights": float(self.norms.max() / max(self.norms.min(), 1e-12)),
            "rank correlation of length and label count": self.correlation,
        }

    @property
    def correlation(self) -> float:
        """Spearman's correlation of length and count; 0 if the lengths do not differ."""
        if np.ptp(self.norms) < 1e-5 * self.norms.max() or np.ptp(self.labels) == 0:
            return 0.0
        return float(scipy.stats.spearmanr(self.norms, self.labels).statistic)

    def draw(self, axes, series, results):
        left, right = axes
        drawing.bars(left, self.norms, series, len(results), self.model)
        drawing.bars(right, 100 * self.labels / self.images, series, len(results), self.model)
        if np.any(self.labels != self.labels_unit_weights):
            places = drawing.bar_places(len(self.norms), series, len(results))
            right.plot(
                places, 100 * self.labels_unit_weights / self.images, label=f"{self.model}, equal lengths",
                linestyle="", marker=drawing.line_style(series)["marker"], markerfacecolor="white",
                markeredgecolor=drawing.INK,
            )  # fmt: skip
        drawing.finish(left, "class", "length of class weights")
        drawing.finish(right, "wrong label after the attack", "share of images (%)")
        for ax in axes:
            drawing.category_ticks(ax, self.class_names)


def _wrong_labels(subject: Subject, against: "Victim") -> np.ndarray:
    """How many adversarial images of other classes each class gets."""
    predicted = subject.predicted(subject.all_adversarial(against=against), against).argmax(axis=1)
    wrong = predicted != subject.y
    return np.bincount(predicted[wrong], minlength=int(against.num_classes or predicted.max() + 1))


def _equal_lengths(subject: Subject, weights) -> "Victim | None":
    """The model with class weights of equal length; `None` if they are."""
    import tensorflow as tf

    from athe_tf.layers.cosine_dense import CosineDense
    from athe_tf.models.victim import Victim

    head, victim = subject.victim.head, subject.victim
    if isinstance(head, CosineDense) and head.normalize_weights:
        return None
    norms = tf.norm(weights, axis=0)
    factors = tf.reduce_mean(norms) / tf.maximum(norms, 1e-12)
    bias = 0.0 if getattr(head, "bias", None) is None else tf.convert_to_tensor(head.bias)
    return Victim(
        lambda x: (victim.logits(x) - bias) * factors + bias,
        num_classes=victim.num_classes,
        name=f"{victim.name} with class weights of equal length",
    )


class_bias = function_of(ClassBias.compute)
