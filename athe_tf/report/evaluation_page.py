"""The report of one evaluation as a page."""

from athe_tf.drawing.markup import Markup, tag
from athe_tf.drawing.page import alert, key_figures, page
from athe_tf.report.format import duration, interval_text, percent, sentence, threat_line
from athe_tf.report.reading import SavedEvaluation, as_saved
from athe_tf.report.sections import sections_of
from athe_tf.report.sections.sanity import tally
from athe_tf.results.result import Result


def render(evaluation, examples: dict | None = None) -> str:
    """Renders an evaluation as a self-contained HTML page.

    Example:

    >>> result = athe_tf.evaluate(net, (images, labels), attacks=["pgd-20"])
    >>> page = athe_tf.report.render(result)

    Args:
        evaluation: A `Result` of `athe_tf.evaluate`, the dictionary of an `evaluation.json`, or what
            `read_evaluation` returns.
        examples: Arrays of adversarial examples, as in `examples.npz`. Defaults to those of the evaluation.
    """
    saved = as_saved(evaluation, examples)
    title = f"{saved.result.model} on {saved.result.dataset}"
    return page(title, opening(saved), sections_of(saved))


def opening(evaluation: SavedEvaluation) -> list[Markup]:
    """The verdict first, then reasons to doubt it, then the numbers."""
    result = evaluation.result
    broken = [
        f"{sentence(check['name'])}: {check['detail']}"
        for check in result.checks
        if check["status"] == "failed"
    ]
    return [
        tag("p", threat_line(result), class_="threat"),
        tag("p", result.verdict, class_="verdict"),
        alert("Failed sanity checks", broken, "#sanity"),
        alert("Warnings", [*evaluation.notes, *result.warnings]),
        key_figures(headline(result)),
    ]


def headline(result: Result) -> list[tuple[str, str, str]]:
    """The numbers at the top."""
    seconds = sum(attack.seconds for attack in result.ran)
    share, interval = result.worst_case_accuracy, result.worst_case_interval
    figures = [
        (percent(result.clean_accuracy), "clean", _bounds(result.clean_interval)),
        (percent(share), "worst case", _bounds(interval) if share is not None else "no attack counts"),
        (str(len(result.counted)), "attacks in the worst case", f"{duration(seconds)} in total"),
    ]
    if result.checks:
        passed = sum(check["status"] == "passed" for check in result.checks)
        figures.append((f"{passed} of {len(result.checks)}", "sanity checks passed", tally(result.checks)))
    return figures


def _bounds(interval) -> str:
    return f"95 %: {interval_text(interval)}"
