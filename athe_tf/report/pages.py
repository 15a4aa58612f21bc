"""The pages of one evaluation, and of several side by side."""

from athe_tf.drawing import markup
from athe_tf.drawing.charts import figure, line_chart
from athe_tf.drawing.markup import Markup, table, tag
from athe_tf.drawing.plot import share_axis
from athe_tf.report import attack_sections, model_sections
from athe_tf.report.comparison import Comparison, Row, settings_of, varying_settings
from athe_tf.report.format import NOTHING, interval_text, plural, points, sentence, threat_line, value_text
from athe_tf.report.reading import SavedEvaluation, as_saved
from athe_tf.results import charts
from athe_tf.results.notices import explained, warning_texts
from athe_tf.results.result import Result
from athe_tf.results.text_table import requirement_line, tally
from athe_tf.utils.number_format import format_duration, percent

#: The sections of one evaluation, in order.
ORDER: markup.Sections = {
    "attacks": ("Accuracy by attack", attack_sections.attacks),
    "epsilon": ("What epsilon means", model_sections.epsilon),
    "images": ("Adversarial examples", model_sections.images),
    "baseline": ("Before and after", attack_sections.baseline),
    "conversion": ("The file and its parent", attack_sections.conversion),
    "judging": ("Who decides", attack_sections.judging),
    "norms": ("Several norms", attack_sections.norms),
    "curve": ("Accuracy over epsilon", attack_sections.curve),
    "distances": ("Distances", attack_sections.distances),
    "classes": ("Classes", attack_sections.classes),
    "sanity": ("Sanity checks", model_sections.sanity),
    "angles": ("Angles", model_sections.angles),
    "calibration": ("Calibration", model_sections.calibration),
    "corruptions": ("Corruptions", attack_sections.corruptions),
    "transfer": ("Transfer", attack_sections.transfer),
    "verification": ("Cross-examination", attack_sections.verification),
    "analyses": ("Analyses", model_sections.analyses),
    "training": ("Training", model_sections.training),
    "settings": ("Settings", model_sections.settings),
}


def render(evaluation, examples: dict | None = None) -> str:
    """Renders an evaluation as a self-contained HTML page.

    Example:

    >>> result = athe_tf.evaluate(net, (images, labels), attacks=["pgd-20"])
    >>> page = athe_tf.report.render(result)

    Args:
        evaluation: A `Result` of `athe_tf.evaluate`, the dictionary of an `evaluation.json`, or what
            `read_evaluation` returns.
        examples: Arrays of adversarial examples, as in `examples.npz`. Defaults to the evaluation's.
    """
    saved = as_saved(evaluation, examples)
    title = f"{saved.result.model} on {saved.result.dataset}"
    return markup.page(title, opening(saved), ORDER, saved)


def opening(evaluation: SavedEvaluation) -> list[Markup]:
    """The verdict first, then reasons to doubt it, then the numbers."""
    result = evaluation.result
    broken = [
        f"{sentence(check['name'])}: {explained(check['detail'], check['name'])}"
        for check in result.checks
        if check["status"] == "failed"
    ]
    unmet = [requirement_line(one) for one in result.requirements if not one["met"]]
    return [
        tag("p", threat_line(result), class_="threat"),
        tag("p", result.verdict, class_="verdict"),
        markup.alert("Failed sanity checks", broken, "#sanity"),
        markup.alert("Requirements that are not met", unmet),
        markup.alert("Warnings", [*evaluation.notes, *warning_texts(result.warnings)]),
        markup.key_figures(headline(result)),
    ]


def headline(result: Result) -> list[tuple[str, str, str]]:
    """The numbers at the top."""
    seconds = sum(attack.seconds for attack in result.ran)
    share, interval = result.worst_case_accuracy, result.worst_case_interval
    figures = [
        (percent(result.clean_accuracy), "clean", f"95%: {interval_text(result.clean_interval)}"),
        (
            percent(share),
            "worst case",
            "no attack counts" if share is None else f"95%: {interval_text(interval)}",
        ),
        (str(len(result.counted)), "attacks in the worst case", f"{format_duration(seconds)} in total"),
    ]
    if result.checks:
        passed = sum(check["status"] == "passed" for check in result.checks)
        figures.append((f"{passed} of {len(result.checks)}", "sanity checks passed", tally(result.checks)))
    return figures


def render_comparison(comparison: Comparison) -> str:
    """A self-contained HTML page."""
    opening = [
        tag("p", comparison.verdict, class_="verdict"),
        markup.alert("Read this before comparing", comparison.warnings),
    ]
    sections: markup.Sections = {
        "accuracy": ("Accuracy", accuracy),
        "differences": ("Differences in the worst case", differences),
        "bars": ("Clean and worst case", bars),
        "curve": ("Accuracy over epsilon", curves),
        "corruptions": ("Corruptions", corruptions),
        "settings": ("Settings that differ", settings),
        "sources": ("Sources", sources),
    }
    title = f"Comparison of {plural(len(comparison.rows), 'model')}"
    return markup.page(title, opening, sections, comparison)


def accuracy(comparison: Comparison) -> list[Markup]:
    """The table: rows models, columns attacks."""
    columns = comparison.columns
    rows = [[row.label, *(_cell(comparison, row, each) for each in columns)] for row in comparison.rows]
    grid = table(("", *columns), rows, caption="Accuracy in %")
    notes = ["Small print: 95% interval of a single model, or standard deviation over seeds."]
    if not comparison.warnings and len(comparison.rows) > 1:
        notes.append("Bold: the highest of a column.")
    return [grid, tag("p", " ".join(notes)), markup.notes(comparison.notes)]


def _cell(comparison: Comparison, row: Row, column: str) -> Markup:
    cell = row.cell(column)
    if cell is None:
        return tag("td", NOTHING, class_="number")
    kind = "number best" if cell.mean == comparison.best(column) else "number"
    small = interval_text(cell.interval) if cell.interval else ""
    if cell.deviation is not None:
        small = f"± {points(cell.deviation)}, n = {len(cell.values)}"
    return tag("td", points(cell.mean), tag("small", small) if small else "", class_=kind)


def differences(comparison: Comparison) -> list[Markup]:
    """How much more robust each model is than the first, and the images that changed sides."""
    rows, folded = [], []
    for one in comparison.differences:
        name = f"{one.row} minus {one.reference}"
        between = (
            NOTHING if one.interval is None else " to ".join(f"{100 * end:+.2f}" for end in one.interval)
        )
        p_value = NOTHING if one.p_value is None else f"{one.p_value:.2g}"
        counts = [str(len(one.broken)), str(len(one.rescued))]
        rows.append([name, one.test, f"{100 * one.value:+.2f}", between, p_value, *counts])
        folded += attack_sections.changed_sides(one, f" ({name})")
    head = ("", "test", "points", "95% interval", "p", "newly broken images", "newly robust images")
    caption = "Images changed sides if that is so in every seed"
    return [table(head, rows, caption=caption, numeric_from=2), *folded] if rows else []


def bars(comparison: Comparison) -> list[Markup]:
    """Clean and worst-case accuracy of every model."""
    return [*comparison.plot().parts]


def curves(comparison: Comparison) -> list[Markup]:
    """Accuracy over epsilon of all models that have such a curve; for several seeds, the first."""
    found = [(row, row.evaluations[0].result) for row in comparison.rows]
    drawn = [
        (row.label, sorted(result.curve, key=lambda point: point["epsilon"]), result.norm)
        for row, result in found
        if len(result.curve) > 1
    ]
    norms = {norm for _, _, norm in drawn}
    if len(drawn) < 2 or len(norms) > 1:
        return []
    series = [charts.worst_case(curve, label) for label, curve, _ in drawn]
    axis = charts.epsilon_axis([point["epsilon"] for _, curve, _ in drawn for point in curve], norms.pop())
    chart = line_chart(series, axis, share_axis(""), "Accuracy over epsilon of all models")
    caption = (
        "Share of images that survive every attack of that epsilon. For several seeds, the first is shown."
    )
    return [figure(chart, caption, [one.name for one in series])]


def corruptions(comparison: Comparison) -> list[Markup]:
    """Accuracy by group of corruptions, averaged over seeds."""
    measured = [
        (row.label, [found.get("groups", {}) for found in several if found])
        for row in comparison.rows
        if all(several := [one.result.corruptions for one in row.evaluations])
    ]
    names = list(dict.fromkeys(name for _, several in measured for groups in several for name in groups))
    if not names:
        return []
    rows = [
        [label, *(points(mean_of([groups.get(name) for groups in several])) for name in names)]
        for label, several in measured
    ]
    return [table(("", *names), rows, caption="Accuracy in % by group")]


def mean_of(shares: list[float | None]) -> float | None:
    """The mean, or `None` if a value is missing."""
    known = [share for share in shares if share is not None]
    return sum(known) / len(known) if known and len(known) == len(shares) else None


def settings(comparison: Comparison) -> list[Markup]:
    """Settings that differ between the training runs."""
    firsts = [(row.label, row.evaluations[0]) for row in comparison.rows]
    varied = varying_settings([first for _, first in firsts])
    if not varied:
        return []
    known = [(label, settings_of(first)) for label, first in firsts if first.config]
    texts = [[f"{name} {value_text(config.get(name))}" for name in varied] for _, config in known]
    rows = [[label, ", ".join(text)] for (label, _), text in zip(known, texts, strict=True)]
    return [table(("", "settings"), rows, caption="Training settings that differ", numeric_from=2)]


def sources(comparison: Comparison) -> list[Markup]:
    """The source of every row, and how it was measured."""
    rows = []
    for row in comparison.rows:
        result = row.evaluations[0].result
        measured = [result.dataset, f"{result.norm}, epsilon {result.epsilon_text}"]
        unbroken = [text.replace(" ", "\N{NO-BREAK SPACE}") for text in measured]
        folders = tag("td", *(tag("div", text) for text in row.origin), class_="paths")
        rows.append([row.label, *unbroken, value_text(result.examples), folders])
    head = ("", "data", "threat model", "images", "evaluations")
    return [table(head, rows, caption="Sources of the rows", numeric_from=5)]
