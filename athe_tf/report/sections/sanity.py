"""The sanity checks: signs that the robustness is only apparent."""

from collections.abc import Sequence

from athe_tf.drawing.markup import Markup, tag
from athe_tf.drawing.page import Section, paragraph
from athe_tf.report.format import NOTHING, sentence, value_text
from athe_tf.report.reading import SavedEvaluation
from athe_tf.results.file_format import Check

SIGNS = {"passed": "✓", "failed": "✗", "not run": NOTHING}


def section(evaluation: SavedEvaluation) -> Section | None:
    """Returns `None` if no checks were run."""
    checks = evaluation.result.checks
    if not checks:
        return None
    intro = paragraph(
        f"{tally(checks)}. A model with masked gradients looks robust to weak attacks; these checks look for "
        "signs of that. If one fails, do not rely on the accuracy yet."
    )
    return Section("Sanity checks", "sanity", intro, tag("ul", *map(line, checks), class_="checks"))


def tally(checks: Sequence[Check]) -> str:
    """The number of checks that passed, failed and were not run.

    Example:

    >>> tally([{"status": "passed"}, {"status": "passed"}, {"status": "not run"}])
    '2 passed, 0 failed, 1 not run'
    """
    return ", ".join(f"{sum(check['status'] == status for check in checks)} {status}" for status in SIGNS)


def line(check: Check) -> Markup:
    """One check: sign, name, status, detail and numbers."""
    status = check["status"]
    numbers = [
        tag("li", key.replace("_", " "), " ", tag("b", value_text(rounded(value))))
        for key, value in check.get("numbers", {}).items()
    ]
    return tag(
        "li",
        tag("span", SIGNS.get(status, "?"), class_="sign", aria_hidden="true"),
        tag(
            "div",
            tag("strong", sentence(check["name"])),
            " ",
            tag("span", status, class_="status"),
            paragraph(check["detail"]),
            tag("ul", *numbers, class_="numbers") if numbers else "",
        ),
        class_=status.replace(" ", "-"),
    )


def rounded(value):
    """Numbers of a check, rounded to four significant digits."""
    if isinstance(value, list):
        return [rounded(inner) for inner in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value
