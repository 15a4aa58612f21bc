"""The report of one evaluation as a page."""

from athe_tf.report.accessors import counts, ran, worst_case
from athe_tf.report.format import duration, interval_text, percent, sentence
from athe_tf.report.markup import Markup, tag
from athe_tf.report.page import alert, key_figures, page
from athe_tf.report.reading import Evaluation, make_evaluation
from athe_tf.report.sections import sections_of
from athe_tf.report.sections.sanity import failed, tally
from athe_tf.report.verdict import threat, verdict


def render(data: dict, examples: dict | None = None) -> str:
    """A self-contained HTML page of what stands in an `evaluation.json`.

    Args:
        data: The evaluation, as `Report.to_dict()` gives it.
        examples: Arrays of images that fell, as in `examples.npz`.
    """
    return render_evaluation(make_evaluation(data, examples))


def render_evaluation(evaluation: Evaluation) -> str:
    """The page of an evaluation that was read from a folder."""
    data = evaluation.data
    title = f"{data['model']} on {data['dataset']}"
    return page(title, opening(data), sections_of(evaluation))


def opening(data: dict) -> list[Markup]:
    """The verdict first, then what to doubt about it, then the numbers."""
    broken = [f"{sentence(check['name'])}: {check.get('detail', '')}".rstrip(": ") for check in failed(data)]
    return [
        tag("p", threat(data), class_="threat"),
        tag("p", verdict(data), class_="verdict"),
        alert("Sanity checks that failed", broken, "#sanity"),
        alert("Warnings", data.get("warnings", ())),
        key_figures(headline(data)),
    ]


def headline(data: dict) -> list[tuple[str, str, str]]:
    """The numbers at the top."""
    attacks, (share, interval) = ran(data), worst_case(data)
    figures = [
        (percent(data["clean_accuracy"]), "clean", _bounds(data.get("clean_interval"))),
        (percent(share), "worst case", _bounds(interval) if share is not None else "no attack counts"),
        (str(sum(map(counts, attacks))), "attacks in the worst case", _time(attacks)),
    ]
    if data.get("checks"):
        passed = sum(check["status"] == "passed" for check in data["checks"])
        figures.append((f"{passed} of {len(data['checks'])}", "sanity checks passed", tally(data["checks"])))
    return figures


def _bounds(interval) -> str:
    return f"95 %: {interval_text(interval)}" if interval else ""


def _time(attacks: list[dict]) -> str:
    return f"{duration(sum(attack.get('seconds', 0.0) for attack in attacks))} in all"
