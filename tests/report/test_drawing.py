"""What charts, images and tables are made of."""

import io
import pathlib
import re
import xml.etree.ElementTree as ET

import matplotlib.image
import numpy as np
import pytest

import athe_tf.drawing
from athe_tf.drawing import png
from athe_tf.drawing.charts import Bar, Series, bar_chart, histogram, line_chart, reliability_chart
from athe_tf.drawing.markup import Markup, join, shaded, table, tag
from athe_tf.drawing.plot import Axis, Plot, number_axis, share_axis
from athe_tf.report.format import percent, value_text
from athe_tf.results.charts import MOST_PIXELS, amplified, epsilon_axis, shrunk, survivors, thinned
from athe_tf.utils.number_format import format_duration

STYLE = (pathlib.Path(athe_tf.drawing.__file__).parent / "style.css").read_text()


@pytest.mark.parametrize("shape", [(5, 7, 3), (5, 7, 1), (4, 4)])
def test_a_png_is_read_back_by_another_library(shape):
    values = np.random.default_rng(0).integers(0, 256, shape)
    read = matplotlib.image.imread(io.BytesIO(png.encode(values / 255)))
    np.testing.assert_array_equal(np.round(255 * read).astype(int), values.squeeze())


def test_a_png_shows_as_many_channels_as_it_can_and_clips():
    for channels, shown in ((2, 1), (4, 3)):
        image = np.random.default_rng(0).uniform(-1, 2, (3, 3, channels))
        image[0, 0] = np.nan
        read = matplotlib.image.imread(io.BytesIO(png.encode(image)))
        expected = np.round(255 * np.clip(np.nan_to_num(image[..., :shown]), 0, 1))
        np.testing.assert_array_equal(np.round(255 * read), expected.squeeze())


def test_only_tags_are_markup():
    assert tag("p", "<b>", tag("i", "x & y"), title='"') == (
        '<p title="&quot;">&lt;b&gt;<i>x &amp; y</i></p>'
    )
    # Text that went through formatting is text again: it cannot smuggle a tag in.
    assert join([f"{Markup('<b>')}"]) == "&lt;b&gt;"
    assert tag("img", alt=None, src="x") == '<img src="x">'


def test_a_table_has_heads_for_rows_and_columns():
    text = table(("", "a"), [["first", "1"], ["second", shaded(0.5, "2")]], caption="Numbers")
    assert text.count('scope="row"') == 2 and text.count('scope="col"') == 2
    assert "<caption>Numbers</caption>" in text and "--share:50%" in text and 'tabindex="0"' in text


def elements(svg, name):
    return [one for one in ET.fromstring(svg).iter() if one.tag == name]


def test_bars_are_as_long_as_their_shares():
    shares = (0.25, 0.5, 1.0)
    svg = bar_chart([Bar(str(share), share, (share - 0.1, share)) for share in shares], "title")
    widths = [float(bar.get("width")) for bar in elements(svg, "rect")]
    np.testing.assert_allclose(np.array(widths) / widths[-1], shares, atol=1e-3)
    starts = [float(bar.get("x")) for bar in elements(svg, "rect")]
    whiskers = [path.get("d") for path in elements(svg, "path")]
    for share, start, whisker in zip(shares, starts, whiskers, strict=True):
        low = float(re.match(r"M([\d.]+) ", whisker).group(1))
        assert low == pytest.approx(start + (share - 0.1) * widths[-1], abs=0.2)


def test_a_line_goes_through_its_points_and_stops_where_there_is_none():
    plot = Plot(Axis(0, 10, []), Axis(0, 1, []), "title")
    plot.line([(0, 0), (10, 1), (5, float("nan")), (5, 0.5)], 0)
    (path,) = elements(plot.svg(), "path")
    points = [tuple(map(float, pair)) for pair in re.findall(r"[ML]([\d.]+) ([\d.]+)", path.get("d"))]
    left, bottom = points[0]
    right, top = points[1]
    assert right > left and top < bottom
    assert points[2] == pytest.approx(((left + right) / 2, (top + bottom) / 2), abs=0.06)
    assert path.get("d").count("M") == 2


def test_histograms_show_shares_of_their_own_total():
    svg = histogram([0, 1, 2], [("few", [1, 3]), ("many", [30, 10])], "title", "x")
    heights = [float(box.get("height")) for box in elements(svg, "rect")]
    np.testing.assert_allclose(np.array(heights) / heights[1], [1 / 3, 1, 1, 1 / 3], atol=0.01)
    svg = histogram([0, 1, 2], [("uneven", [1, 3]), ("even", [10, 10])], "title", "x")
    heights = [float(box.get("height")) for box in elements(svg, "rect")]
    np.testing.assert_allclose(np.array(heights) / heights[1], [1 / 3, 1, 2 / 3, 2 / 3], atol=0.01)


def test_reliability_leaves_empty_bins_out():
    bins = [
        {"confidence": 0.5, "accuracy": 0.4, "count": 3},
        {"confidence": None, "accuracy": None, "count": 0},
    ]
    assert len(elements(reliability_chart(bins, "title"), "circle")) == 1


def test_series_differ_in_dashes_as_well_as_in_color():
    series = [Series(name, [(0, 0), (1, 1)]) for name in "abcd"]
    paths = elements(line_chart(series, share_axis("x"), share_axis("y"), "title"), "path")
    assert len({path.get("stroke-dasharray") for path in paths}) == 4
    assert len({path.get("class") for path in paths}) == 4


@pytest.mark.parametrize(
    "low, high, ticks",
    [
        (0, 1, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        (1, 20, ["5", "10", "15", "20"]),
        (0, 0, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        (0, 3e-3, ["0", "0.001", "0.002", "0.003"]),
    ],
)
def test_ticks_are_round_numbers(low, high, ticks):
    assert [text for _, text in number_axis(low, high, "").ticks] == ticks


def test_an_axis_of_epsilons_counts_in_pixels_where_the_epsilons_do():
    texts = [text for _, text in epsilon_axis([0, 2 / 255, 8 / 255], "linf").ticks]
    assert texts == ["0", "2/255", "4/255", "6/255", "8/255"]
    assert epsilon_axis([0, 0.5], "l2").ticks[1][1] == "0.1"


def test_survivors_of_a_minimum_norm_attack():
    norms = np.random.default_rng(0).exponential(0.1, 200)
    norms[norms > 0.4] = np.inf
    for at, share in survivors(norms, highest=0.3, points=7):
        assert share == pytest.approx((norms > at).mean())
    # A perturbation as long as epsilon is within epsilon.
    assert survivors([0.0, 0.25, 0.5, np.inf], highest=0.5, points=3) == [
        (0.0, 0.75),
        (0.25, 0.5),
        (0.5, 0.25),
    ]


def test_differences_are_amplified_to_the_whole_range():
    clean = np.full((4, 4, 1), 0.5)
    moved = clean.copy()
    moved[0, 0], moved[1, 1] = 0.5 + 0.02, 0.5 - 0.01
    shown, factor = amplified(clean, moved)
    assert factor == pytest.approx(25)
    assert (shown[0, 0, 0], shown[1, 1, 0], shown[2, 2, 0]) == pytest.approx((1.0, 0.25, 0.5))
    np.testing.assert_array_equal(amplified(clean, clean)[0], 0.5)


def test_large_images_are_reduced():
    image = np.random.default_rng(0).uniform(size=(224, 200, 3))
    small = shrunk(image)
    assert small.shape == (112, 100, 3) and max(small.shape) <= MOST_PIXELS
    np.testing.assert_allclose(small[3, 5], image[6:8, 10:12].mean(axis=(0, 1)))
    np.testing.assert_array_equal(thinned(image), image[::2, ::2])
    np.testing.assert_allclose(shrunk(image[:32, :32]), image[:32, :32])


def test_numbers_as_readers_want_them():
    assert percent(0.51249) == "51.25%" and percent(float("nan")) == percent(None) == "\N{EN DASH}"
    assert [format_duration(s) for s in (0.44, 75.2, 7260)] == ["0.4 s", "1 min 15 s", "2 h 1 min"]
    assert value_text({"a": 8 / 255, "b": [True, None]}) == "a 8/255, b yes, none"


def test_every_style_stays_inside_the_report():
    """A report may be shown inside a notebook."""
    text = re.sub(r"/\*.*?\*/", "", STYLE, flags=re.DOTALL)
    selectors = re.findall(r"([^{};]+)\{", text)
    for selector in (part.strip() for whole in selectors for part in whole.split(",")):
        assert selector.startswith((".athe-tf", "@media")) or selector == "1fr)", selector
    assert "url(" not in text and "@import" not in text


def palettes():
    """The colors of the light and of the dark page."""
    blocks = re.findall(r"\{([^{}]*--page:[^{}]*)\}", STYLE)
    return [dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block)) for block in blocks]


def contrast(one, other):
    """As WCAG 2 defines it."""
    lights = []
    for color in (one, other):
        channels = np.array([int(color[start : start + 2], 16) / 255 for start in (1, 3, 5)])
        linear = np.where(channels <= 0.03928, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
        lights.append(linear @ [0.2126, 0.7152, 0.0722])
    return (max(lights) + 0.05) / (min(lights) + 0.05)


@pytest.mark.parametrize("palette", palettes(), ids=["light", "dark", "print"])
def test_colors_can_be_told_from_the_page(palette):
    # WCAG 2: 4.5 for text, 3 for graphics.
    for name in ("text", "quiet", "link", "good", "bad"):
        for ground in ("page", "card"):
            assert contrast(palette[name], palette[ground]) >= 4.5, (name, ground)
    for series in range(6):
        assert contrast(palette[f"c{series}"], palette["page"]) >= 3, series
