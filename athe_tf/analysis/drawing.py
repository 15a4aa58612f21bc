"""Figures, and the colors of the report, for matplotlib."""

import re
import textwrap
from collections.abc import Sequence
from typing import Any

from athe_tf.drawing.markup import style
from athe_tf.drawing.plot import DASHES, SERIES_COLORS
from athe_tf.utils.errors import check
from athe_tf.utils.registry import import_optional

HATCHES = ("", "///", "...", "\\\\\\", "xxx", "ooo")
MARKERS = ("o", "s", "^", "D", "v", "P")
# The dark gray of texts and reference lines.
INK = "#1a2128"
DASHED = (0, (4, 2))
# matplotlib's names of flat axes and of those with a depth.
FLAT, DEEP = "rectilinear", "3d"
FONT_SIZE = 12
SMALL = 10.5
# Inches of a line of the caption, and how many of its characters fit into an inch.
LINE_HEIGHT = 0.205
CHARACTERS_PER_INCH = 11.0
# Names under an axis.
MOST_NAMES = 25


def pyplot(backend: str | None = None) -> Any:
    """`matplotlib.pyplot`; raises `InputError` with the remedy if it is not installed."""
    remedy = "Install it with: pip install 'athe_tf[analysis]'."
    message = f"Pictures need matplotlib, which is not installed. {remedy}"
    matplotlib = import_optional("matplotlib", message)
    if backend is not None:
        matplotlib.use(backend)
    return import_optional("matplotlib.pyplot", message)


def color(series: int) -> str:
    """The color of a series in the report, on white."""
    found = re.search(rf"--c{series % SERIES_COLORS}: (#[0-9a-f]{{6}});", style())
    assert found is not None
    return found[1]


def line_style(series: int) -> dict[str, Any]:
    """Color, dashes and marker of a line: in gray, lines differ in the latter two."""
    dash = DASHES[series % len(DASHES)]
    style = "-" if dash is None else (0, tuple(float(part) / 2 for part in dash.split()))
    return {
        "color": color(series), "linestyle": style, "marker": MARKERS[series % len(MARKERS)],
        "linewidth": 2.0, "markersize": 6,
    }  # fmt: skip


def pixel_unit(norm: str) -> tuple[float, str]:
    """The factor by which pictures show lengths of perturbations, and its text for the title of an axis."""
    return (255.0, "1/255") if norm == "linf" else (1.0, f"{norm} norm, pixels in [0, 1]")


def from_zero(ax) -> None:
    """Lets the vertical axis start at zero and contain all series drawn so far."""
    ax.autoscale(True, axis="y")
    ax.set_ylim(bottom=0)


def bars(ax, values, series: int, count: int, label: str) -> None:
    """Bars of one of `count` series, side by side at 0, 1, 2, ..."""
    style = {"color": color(series), "hatch": HATCHES[series % len(HATCHES)], "edgecolor": "white"}
    ax.bar(bar_places(len(values), series, count), values, 0.8 / count, label=label, **style)


def bar_places(bars: int, series: int, count: int) -> list[float]:
    """The middles of the bars of one of `count` series."""
    return [i + 0.8 * ((series + 0.5) / count - 0.5) for i in range(bars)]


def histogram(ax, values, bins, series: int, label: str, dashed: bool = False) -> None:
    """The outline of a histogram; in gray, models differ in its width."""
    style = {"linewidth": (3.0, 1.4, 2.2, 0.9)[series % 4], "linestyle": DASHED if dashed else "-"}
    ax.hist(values, bins, histtype="step", color=color(series), label=label, **style)


def category_ticks(ax, names: Sequence[str]) -> None:
    """Names under the bars at 0, 1, 2, ...; only every other, or fewer, if there are many."""
    every = -(-len(names) // MOST_NAMES)
    long = max(map(len, names)) > 3
    ax.set_xticks(range(0, len(names), every), names[::every])
    ax.tick_params(axis="x", labelsize=SMALL if len(names) <= 12 else SMALL - 2)
    for label in ax.get_xticklabels():
        label.set(rotation=30 if long else 0, ha="right" if long else "center", rotation_mode="anchor")


def titles(ax, xlabel: str, ylabel: str, title: str = "") -> None:
    """Titles of the axes and of the panel."""
    ax.set_xlabel(xlabel, fontsize=FONT_SIZE)
    ax.set_ylabel(ylabel, fontsize=FONT_SIZE)
    ax.set_title(title, fontsize=FONT_SIZE)
    ax.tick_params(labelsize=SMALL)


def finish(ax, xlabel: str, ylabel: str, title: str = "") -> None:
    """Titles, a quiet grid, and a legend if there is something to tell apart."""
    titles(ax, xlabel, ylabel, title)
    ax.grid(axis="y", color="#d5dbe1", linewidth=0.8)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    # Bars first; matplotlib has lines before them.
    found = zip(*ax.get_legend_handles_labels(), strict=True)
    entries = sorted(found, key=lambda entry: not hasattr(entry[0], "patches"))
    if entries:
        short = max(len(label) for _, label in entries) < 20
        # Above the panel, where it hides nothing.
        ax.legend(
            *zip(*entries, strict=True), fontsize=SMALL, frameon=False, loc="lower left",
            ncols=2 if short and len(entries) > 2 else 1, bbox_to_anchor=(0.0, 1.08 if title else 1.0),
        )  # fmt: skip


def new_axes(size: tuple[float, float], panels: int, caption: str, projection: str) -> list:
    """The axes of a new figure, side by side, each of this width and height, with the caption under them."""
    width, height = size
    columns = min(panels, 3)
    rows = -(-panels // columns)
    wrap = textwrap.TextWrapper(int(width * columns * CHARACTERS_PER_INCH), break_on_hyphens=False).wrap
    lines = [part for line in caption.splitlines() for part in wrap(line)]
    below = LINE_HEIGHT * (len(lines) + 1)
    total = height * rows + below
    figure = pyplot().figure(figsize=(width * columns, total), dpi=100, layout="constrained")
    figure.get_layout_engine().set(rect=(0, below / total, 1, 0.98 - below / total))
    text = "\n".join(lines)
    figure.text(0.1 / (width * columns), (below - 0.1) / total, text, fontsize=SMALL, va="top", color=INK)
    subplots = figure.subplots(rows, columns, squeeze=False, subplot_kw={"projection": projection})
    axes = list(subplots.flat)
    for unused in axes[panels:]:
        unused.remove()
    return axes[:panels]


def given_axes(ax, needed: int) -> list:
    """A user's axes as a list; raises `InputError` if there are not as many as needed."""
    axes = list(ax) if hasattr(ax, "__len__") else [ax]
    check(
        len(axes) == needed,
        f"This picture needs {needed} axes. Received: {len(axes)}. Make them with "
        f"matplotlib.pyplot.subplots(1, {needed}), or leave out `ax`.",
    )
    return axes
