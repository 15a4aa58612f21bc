"""Accuracy over epsilon."""

import numpy as np

from athe_tf.drawing.charts import Series, figure, line_chart
from athe_tf.drawing.markup import table
from athe_tf.drawing.page import Section, side_by_side
from athe_tf.drawing.plot import Axis, number_axis, share_axis
from athe_tf.report.format import interval_text, percent
from athe_tf.report.reading import SavedEvaluation
from athe_tf.results.file_format import CurvePoint
from athe_tf.results.result import Result
from athe_tf.utils.number_format import format_number


def section(evaluation: SavedEvaluation) -> Section | None:
    """Returns `None` unless the evaluation has a curve of at least two points."""
    result = evaluation.result
    curve = sorted(result.curve, key=lambda point: point["epsilon"])
    if len(curve) < 2:
        return None
    highest = curve[-1]["epsilon"]
    series = [worst_case(curve), *minimum_norms(result, highest)]
    spoken = ", ".join(f"{percent(p['accuracy'], 1)} at {format_number(p['epsilon'])}" for p in curve)
    headline = result.epsilon
    marker = (headline, "headline epsilon") if 0 < headline <= highest else None
    axis = epsilon_axis([p["epsilon"] for p in curve], result.norm)
    chart = line_chart(series, axis, share_axis(""), f"Accuracy over epsilon: {spoken}", marker)
    caption = (
        "Share of images that survive every attack of that epsilon, with 95 % confidence intervals. Gradient "
        "masking often shows here: the curve does not reach zero."
    )
    if len(series) > 1:
        caption += (
            " Minimum-norm attacks give a whole curve each: the share of images whose perturbation is longer "
            "than epsilon."
        )
    rows = [
        [format_number(p["epsilon"]), percent(p["accuracy"]), interval_text(p["interval"])] for p in curve
    ]
    numbers = table(("epsilon", "accuracy", "95 % interval"), rows, caption="The points of the curve")
    legend = [one.name for one in series]
    return Section("Accuracy over epsilon", "curve", side_by_side(figure(chart, caption, legend), numbers))


def worst_case(curve: list[CurvePoint], name: str = "worst case") -> Series:
    """The curve with its intervals."""
    band = [(p["epsilon"], p["interval"][0], p["interval"][1]) for p in curve]
    return Series(name, [(p["epsilon"], p["accuracy"]) for p in curve], band)


def minimum_norms(result: Result, highest: float) -> list[Series]:
    """The accuracy at every epsilon up to `highest`, for each minimum-norm attack in the same norm."""
    return [
        Series(attack.name, survivors(attack.norms, highest), dots=False)
        for attack in result.ran
        if attack.norms is not None
        and len(attack.norms)
        and result.at_headline(attack)
        and attack.norm in (None, result.norm)
    ]


def survivors(norms, highest: float, points: int = 65) -> list[tuple[float, float]]:
    """The share of images whose norm is larger than epsilon; an infinite one means that none was found.

    Example:

    >>> survivors([0.0, 0.1, 0.3, float("inf")], highest=0.2, points=3)
    [(0.0, 0.75), (0.1, 0.5), (0.2, 0.5)]
    """
    grid = [highest * step / (points - 1) for step in range(points)]
    return [(at, float(np.mean(np.asarray(norms) > at))) for at in grid]


def epsilon_axis(epsilons, norm: str) -> Axis:
    """Ticks at round numbers, or at multiples of 1/255 if the epsilons are such."""
    title = f"epsilon ({norm})"
    highest = max(epsilons)
    if any("/255" in format_number(value) for value in epsilons):
        pixels = number_axis(0.0, 255 * highest, title)
        ticks = [(value / 255, f"{text}/255" if value else "0") for value, text in pixels.ticks]
        return Axis(0.0, highest, ticks, title)
    return number_axis(0.0, highest, title)
