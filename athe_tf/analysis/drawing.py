"""Figures, and the colours of the report, for matplotlib."""

import importlib.resources
import re
import textwrap
from collections.abc import Sequence
from typing import Any

from athe_tf.report.plot import DASHES, SERIES_COLORS
from athe_tf.utils.errors import InputError

HATCHES = ("", "///", "...", "\\\\\\", "xxx", "ooo")
MARKERS = ("o", "s", "^", "D", "v", "P")
FONT_SIZE = 11
# Inches of a line of the caption.
LINE_HEIGHT = 0.19
CHARACTERS_PER_INCH = 13.0


def pyplot() -> Any:
    """`matplotlib.pyplot`; raises `InputError` with the remedy if it is not installed."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise InputError(
            "Pictures need matplotlib, which is not installed. Install it with: "
            "pip install 'athe_tf[analysis]'."
        ) from error
    return plt


def color(series: int) -> str:
    """The colour of a series in the report, on white."""
    sheet = importlib.resources.files("athe_tf.report").joinpath("style.css").read_text()
    found = re.search(rf"--c{series % SERIES_COLORS}: (#[0-9a-f]{{6}});", sheet)
    assert found is not None
    return found[1]


def line_style(series: int) -> dict[str, Any]:
    """Colour, dashes and marker of a line: in grey, lines differ in the latter two."""
    dash = DASHES[series % len(DASHES)]
    style = "-" if dash is None else (0, tuple(float(part) / 2 for part in dash.split()))
    return {
        "color": color(series), "linestyle": style, "marker": MARKERS[series % len(MARKERS)],
        "linewidth": 2.0, "markersize": 6,
    }  # fmt: skip


def bar_style(series: int) -> dict[str, Any]:
    """Colour and hatching of bars."""
    return {"color": color(series), "hatch": HATCHES[series % len(HATCHES)], "edgecolor": "white"}


def from_zero(ax) -> None:
    """Lets the vertical axis start at zero and contain all series drawn so far."""
    ax.autoscale(True, axis="y")
    ax.set_ylim(bottom=0)


def hist_width(series: int) -> float:
    """Width of the outline of a histogram: in grey, models differ in it."""
    return (3.0, 1.4, 2.2, 0.9)[series % 4]


def bars(ax, values, series: int, count: int, label: str) -> None:
    """Bars of one of `count` series, side by side at 0, 1, 2, ..."""
    width = 0.8 / count
    places = [i - 0.4 + width * (series + 0.5) for i in range(len(values))]
    ax.bar(places, values, width, label=label, **bar_style(series))


def finish(ax, xlabel: str, ylabel: str, title: str = "") -> None:
    """Titles of the axes, a quiet grid, and a legend if there is something to tell apart."""
    ax.set_xlabel(xlabel, fontsize=FONT_SIZE)
    ax.set_ylabel(ylabel, fontsize=FONT_SIZE)
    ax.set_title(title, fontsize=FONT_SIZE)
    ax.grid(axis="y", color="#d5dbe1", linewidth=0.8)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    entries = len(ax.get_legend_handles_labels()[0])
    if entries:
        # Above the panel, where it hides nothing.
        place = (0.0, 1.08 if title else 1.0)
        columns = 2 if entries > 2 else 1
        ax.legend(
            fontsize=FONT_SIZE - 2, frameon=False, ncols=columns, loc="lower left", bbox_to_anchor=place
        )


def plot(results: Sequence, ax, caption: str):
    """Draws results of one analysis into axes, or into a new figure with a caption."""
    first = results[0]
    needed = first.panels * (1 if first.shared else len(results))
    axes = new_axes(first, needed, caption) if ax is None else _given(ax, needed)
    for series, result in enumerate(results):
        if first.shared:
            result.draw(axes, series, len(results))
        else:
            result.draw(axes[series * first.panels : (series + 1) * first.panels], series, len(results))
    return axes[0] if needed == 1 else axes


def new_axes(result, panels: int, caption: str, projection: str | None = None) -> list:
    """The axes of a new figure, side by side, with the caption under them."""
    width, height = result.size
    columns = min(panels, 3)
    rows = -(-panels // columns)
    lines = textwrap.wrap(caption, int(width * columns * CHARACTERS_PER_INCH))
    below = LINE_HEIGHT * (len(lines) + 1)
    total = height * rows + below
    figure = pyplot().figure(figsize=(width * columns, total), dpi=110, layout="constrained")
    figure.get_layout_engine().set(rect=(0, below / total, 1, 0.97 - below / total))
    figure.text(0.012, (below - 0.1) / total, "\n".join(lines), fontsize=9.5, va="top", color="#1a2128")
    subplots = figure.subplots(rows, columns, squeeze=False, subplot_kw={"projection": projection})
    axes = list(subplots.flat)
    for unused in axes[panels:]:
        unused.remove()
    return axes[:panels]


def _given(ax, needed: int) -> list:
    axes = list(ax) if hasattr(ax, "__len__") else [ax]
    if len(axes) != needed:
        raise InputError(
            f"This picture needs {needed} axes. Received: {len(axes)}. Make them with "
            f"matplotlib.pyplot.subplots(1, {needed}), or leave out `ax`."
        )
    return axes
