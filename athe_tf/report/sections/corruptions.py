"""Accuracy under common corruptions: every kind and severity, and by group."""

from athe_tf.report.charts import Bar, bar_chart, figure
from athe_tf.report.format import percent, points, sentence
from athe_tf.report.markup import Markup, join, shaded, table
from athe_tf.report.reading import Evaluation
from athe_tf.report.sections.section import Section, paragraph


def section(evaluation: Evaluation) -> Section | None:
    """Where corruptions were measured."""
    found = evaluation.data.get("corruptions")
    if not found:
        return None
    parts = [paragraph(summary(found))]
    groups = {name: share for name, share in found.get("groups", {}).items() if share is not None}
    if groups:
        spoken = ", ".join(f"{name} {percent(share, 1)}" for name, share in groups.items())
        chart = bar_chart([Bar(name, share) for name, share in groups.items()], f"By group: {spoken}")
        parts.append(figure(chart, "Mean accuracy by group of corruptions, over all severities."))
    parts.append(full_table(found))
    return Section("Corruptions", "corruptions", join(parts))


def summary(found: dict) -> str:
    """The headline numbers, and whose images these are."""
    figures = []
    if "mca" in found:
        figures.append(f"mean corruption accuracy (mCA) {percent(found['mca'])}")
    if "mce" in found:
        figures.append(f"mean corruption error (mCE) {percent(found['mce'])}")
    source = (
        "The corruptions were generated here, and differ in detail from the published sets: compare these "
        "numbers with each other, not with the tables of papers."
        if found.get("generated")
        else "These are the published images."
    )
    if "protocol" in found:
        source += f" Measured on {found['protocol']}."
    source = " ".join([source, *found.get("remarks", [])])
    return f"{sentence(' and '.join(figures))}. {source}" if figures else source


def full_table(found: dict) -> Markup:
    """Corruptions by severity; the background is as strong as the accuracy."""
    rows = []
    for name, shares in found["accuracy"].items():
        known = [share for share in shares if share is not None]
        mean = sum(known) / len(known) if known else None
        cells = [shaded(share, points(share, 1)) for share in [*shares, mean]]
        rows.append([name.replace("_", " "), *cells])
    head = ("", *(f"severity {level}" for level in found["severities"]), "mean")
    return table(head, rows, caption="Accuracy in per cent by corruption and severity")
