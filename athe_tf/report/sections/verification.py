"""The same attacks by independent code."""

from athe_tf.report.format import NOTHING, percent
from athe_tf.report.markup import Markup, join, table, tag
from athe_tf.report.reading import Evaluation
from athe_tf.report.sections.section import Section, paragraph


def section(evaluation: Evaluation) -> Section | None:
    """Where other packages were asked."""
    found = evaluation.data.get("verify")
    if not found:
        return None
    rows = [
        [
            f"{one['tool']}, {one['attack']}",
            percent(one.get("ours")),
            percent(one.get("theirs")),
            difference(one),
        ]
        for one in found
        if "not_run" not in one
    ]
    parts = [paragraph("The same attack at the same epsilon, by code that shares nothing with ours.")]
    if rows:
        head = ("", "accuracy here", "accuracy there", "difference")
        parts.append(table(head, rows, caption="Cross-examination"))
    missing = [
        tag("li", tag("strong", f"{one['tool']}, {one['attack']}"), f": not run: {one['not_run']}")
        for one in found
        if "not_run" in one
    ]
    parts.append(tag("ul", join(missing), class_="notes") if missing else Markup(""))
    return Section("Cross-examination", "verification", join(parts))


def difference(one: dict) -> str:
    """In percentage points, with its sign.

    Example:

    >>> difference({"difference": -0.005})
    '-0.50 points'
    """
    return f"{100 * one['difference']:+.2f} points" if "difference" in one else NOTHING
