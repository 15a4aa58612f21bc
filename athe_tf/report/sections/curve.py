"""Accuracy over epsilon."""

from athe_tf.drawing.charts import Series, figure, line_chart
from athe_tf.drawing.markup import table
from athe_tf.drawing.page import Section, side_by_side
from athe_tf.drawing.plot import Axis, number_axis, share_axis
from athe_tf.report.accessors import at_headline
from athe_tf.report.format import interval_text, percent
from athe_tf.report.reading import SavedEvaluation
from athe_tf.utils.number_format import format_number, parse_number


def section(evaluation: SavedEvaluation) -> Section | None:
    """Returns `None` unless the evaluation has a curve of at least two points."""
    data = evaluation.data
    curve = sorted(data.get("curve", ()), key=lambda point: point["epsilon"])
    if len(curve) < 2:
        return None
    highest = curve[-1]["epsilon"]
    series = [worst_case(curve), *minimum_norms(data, highest)]
    spoken = ", ".join(f"{percent(p['accuracy'], 1)} at {format_number(p['epsilon'])}" for p in curve)
    headline = parse_number(data["epsilon"])
    marker = (headline, "headline epsilon") if 0 < headline <= highest else None
    axis = epsilon_axis([p["epsilon"] for p in curve], data["norm"])
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


def worst_case(curve: list[dict], name: str = "worst case") -> Series:
    """The curve with its intervals."""
    band = [(p["epsilon"], *p["interval"]) for p in curve]
    return Series(name, [(p["epsilon"], p["accuracy"]) for p in curve], band)


def minimum_norms(data: dict, highest: float) -> list[Series]:
    """The accuracy at every epsilon up to `highest`, for each minimum-norm attack in the same norm."""
    return [
        Series(attack["name"], survivors(attack["norms"], highest), dots=False)
        for attack in data["attacks"]
        if attack.get("norms") and at_headline(attack, data) and _norm(attack, data) == data["norm"]
    ]


def _norm(attack: dict, data: dict) -> str:
    return attack.get("settings", {}).get("norm", data["norm"])


def survivors(norms: list, highest: float, points: int = 65) -> list[tuple[float, float]]:
    """The share of images whose norm is larger than epsilon; `None` means that none was found.

    Example:

    >>> survivors([0.0, 0.1, 0.3, None], highest=0.2, points=3)
    [(0.0, 0.75), (0.1, 0.5), (0.2, 0.5)]
    """
    grid = [highest * step / (points - 1) for step in range(points)]
    return [(at, sum(norm is None or norm > at for norm in norms) / len(norms)) for at in grid]


def epsilon_axis(epsilons, norm: str) -> Axis:
    """Ticks at round numbers, or at multiples of 1/255 if the epsilons are such."""
    title = f"epsilon ({norm})"
    highest = max(epsilons)
    if any("/255" in format_number(value) for value in epsilons):
        pixels = number_axis(0.0, 255 * highest, title)
        ticks = [(value / 255, f"{text}/255" if value else "0") for value, text in pixels.ticks]
        return Axis(0.0, highest, ticks, title)
    return number_axis(0.0, highest, title)
