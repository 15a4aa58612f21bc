"""The report of one evaluation as a page."""

from athe_tf.drawing.markup import Markup, tag
from athe_tf.drawing.page import alert, key_figures, page
from athe_tf.report.accessors import counts, ran, threat_line, worst_case
from athe_tf.report.format import duration, interval_text, percent, sentence
from athe_tf.report.reading import SavedEvaluation, as_saved
from athe_tf.report.sections import sections_of
from athe_tf.report.sections.sanity import failed, tally


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
    title = f"{saved.data['model']} on {saved.data['dataset']}"
    return page(title, opening(saved), sections_of(saved))


def opening(evaluation: SavedEvaluation) -> list[Markup]:
    """The verdict first, then reasons to doubt it, then the numbers."""
    data = evaluation.data
    broken = [f"{sentence(check['name'])}: {check['detail']}" for check in failed(data)]
    return [
        tag("p", threat_line(data), class_="threat"),
        tag("p", data["verdict"], class_="verdict"),
        alert("Failed sanity checks", broken, "#sanity"),
        alert("Warnings", [*evaluation.notes, *data["warnings"]]),
        key_figures(headline(data)),
    ]


def headline(data: dict) -> list[tuple[str, str, str]]:
    """The numbers at the top."""
    attacks, (share, interval) = ran(data), worst_case(data)
    seconds = sum(attack["seconds"] for attack in attacks)
    figures = [
        (percent(data["clean_accuracy"]), "clean", _bounds(data["clean_interval"])),
        (percent(share), "worst case", _bounds(interval) if share is not None else "no attack counts"),
        (str(sum(map(counts, attacks))), "attacks in the worst case", f"{duration(seconds)} in total"),
    ]
    if data.get("checks"):
        passed = sum(check["status"] == "passed" for check in data["checks"])
        figures.append((f"{passed} of {len(data['checks'])}", "sanity checks passed", tally(data["checks"])))
    return figures


def _bounds(interval) -> str:
    return f"95 %: {interval_text(interval)}"
