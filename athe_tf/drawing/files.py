"""Charts as files: SVG that needs no style sheet, and PDF."""

import pathlib
import re
import xml.etree.ElementTree as ET
from typing import Any

from athe_tf.drawing.markup import Markup, style
from athe_tf.drawing.plot import WIDTH
from athe_tf.utils.registry import import_optional

_NAMESPACE = "http://www.w3.org/2000/svg"
_PATH = re.compile(r"([MLHVvZ])([^A-Za-z]*)")
_CHART = re.compile(r'<svg [^>]*class="chart".*?</svg>', re.DOTALL)
NEEDS_MATPLOTLIB = (
    "PDF figures need matplotlib, which is not installed. Install it with: pip install 'athe_tf[analysis]'."
)
# What the style sheet says of the parts of a chart; `own` is the color of the series.
_LOOKS = {
    "grid": {"stroke": "rule", "stroke-width": "1"},
    "axis": {"stroke": "quiet", "stroke-width": "1"},
    "marker": {"stroke": "quiet", "stroke-width": "1", "stroke-dasharray": "2 4"},
    "whisker": {"stroke": "text", "stroke-width": "1.5", "fill": "none"},
    "line": {"stroke": "own", "stroke-width": "2.2", "fill": "none", "stroke-linejoin": "round"},
    "bar": {"fill": "own"},
    "dot": {"fill": "own", "stroke": "page", "stroke-width": "1"},
    "band": {"fill": "own", "opacity": "0.18"},
    "area": {"fill": "own", "opacity": "0.22"},
    "strong": {"fill": "text"},
    "value": {"fill": "text"},
}
_TEXT = {"font-size": "12.5", "font-family": "sans-serif", "fill": "quiet"}


def charts_of(page: str) -> list[Markup]:
    """All charts of a page, in order."""
    return [Markup(found) for found in _CHART.findall(page)]


def standalone(chart: str) -> ET.Element:
    """A chart whose elements carry their colors, which a page gives by its style sheet."""
    colors = dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", style().partition("@media")[0]))
    ET.register_namespace("", _NAMESPACE)
    root = ET.fromstring(chart.replace("<svg ", f'<svg xmlns="{_NAMESPACE}" ', 1))
    for element in root.iter():
        classes = element.attrib.pop("class", "").split()
        series = next((one.removeprefix("series") for one in classes if one.startswith("series")), "0")
        look = dict(_TEXT) if element.tag.endswith("}text") else {}
        for name in classes:
            look |= _LOOKS.get(name, {})
        for key, value in look.items():
            value = colors.get(f"c{series}" if value == "own" else value, value)
            element.attrib.setdefault(key, value)
    return root


def svg_text(chart: str) -> str:
    """A chart as the content of an SVG file."""
    return ET.tostring(standalone(chart), encoding="unicode") + "\n"


def write_pdf(chart: str, path: pathlib.Path) -> None:
    """Writes a chart as PDF, with matplotlib: the same shapes at the same places, a point per unit."""
    figures = import_optional("matplotlib.figure", NEEDS_MATPLOTLIB)
    root = standalone(chart)
    height = float(root.attrib["viewBox"].split()[3])
    figure = figures.Figure(figsize=(WIDTH / 72, height / 72))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(height, 0))
    axes.axis("off")
    for element in root:
        _draw(axes, element.tag.rpartition("}")[2], element)
    figure.savefig(path, format="pdf", metadata={"CreationDate": None})


def _draw(axes: Any, name: str, element: ET.Element) -> None:
    from matplotlib import patches, path

    look = element.attrib
    numbers = {key: float(value) for key, value in look.items() if re.fullmatch(r"-?[\d.]+", value)}
    x, y = numbers.get("x", 0.0), numbers.get("y", 0.0)
    if name == "text":
        anchor = {"middle": "center", "end": "right"}.get(look.get("text-anchor", ""), "left")
        text = "".join([element.text or "", *(child.tail or "" for child in element)])
        axes.text(x, y, text, ha=anchor, va="baseline", size=12.5 * 0.95, color=look["fill"])
        return
    if name == "rect":
        shape: Any = patches.Rectangle((x, y), numbers["width"], numbers["height"])
    elif name == "circle":
        shape = patches.Circle((numbers["cx"], numbers["cy"]), numbers["r"])
    elif name == "line":
        ends = [(numbers["x1"], numbers["y1"]), (numbers["x2"], numbers["y2"])]
        shape = patches.PathPatch(path.Path(ends))
    elif name == "path" and look["d"]:
        shape = patches.PathPatch(path.Path(*_vertices(look["d"])))
    else:
        return
    shape.set(
        facecolor=look.get("fill", "none"),
        edgecolor=look.get("stroke", "none"),
        linewidth=numbers.get("stroke-width", 0.0),
        alpha=numbers.get("opacity"),
    )
    if "stroke-dasharray" in look:
        shape.set_linestyle((0, [float(part) for part in look["stroke-dasharray"].split()]))
    axes.add_patch(shape)


def _vertices(data: str) -> tuple[list[tuple[float, float]], list[int]]:
    """The points of the `d` of a path, and how matplotlib gets to each: 1 moves, 2 draws, 79 closes."""
    points: list[tuple[float, float]] = []
    codes: list[int] = []
    for command, text in _PATH.findall(data):
        numbers = [float(number) for number in text.split()]
        x, y = points[-1] if points else (0.0, 0.0)
        if command in "ML":
            x, y = numbers
        elif command == "H":
            x = numbers[0]
        elif command != "Z":
            y = numbers[0] + (y if command == "v" else 0.0)
        points.append((x, y))
        codes.append({"M": 1, "Z": 79}.get(command, 2))
    return points, codes
