"""A drawing area with two axes, as inline SVG.

Colors are classes (`series0`, `series1`, ...) that the style sheet defines for light and dark pages; lines
also differ in their dashes, for readers who cannot distinguish the colors.
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from athe_tf.drawing.markup import Markup, tag

WIDTH = 440
DASHES = (None, "7 4", "2 3", "9 3 2 3")
SERIES_COLORS = 6
# Axes that are shorter, relative to their ends, are not resolved by floating-point numbers.
SMALLEST = 1e-12


@dataclasses.dataclass(frozen=True)
class Axis:
    """The range of an axis, its ticks as `(value, text)`, its title, and in how many lines the texts are."""

    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    title: str = ""
    lines: int = 1

    def position(self, value):
        """The position of a value, or of each of an array, from 0 to 1."""
        if self.high == self.low:
            return 0.5 + 0.0 * value
        return (value - self.low) / (self.high - self.low)


def share_axis(title: str) -> Axis:
    """0 to 100%."""
    return Axis(0.0, 1.0, [(tick / 100, f"{tick}%") for tick in (0, 25, 50, 75, 100)], title)


def number_axis(low: float, high: float, title: str, wanted: int = 5) -> Axis:
    """An axis from `low` to `high` with about `wanted` round ticks."""
    if not high - low > SMALLEST * max(1.0, abs(low), abs(high)):
        high = low + max(1.0, abs(low))
    step = _round_step((high - low) / wanted)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return Axis(low, high, [(n * step, f"{n * step:.6g}") for n in range(first, last + 1)], title)


def _round_step(raw: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten that is at least `raw`."""
    power = 10.0 ** math.floor(math.log10(raw))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * (1 - 1e-9))


class Plot:
    """A drawing between two axes; `title` says what it shows, for screen readers."""

    left, right, top, bottom, height = 48, 22, 22, 44, 270

    def __init__(self, x: Axis, y: Axis, title: str):
        self.x_axis, self.y_axis, self.title = x, y, title
        self.parts: list[Markup] = []
        self._draw_axes()

    def x(self, value):
        """The horizontal coordinate of a value, or of each of an array."""
        return self.left + self.x_axis.position(value) * (WIDTH - self.left - self.right)

    def y(self, value):
        """The vertical coordinate of a value, or of each of an array."""
        floor = self.height - self.bottom
        return floor - self.y_axis.position(value) * (floor - self.top)

    def add(self, name: str, *children, **attributes) -> None:
        self.parts.append(tag(name, *children, **attributes))

    def text(self, x: float, y: float, text: str, **attributes) -> None:
        self.add("text", text, x=_short(x), y=_short(y), **attributes)

    def line(self, points, series: int) -> None:
        """A line through `points`, interrupted where they are not finite."""
        x, y = np.array([*points], float).reshape(-1, 2).T
        path, pen_down, finite = "", False, np.isfinite(x) & np.isfinite(y)
        for at, up, visible in zip(_coordinates(self.x(x)), _coordinates(self.y(y)), finite, strict=True):
            path += f"{'L' if pen_down else 'M'}{at} {up}" if visible else ""
            pen_down = visible
        dash = DASHES[series % len(DASHES)]
        self.add("path", d=path, class_=f"line {series_class(series)}", stroke_dasharray=dash)

    def band(self, points, series: int) -> None:
        """The area between `(x, low, high)`."""
        if len(points) < 2:
            return
        x, low, high = np.array([*points], float).T
        edge = np.append(x, x[::-1]), np.append(high, low[::-1])
        corners = zip(_coordinates(self.x(edge[0])), _coordinates(self.y(edge[1])), strict=True)
        path = "L".join(" ".join(corner) for corner in corners)
        self.add("path", d=f"M{path}Z", class_=f"band {series_class(series)}")

    def dot(self, x: float, y: float, series: int, label: str, radius: float = 3.5) -> None:
        """A point with a tooltip."""
        if math.isfinite(x) and math.isfinite(y):
            self.add(
                "circle", tag("title", label), cx=_short(self.x(x)), cy=_short(self.y(y)), r=_short(radius),
                class_=f"dot {series_class(series)}",
            )  # fmt: skip

    def box(self, x0: float, x1: float, y0: float, y1: float, series: int, label: str, kind="bar") -> None:
        """A rectangle between two values on each axis."""
        left, right = np.sort(self.x(np.array([x0, x1])))
        top, bottom = np.sort(self.y(np.array([y0, y1])))
        at, up, width, height = _coordinates([left, top, right - left, bottom - top])
        look = f"{kind} {series_class(series)}"
        self.add("rect", tag("title", label), x=at, y=up, width=width, height=height, class_=look)

    def marker(self, x: float, text: str) -> None:
        """A vertical line with a text above it."""
        at = _short(self.x(x))
        self.add("line", x1=at, x2=at, y1=self.top, y2=self.height - self.bottom, class_="marker")
        place = self.x_axis.position(x)
        anchor = "start" if place < 0.2 else "end" if place > 0.8 else "middle"
        self.text(self.x(x), self.top - 8, text, text_anchor=anchor, class_="strong")

    def _draw_axes(self) -> None:
        floor, right = self.height - self.bottom, WIDTH - self.right
        for value, text in self.y_axis.ticks:
            at = self.y(value)
            self.add("line", x1=self.left, x2=right, y1=_short(at), y2=_short(at), class_="grid")
            self.text(self.left - 6, at + 4, text, text_anchor="end")
        for number, (value, text) in enumerate(self.x_axis.ticks):
            line = number % self.x_axis.lines
            self.text(self.x(value), floor + 17 + 15 * line, text, text_anchor="middle")
        self.add("line", x1=self.left, x2=right, y1=floor, y2=floor, class_="axis")
        if self.x_axis.title:
            middle = (self.left + right) / 2
            self.text(middle, self.height - 6, self.x_axis.title, text_anchor="middle", class_="title")

    def svg(self) -> Markup:
        """The drawing."""
        return picture(self.title, self.height, self.parts)


def picture(title: str, height: float, parts) -> Markup:
    """An SVG that is as wide as its column."""
    box = f"0 0 {WIDTH} {_short(height)}"
    return tag("svg", *parts, viewBox=box, role="img", aria_label=title, class_="chart")


def series_class(series: int) -> str:
    """The CSS class of a series."""
    return f"series{series % SERIES_COLORS}"


def _coordinates(numbers) -> list[str]:
    """Coordinates with one decimal, which keeps the page small."""
    return [f"{number:.1f}".removesuffix(".0") for number in numbers]


def _short(number: float) -> str:
    """One coordinate."""
    return _coordinates([number])[0]
