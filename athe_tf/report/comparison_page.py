"""The page of several evaluations side by side."""

from athe_tf.report.charts import Bar, bar_chart, figure, line_chart
from athe_tf.report.comparison import CLEAN, WORST, Cell, Comparison, Row, origin, varying_settings
from athe_tf.report.format import NOTHING, interval_text, percent, plural, points, value_text
from athe_tf.report.markup import Markup, join, table, tag
from athe_tf.report.page import alert, page
from athe_tf.report.plot import share_axis
from athe_tf.report.sections.curve import epsilon_axis, worst_case
from athe_tf.report.sections.section import Section, paragraph, side_by_side


def render_comparison(comparison: Comparison) -> str:
    """A self-contained HTML page."""
    opening = [
        tag("p", verdict(comparison), class_="verdict"),
        alert("Read this before comparing", comparison.warnings),
    ]
    makers = (accuracy, bars, curves, corruptions, settings, sources)
    parts = [make(comparison) for make in makers]
    title = f"Comparison of {plural(len(comparison.rows), 'model')}"
    return page(title, opening, [part for part in parts if part is not None])


def verdict(comparison: Comparison) -> str:
    """Who holds up best, and whether that is more than chance."""
    if comparison.warnings:
        return "These evaluations were not made alike, so no winner is named."
    found = [(row.label, row.cell(WORST)) for row in comparison.rows]
    ranked = sorted(((name, cell) for name, cell in found if cell), key=lambda pair: -pair[1].mean)
    if not ranked:
        return "No attack was run within the threat model, so nothing is known about robustness."
    (first, highest), *others = ranked
    if not others:
        return f"{first}: {_with_spread(highest)} in the worst case."
    second, next_highest = others[0]
    text = (
        f"{first} holds up best, with {_with_spread(highest)} in the worst case, before {second} with "
        f"{_with_spread(next_highest)}."
    )
    if overlap(highest, next_highest):
        text += " The difference is within the uncertainty of these numbers."
    return text


def _with_spread(cell: Cell) -> str:
    if cell.deviation is not None:
        return f"{points(cell.mean)} ± {points(cell.deviation)} %"
    return percent(cell.mean)


def overlap(one: Cell, other: Cell) -> bool:
    """Whether the bounds of two cells meet: intervals of single evaluations, deviations of several seeds."""
    bounds = [_bounds(one), _bounds(other)]
    return max(low for low, _ in bounds) <= min(high for _, high in bounds)


def _bounds(cell: Cell) -> tuple[float, float]:
    if cell.deviation is not None:
        return cell.mean - cell.deviation, cell.mean + cell.deviation
    return cell.interval or (cell.mean, cell.mean)


def accuracy(comparison: Comparison) -> Section:
    """The table: rows models, columns attacks."""
    rows = [
        [row.label, *(_cell(comparison, row, column) for column in comparison.columns)]
        for row in comparison.rows
    ]
    grid = table(("", *comparison.columns), rows, caption="Accuracy in per cent")
    notes = ["Small print: 95 % interval of one model, or standard deviation between the seeds of several."]
    if not comparison.warnings and len(comparison.rows) > 1:
        notes.append("Bold: the highest of a column.")
    return Section("Accuracy", "accuracy", join([grid, paragraph(" ".join(notes))]))


def _cell(comparison: Comparison, row: Row, column: str) -> Markup:
    cell = row.cell(column)
    if cell is None:
        return tag("td", NOTHING, class_="number")
    best = comparison.best(column)
    kind = "number best" if best is not None and cell.mean == best else "number"
    if cell.deviation is not None:
        small = f"± {points(cell.deviation)}, n = {len(cell.values)}"
    else:
        small = interval_text(cell.interval) if cell.interval else ""
    return tag("td", points(cell.mean), tag("small", small) if small else "", class_=kind)


def bars(comparison: Comparison) -> Section:
    """Clean and worst-case accuracy of every model."""
    charts = []
    for series, column in ((4, CLEAN), (1, WORST)):
        found = [(row.label, row.cell(column)) for row in comparison.rows]
        drawn = [Bar(label, cell.mean, _shown_bounds(cell), series) for label, cell in found if cell]
        if drawn:
            spoken = ", ".join(f"{bar.label} {percent(bar.share, 1)}" for bar in drawn)
            charts.append(figure(bar_chart(drawn, f"{column}: {spoken}"), f"{column.capitalize()} accuracy."))
    return Section("Clean and worst case", "bars", side_by_side(*charts))


def _shown_bounds(cell: Cell) -> tuple[float, float] | None:
    if cell.deviation is None:
        return cell.interval
    low, high = _bounds(cell)
    return max(0.0, low), min(1.0, high)


def curves(comparison: Comparison) -> Section | None:
    """Accuracy over epsilon of all models that have such a curve; of several seeds, that of the first."""
    found = [(row, row.evaluations[0].data) for row in comparison.rows]
    drawn = [
        (row.label, sorted(data["curve"], key=lambda point: point["epsilon"]), data["norm"])
        for row, data in found
        if len(data.get("curve", ())) > 1
    ]
    norms = {norm for _, _, norm in drawn}
    if len(drawn) < 2 or len(norms) > 1:
        return None
    series = [worst_case(curve, label) for label, curve, _ in drawn]
    axis = epsilon_axis([point["epsilon"] for _, curve, _ in drawn for point in curve], norms.pop())
    chart = line_chart(series, axis, share_axis(""), "Accuracy over epsilon of all models")
    caption = (
        "Share of images that survive every attack of that epsilon. Of several seeds, the first is shown."
    )
    return Section("Accuracy over epsilon", "curve", figure(chart, caption, [one.name for one in series]))


def corruptions(comparison: Comparison) -> Section | None:
    """Accuracy by group of corruptions, the mean over seeds."""
    measured = [
        (row.label, [one.data["corruptions"].get("groups", {}) for one in row.evaluations])
        for row in comparison.rows
        if all("corruptions" in one.data for one in row.evaluations)
    ]
    names = list(dict.fromkeys(name for _, several in measured for groups in several for name in groups))
    if not names:
        return None
    rows = [
        [label, *(points(mean_of([groups.get(name) for groups in several])) for name in names)]
        for label, several in measured
    ]
    return Section(
        "Corruptions", "corruptions", table(("", *names), rows, caption="Accuracy in per cent by group")
    )


def mean_of(shares: list[float | None]) -> float | None:
    """The mean, or `None` where one is missing."""
    known = [share for share in shares if share is not None]
    return sum(known) / len(known) if known and len(known) == len(shares) else None


def settings(comparison: Comparison) -> Section | None:
    """What differs between the training runs."""
    known = [row for row in comparison.rows if row.evaluations[0].config]
    varied = [name for name in varying_settings([row.evaluations[0] for row in known]) if name != "seed"]
    if not varied:
        return None
    rows = [
        [row.label, *(value_text((row.evaluations[0].config or {}).get(name)) for name in varied)]
        for row in known
    ]
    grid = table(
        ("", *varied), rows, caption="Settings of training that differ", numeric_from=len(varied) + 1
    )
    return Section("What differs", "settings", grid)


def sources(comparison: Comparison) -> Section:
    """Where every row comes from, and how it was measured."""
    rows = []
    for row in comparison.rows:
        data = row.evaluations[0].data
        measured = [data["dataset"], f"{data['norm']}, epsilon {data['epsilon']}"]
        unbroken = [text.replace(" ", "\N{NO-BREAK SPACE}") for text in measured]
        folders = join(tag("div", text) for text in origin(row))
        rows.append([row.label, *unbroken, value_text(data["examples"]), folders])
    head = ("", "data", "threat model", "images", "evaluations")
    return Section(
        "Sources", "sources", table(head, rows, caption="Where the rows come from", numeric_from=5)
    )
