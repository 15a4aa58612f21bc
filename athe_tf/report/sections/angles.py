"""Angles between features and class weights, for hypersphere heads."""

import itertools
from typing import Literal

from athe_tf.drawing.charts import figure, histogram
from athe_tf.drawing.markup import Markup
from athe_tf.drawing.page import Section, paragraph, side_by_side
from athe_tf.report.reading import SavedEvaluation
from athe_tf.results.file_format import AngleCounts

SERIES: tuple[tuple[str, Literal["true", "nearest_wrong"]], ...] = (
    ("true class", "true"),
    ("nearest wrong class", "nearest_wrong"),
)


def section(evaluation: SavedEvaluation) -> Section | None:
    """Returns `None` unless the model has a hypersphere head."""
    angles = evaluation.result.angles
    if not angles:
        return None
    parts: list[tuple[str, AngleCounts]] = [("clean images", angles)]
    if "adversarial" in angles:
        parts.append(("adversarial images", angles["adversarial"]))
    intro = paragraph(
        "A hypersphere head predicts the class whose weights have the smallest angle to the features. The "
        "less the two histograms overlap, the larger the margin."
    )
    figures = side_by_side(*(angle_histogram(name, angles["edges"], part) for name, part in parts))
    return Section("Angles", "angles", intro, figures)


def angle_histogram(name: str, edges: list[float], part: AngleCounts) -> Markup:
    """The histogram for one kind of images."""
    means = [f"{label} {mean_angle(edges, part[key]):.1f}°" for label, key in SERIES]
    caption = f"{name.capitalize()}; mean angles: {', '.join(means)}."
    groups = [(label, part[key]) for label, key in SERIES]
    chart = histogram(edges, groups, f"Histogram of angles. {caption}", "angle in degrees")
    return figure(chart, caption, [label for label, _ in SERIES])


def mean_angle(edges: list[float], counts: list[int]) -> float:
    """The mean of a histogram, with each bin at its center.

    Example:

    >>> mean_angle([0, 10, 20], [1, 3])
    12.5
    """
    total = sum(counts)
    centers = ((low + high) / 2 for low, high in itertools.pairwise(edges))
    return sum(at * n for at, n in zip(centers, counts, strict=True)) / total if total else float("nan")
