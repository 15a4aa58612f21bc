"""The report of one evaluation as a page."""

from collections.abc import Callable

from athe_tf.drawing.markup import Markup, Section, alert, key_figures, page, tag
from athe_tf.report import attack_sections, model_sections
from athe_tf.report.format import duration, interval_text, percent, sentence, threat_line
from athe_tf.report.reading import SavedEvaluation, as_saved
from athe_tf.results.result import Result
from athe_tf.results.text_table import tally

#: The sections in order: the anchor, the title, and the function that makes the content.
ORDER: dict[str, tuple[str, Callable[[SavedEvaluation], list[Markup]]]] = {
    "attacks": ("Accuracy by attack", attack_sections.attacks),
    "conversion": ("The file and its parent", attack_sections.conversion),
    "curve": ("Accuracy over epsilon", attack_sections.curve),
    "sanity": ("Sanity checks", model_sections.sanity),
    "images": ("Adversarial examples", model_sections.images),
    "classes": ("Classes", attack_sections.classes),
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
        examples: Arrays of adversarial examples, as in `examples.npz`. Defaults to those of the evaluation.
    """
    saved = as_saved(evaluation, examples)
    title = f"{saved.result.model} on {saved.result.dataset}"
    made = [(heading, anchor, content(saved)) for anchor, (heading, content) in ORDER.items()]
    sections = [Section(heading, anchor, *parts) for heading, anchor, parts in made if parts]
    return page(title, opening(saved), sections)


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
