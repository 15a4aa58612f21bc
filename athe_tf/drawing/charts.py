"""The charts of a report, with captions and legends."""

import dataclasses
import math
from collections.abc import Mapping, Sequence

from athe_tf.drawing.markup import Markup, tag
from athe_tf.drawing.plot import DASHES, WIDTH, Axis, Plot, number_axis, picture, series_class, share_axis
from athe_tf.utils.number_format import percent

# Labels of bars: the width of a letter in units of the drawing, and the maximum length.
LETTER, MOST_LETTERS = 6.8, 24


@dataclasses.dataclass(frozen=True)
class Series:
    """A line: its name, its points `(x, y)`, and a band of `(x, low, high)` around them."""

    name: str
    points: Sequence[tuple[float, float]]
    band: Sequence[tuple[float, float, float]] = ()
    dots: bool = True


@dataclasses.dataclass(frozen=True)
class Bar:
    """A horizontal bar: a label, a share of 1, its 95% interval, and the number of its color."""

    label: str
    share: float
    interval: Sequence[float] | None = None
    series: int = 0


def figure(chart: Markup, caption: str, legend: Sequence[str] = (), boxes: Sequence[int] = ()) -> Markup:
    """A chart with its caption, and the names of its series; `boxes` are their colors, if they are bars."""
    parts = [chart]
    if len(legend) > 1:
        samples = [swatch(series, line=False) for series in boxes] or map(swatch, range(len(legend)))
        items = [tag("li", sample, name) for sample, name in zip(samples, legend, strict=True)]
        parts.append(tag("ul", *items, class_="legend"))
    return tag("figure", *parts, tag("figcaption", caption))


def swatch(series: int, line: bool = True) -> Markup:
    """The sample of a series in a legend."""
    if line:
        dash = DASHES[series % len(DASHES)]
        shape = tag("path", d="M0 6H28", class_=f"line {series_class(series)}", stroke_dasharray=dash)
    else:
        shape = tag("rect", x=8, y=0, width=12, height=12, class_=f"bar {series_class(series)}")
    return tag("svg", shape, viewBox="0 0 28 12", width=28, height=12, aria_hidden="true")


def line_chart(series: Sequence[Series], x: Axis, y: Axis, title: str, marker=None) -> Markup:
    """Lines with confidence bands; `marker` is `(x, text)`."""
    plot = Plot(x, y, title)
    if marker is not None:
        plot.marker(*marker)
    for number, one in enumerate(series):
        plot.band(list(one.band), number)
    for number, one in enumerate(series):
        plot.line(one.points, number)
        if one.dots:
            for at, value in one.points:
                plot.dot(at, value, number, f"{one.name}: {at:.4g}, {value:.4g}")
    return plot.svg()


def bar_chart(bars: Sequence[Bar], title: str) -> Markup:
    """Horizontal bars of accuracies with their intervals, from 0 to 100%; screen readers read the values."""
    row, top, bottom, right = 26, 6, 26, 62
    # Capitals are wider.
    shown = [bar.label[:MOST_LETTERS] for bar in bars]
    left = 12 + LETTER * max(len(label) + 0.35 * sum(map(str.isupper, label)) for label in shown)
    scale = WIDTH - left - right
    height = top + row * len(bars) + bottom
    parts = []
    for tick in (0, 25, 50, 75, 100):
        at = left + scale * tick / 100
        parts.append(tag("line", x1=f"{at:.1f}", x2=f"{at:.1f}", y1=top, y2=height - bottom, class_="grid"))
        parts.append(tag("text", f"{tick}%", x=f"{at:.1f}", y=height - 8, text_anchor="middle"))
    for number, bar in enumerate(bars):
        parts.extend(_bar(bar, top + row * number, row, left, scale))
    values = ", ".join(f"{bar.label} {percent(bar.share, 1)}" for bar in bars)
    return picture(f"{title}: {values}", height, parts)


def _bar(bar: Bar, top: float, row: float, left: float, scale: float):
    middle = top + row / 2
    baseline = f"{middle + 4:.1f}"
    label = bar.label if len(bar.label) <= MOST_LETTERS else bar.label[: MOST_LETTERS - 1] + "…"
    yield tag("text", tag("title", bar.label), label, x=f"{left - 8:.1f}", y=baseline, text_anchor="end")
    yield tag(
        "rect", tag("title", f"{bar.label}: {percent(bar.share)}"), x=f"{left:.1f}", y=f"{middle - 8:.1f}",
        width=f"{scale * bar.share:.1f}", height=16, class_=f"bar {series_class(bar.series)}",
    )  # fmt: skip
    end = bar.share
    if bar.interval is not None:
        low, high = (left + scale * value for value in bar.interval)
        end = max(end, bar.interval[1])
        yield tag(
            "path", d=f"M{low:.1f} {middle - 4}v8M{low:.1f} {middle}H{high:.1f}M{high:.1f} {middle - 4}v8",
            class_="whisker",
        )  # fmt: skip
    yield tag("text", percent(bar.share, 1), x=f"{left + scale * end + 6:.1f}", y=baseline, class_="value")


def column_chart(labels: Sequence[str], groups: Sequence[tuple], title: str, x_title: str) -> Markup:
    """Vertical bars at each label, one of every group `(name, series, shares)`; `None` is no bar."""
    room = int(0.9 * WIDTH / len(labels) / LETTER)
    crowded = max(map(len, labels)) > room
    # Long labels are in two lines, in turn, and take the place of the title.
    texts = [one if len(one) < 2 * room else one[: 2 * room - 2] + "…" for one in labels]
    ticks = [(position + 0.5, label) for position, label in enumerate(texts)]
    axis = Axis(0, len(labels), ticks, "" if crowded else x_title, lines=1 + crowded)
    plot = Plot(axis, share_axis(""), title)
    width = 0.8 / len(groups)
    for number, (name, series, shares) in enumerate(groups):
        for position, (label, share) in enumerate(zip(labels, shares, strict=True)):
            if share is not None and math.isfinite(share):
                start = position + 0.1 + width * number
                plot.box(start, start + width, 0, share, series, f"{name}, {label}: {percent(share)}")
    return plot.svg()


def histogram(edges: Sequence[float], groups: Sequence[tuple], title: str, x_title: str) -> Markup:
    """Overlapping histograms `(name, counts)` over the same bins; each is drawn as shares of its total."""
    shares = [(name, _shares(counts)) for name, counts in groups]
    highest = max((value for _, values in shares for value in values), default=0.0) or 1.0
    y = number_axis(0.0, 1.08 * highest, "", wanted=4)
    y = dataclasses.replace(y, ticks=[(value, f"{100 * value:.4g}%") for value, _ in y.ticks])
    plot = Plot(number_axis(edges[0], edges[-1], x_title, wanted=6), y, title)
    for series, (name, values) in enumerate(shares):
        outline = [(edges[0], 0.0)]
        for start, end, value in zip(edges[:-1], edges[1:], values, strict=True):
            outline += [(start, value), (end, value)]
            if value:
                label = f"{name}, {start:.4g} to {end:.4g}: {percent(value, 1)}"
                plot.box(start, end, 0, value, series, label, "area")
        plot.line([*outline, (edges[-1], 0.0)], series)
    return plot.svg()


def _shares(counts: Sequence[float]) -> list[float]:
    total = sum(counts)
    return [count / total if total else 0.0 for count in counts]


def reliability_chart(bins: Sequence[Mapping], title: str) -> Markup:
    """Accuracy over confidence; the area of a point shows the share of images in its bin."""
    plot = Plot(share_axis("confidence"), share_axis(""), title)
    plot.add("line", x1=plot.x(0), y1=plot.y(0), x2=plot.x(1), y2=plot.y(1), class_="marker")
    total = sum(one["count"] for one in bins) or 1
    filled = [one for one in bins if one["count"] and None not in (one["confidence"], one["accuracy"])]
    for one in filled:
        shares = f"confidence {percent(one['confidence'], 1)}, accuracy {percent(one['accuracy'], 1)}"
        label = f"{shares}, {one['count']} images"
        plot.dot(one["confidence"], one["accuracy"], 0, label, 3 + 12 * math.sqrt(one["count"] / total))
    return plot.svg()
