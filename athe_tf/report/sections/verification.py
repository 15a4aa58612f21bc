"""The same attacks by independent code."""

from athe_tf.drawing.markup import Markup, table, tag
from athe_tf.drawing.page import Section, paragraph
from athe_tf.report.format import percent
from athe_tf.report.reading import SavedEvaluation
from athe_tf.results.file_format import CrossCheck


def section(evaluation: SavedEvaluation) -> Section | None:
    """Returns `None` unless other packages repeated the attacks."""
    found = evaluation.result.verify
    if not found:
        return None
    rows = [
        [f"{one['tool']}, {one['attack']}", percent(one["ours"]), percent(one["theirs"]), difference(one)]
        for one in found
        if "not_run" not in one
    ]
    parts = [paragraph("The same attacks at the same epsilon, by independent code.")]
    if rows:
        head = ("", "athe_tf", "other package", "difference")
        parts.append(table(head, rows, caption="Cross-examination"))
    missing = [
        tag("li", tag("strong", f"{one['tool']}, {one['attack']}"), f": not run: {one['not_run']}")
        for one in found
        if "not_run" in one
    ]
    parts.append(tag("ul", *missing, class_="notes") if missing else Markup(""))
    return Section("Cross-examination", "verification", *parts)


def difference(one: CrossCheck) -> str:
    """The difference in percentage points, with its sign.

    Example:

    >>> difference({"tool": "art", "attack": "fgsm", "difference": -0.005})
    '-0.50 points'
    """
    return f"{100 * one['difference']:+.2f} points"
