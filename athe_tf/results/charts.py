"""The charts and the pictures of a result, for reports and notebooks."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from athe_tf.drawing.charts import Bar, Series, bar_chart, figure, line_chart
from athe_tf.drawing.markup import Markup, table, tag
from athe_tf.drawing.plot import Axis, number_axis, share_axis
from athe_tf.drawing.png import data_uri, encode
from athe_tf.results.attack_outcome import AttackOutcome
from athe_tf.results.file_format import CurvePoint
from athe_tf.utils.number_format import NOTHING, format_number, percent

if TYPE_CHECKING:
    from athe_tf.results.result import Result

# Numbers of the colors of the bars.
ATTACKED, WORST, CLEAN, OUTSIDE = 0, 1, 4, 5
# Larger images are reduced to at most this many pixels per side: twelve rows of three stay below 2 MB.
MOST_PIXELS = 112


def accuracy_figure(result: "Result") -> Markup:
    """Bars with intervals: clean, every attack, the worst case."""
    caption = (
        "Share of images that are classified correctly, clean and under attack. Whiskers are 95% confidence "
        "intervals (Wilson). In the worst case, an image counts only if it survives every attack."
    )
    return figure(bar_chart(bars(result), "Accuracy by attack"), caption)


def curve_figure(result: "Result") -> Markup:
    """Accuracy over epsilon, for a result with a curve."""
    curve = sorted(result.curve, key=lambda point: point["epsilon"])
    highest = curve[-1]["epsilon"]
    series = [worst_case(curve), *minimum_norms(result, highest)]
    spoken = ", ".join(f"{percent(p['accuracy'], 1)} at {format_number(p['epsilon'])}" for p in curve)
    marker = (result.epsilon, "headline epsilon") if 0 < result.epsilon <= highest else None
    axis = epsilon_axis([p["epsilon"] for p in curve], result.norm)
    chart = line_chart(series, axis, share_axis(""), f"Accuracy over epsilon: {spoken}", marker)
    caption = (
        "Share of images that survive every attack of that epsilon, with 95% confidence intervals. Gradient "
        "masking often shows here: the curve does not reach zero."
    )
    if len(series) > 1:
        caption += (
            " Minimum-norm attacks give a whole curve each: the share of images whose perturbation is longer "
            "than epsilon."
        )
    return figure(chart, caption, [one.name for one in series])


def accuracy_table(result: "Result") -> Markup:
    """Clean, every attack and the worst case, for a notebook."""
    rows = [["clean", percent(result.clean_accuracy), *_ends(result.clean_interval), ""]]
    for one in result.attacks:
        if not one.was_run:
            rows.append([one.name, "not run", "", "", str(one.not_run)])
            continue
        remark = "" if one.in_worst_case else "not in the worst case"
        rows.append([result.label(one), percent(one.accuracy), *_ends(one.interval), remark])
    share, interval = result.worst_case_accuracy, result.worst_case_interval
    rows.append(["worst case", percent(share), *_ends(interval), ""])
    kinds = [None] * (len(rows) - 1) + ["total"]
    about = f"{result.model} on {result.examples:,} images of {result.dataset}"
    caption = f"{about}, {result.norm} {result.epsilon_text}"
    return table(("", "accuracy", "95% from", "to", ""), rows, caption=caption, row_classes=kinds)


def _ends(interval) -> list[str]:
    return [NOTHING] * 2 if interval is None else [percent(end, 1) for end in interval]


def example_cards(result: "Result", most: int) -> Markup:
    """Adversarial examples: clean, adversarial, difference."""
    examples = result.pictures or {}
    shown = range(len(examples["clean"]) if examples else 0)[:most]
    return tag("div", *(example(result, examples, position) for position in shown), class_="examples")


def bars(result: "Result") -> list[Bar]:
    """Clean, every attack that was run, and the worst case; other epsilons are shown by the curve."""
    attacked = [
        Bar(result.label(one), one.accuracy, one.interval, ATTACKED if one.in_worst_case else OUTSIDE)
        for one in result.ran
        if shown_first(one, result)
    ]
    share, interval = result.worst_case_accuracy, result.worst_case_interval
    total = [] if share is None else [Bar("worst case", share, interval, WORST)]
    return [Bar("clean", result.clean_accuracy, result.clean_interval, CLEAN), *attacked, *total]


def shown_first(attack: AttackOutcome, result: "Result") -> bool:
    """Whether an attack is in the chart and the first table; other epsilons have their own curve."""
    return result.at_headline(attack) or not result.curve


def worst_case(curve: list[CurvePoint], name: str = "worst case") -> Series:
    """The curve with its intervals."""
    band = [(p["epsilon"], p["interval"][0], p["interval"][1]) for p in curve]
    return Series(name, [(p["epsilon"], p["accuracy"]) for p in curve], band)


def minimum_norms(result: "Result", highest: float) -> list[Series]:
    """The accuracy at every epsilon up to `highest`, for each minimum-norm attack in the same norm."""
    at_headline = [a for a in result.ran if result.at_headline(a) and a.norm in (None, result.norm)]
    return [
        Series(attack.name, survivors(attack.norms, highest), dots=False)
        for attack in at_headline
        if attack.minimum_norm and attack.norms is not None and len(attack.norms)
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
    title, highest = f"epsilon ({norm})", max(epsilons)
    if any("/255" in format_number(value) for value in epsilons):
        pixels = number_axis(0.0, 255 * highest, title)
        ticks = [(value / 255, f"{text}/255" if value else "0") for value, text in pixels.ticks]
        return Axis(0.0, highest, ticks, title)
    return number_axis(0.0, highest, title)


def example(result: "Result", examples: dict, position: int) -> Markup:
    """One example: three pictures and a line of text."""
    clean, adversarial = (np.asarray(examples[key][position], "float64") for key in ("clean", "adversarial"))
    difference, factor = amplified(clean, adversarial)
    names = ("label", "clean_prediction", "adversarial_prediction")
    label, before, after = (result.class_name(int(examples[name][position])) for name in names)
    attack = str(examples["attack"][position])
    magnified = f"difference \N{MULTIPLICATION SIGN}{factor:.2g}"
    pictures = [
        (shrunk(clean), f"clean: {before}", f"Clean image of class {label}"),
        (shrunk(adversarial), f"{attack}: {after}", f"The same image after {attack}, classified as {after}"),
        (thinned(difference), magnified, "Their difference, amplified"),
    ]
    heading = f"class {label}, perturbation {float(examples['norm'][position]):.4g}"
    return tag("div", tag("h3", heading), triple(pictures), class_="example")


def triple(pictures: Sequence[tuple[np.ndarray, str, str]]) -> Markup:
    """Three pictures in a row: `(image, caption, text for screen readers)`."""
    figures = [
        tag("figure", tag("img", src=data_uri(encode(image)), alt=alt), tag("figcaption", text))
        for image, text, alt in pictures
    ]
    return tag("div", *figures, class_="triple")


def amplified(clean: np.ndarray, adversarial: np.ndarray) -> tuple[np.ndarray, float]:
    """The difference around mid-gray, and the factor that makes its largest value black or white."""
    difference = adversarial - clean
    largest = float(np.max(np.abs(difference)))
    if not (math.isfinite(largest) and largest > 0):
        return np.full_like(clean, 0.5), 1.0
    # From mid-gray, a change of 0.5 is black or white.
    factor = 0.5 / largest
    return 0.5 + factor * difference, factor


def shrunk(image: np.ndarray) -> np.ndarray:
    """An image of at most `MOST_PIXELS` per side: the means of square blocks."""
    block = _block(image)
    height, width = (size - size % block for size in image.shape[:2])
    blocks = image[:height, :width].reshape(height // block, block, width // block, block, -1)
    return blocks.mean(axis=(1, 3))


def thinned(image: np.ndarray) -> np.ndarray:
    """Every n-th pixel: means of a perturbation would fade it to gray."""
    return image[:: _block(image), :: _block(image)]


def _block(image: np.ndarray) -> int:
    return max(1, math.ceil(max(image.shape[:2]) / MOST_PIXELS))
