"""Sections of a report about the model: whether its robustness is real, how it behaves, where it comes from.

Each section is a function that returns its content, empty if the evaluation has no data for it.
"""

import itertools
import math
from typing import Literal

import numpy as np

from athe_tf.drawing.charts import Series, figure, histogram, line_chart, reliability_chart
from athe_tf.drawing.markup import Markup, details, scrolling, side_by_side, table, tag
from athe_tf.drawing.plot import number_axis, share_axis
from athe_tf.drawing.png import data_uri
from athe_tf.report.format import NOTHING, percent, sentence, value_text
from athe_tf.report.reading import SavedEvaluation
from athe_tf.results.charts import example_cards, shrunk, thinned, triple
from athe_tf.results.file_format import AngleCounts, Check
from athe_tf.results.text_table import tally

SIGNS = {"passed": "✓", "failed": "✗", "not run": NOTHING}
MOST_EXAMPLES = 12
ANGLES: tuple[tuple[str, Literal["true", "nearest_wrong"]], ...] = (
    ("true class", "true"),
    ("nearest wrong class", "nearest_wrong"),
)
ACCURACIES = {
    "clean_accuracy": "clean, training",
    "robust_accuracy": "robust, training",
    "val_clean_accuracy": "clean, held out",
    "val_robust_accuracy": "robust, held out",
}
LOSSES = {"loss": "training", "val_loss": "held out"}
HEADLINE = {
    "model": "model", "run": "training run", "dataset": "data", "examples": "images", "classes": "classes",
    "norm": "norm", "epsilon_text": "epsilon", "protocol": "protocol", "seed": "seed",
}  # fmt: skip


def sanity(evaluation: SavedEvaluation) -> list[Markup]:
    """The sanity checks: signs that the robustness is only apparent."""
    checks = evaluation.result.checks
    if not checks:
        return []
    intro = (
        f"{tally(checks)}. A model with masked gradients looks robust to weak attacks; these checks look for "
        "signs of that. If one fails, do not rely on the accuracy yet."
    )
    lines = tag("ul", *map(check_line, checks), class_="checks")
    passed = all(check["status"] != "failed" for check in checks)
    return [tag("p", intro), details("All checks", lines) if passed else lines]


def check_line(check: Check) -> Markup:
    """One check: sign, name, status, detail and numbers."""
    status = check["status"]
    numbers = [
        tag("li", key.replace("_", " "), " ", tag("b", value_text(rounded(value))))
        for key, value in check.get("numbers", {}).items()
    ]
    sign = tag("span", SIGNS.get(status, "?"), class_="sign", aria_hidden="true")
    name, shown = tag("strong", sentence(check["name"])), tag("span", status, class_="status")
    listed = tag("ul", *numbers, class_="numbers") if numbers else ""
    text = tag("div", name, " ", shown, tag("p", check["detail"]), listed)
    return tag("li", sign, text, class_=status.replace(" ", "-"))


def rounded(value):
    """Numbers of a check, rounded to four significant digits."""
    if isinstance(value, list):
        return [rounded(inner) for inner in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def epsilon(evaluation: SavedEvaluation) -> list[Markup]:
    """One sentence about the radius, and a perturbation of that size."""
    result, examples = evaluation.result, evaluation.examples
    if not examples or len(examples["clean"]) == 0:
        return []
    clean, size = np.asarray(examples["clean"][0], "float64"), result.epsilon
    direction = np.random.default_rng(0).choice([-1.0, 1.0], clean.shape)
    length = {"linf": 1.0, "l2": float(np.sqrt(clean.size)), "l1": float(clean.size)}.get(result.norm, 1.0)
    changed = np.clip(clean + direction * size / length, 0, 1)
    each = f"{255 * size / length:.3g} of 255 levels"
    meaning = {
        "linf": f"every color of every pixel may change by at most {each}",
        "l2": f"all changes together have at most this length: {each} each, if all pixels change alike",
        "l1": f"all changes add up to at most this: {each} each, if all pixels change alike",
    }.get(result.norm, "it is the largest size of a change")
    text = f"{sentence(result.norm)} {result.epsilon_text} means: {meaning}. The noise here has that size."
    pictures = [
        (shrunk(clean), "clean", "A clean image"),
        (shrunk(changed), f"with noise of {result.norm} {result.epsilon_text}", "The same image with noise"),
        (thinned(0.5 + changed - clean), "the noise, on gray", "The noise on gray, not amplified"),
    ]
    return [tag("p", text), tag("div", triple(pictures), class_="examples")]


def images(evaluation: SavedEvaluation) -> list[Markup]:
    """Adversarial examples: clean image, adversarial image, and their amplified difference."""
    examples = evaluation.examples
    if not examples or len(examples["clean"]) == 0:
        return []
    intro = (
        "The clean and the adversarial image with the predicted class, and their difference: gray where "
        "nothing changed, and amplified so that the largest change is black or white."
    )
    return [tag("p", intro), example_cards(evaluation.result, MOST_EXAMPLES)]


def angles(evaluation: SavedEvaluation) -> list[Markup]:
    """Angles between features and class weights, for hypersphere heads."""
    found = evaluation.result.angles
    if not found:
        return []
    parts: list[tuple[str, AngleCounts]] = [("clean images", found)]
    if "adversarial" in found:
        parts.append(("adversarial images", found["adversarial"]))
    intro = (
        "A hypersphere head predicts the class whose weights have the smallest angle to the features. The "
        "less the two histograms overlap, the larger the margin."
    )
    figures = [angle_histogram(name, found["edges"], part) for name, part in parts]
    return [tag("p", intro), side_by_side(*figures)]


def angle_histogram(name: str, edges: list[float], part: AngleCounts) -> Markup:
    """The histogram for one kind of images."""
    means = [f"{label} {mean_angle(edges, part[key]):.1f}°" for label, key in ANGLES]
    caption = f"{name.capitalize()}; mean angles: {', '.join(means)}."
    groups = [(label, part[key]) for label, key in ANGLES]
    chart = histogram(edges, groups, f"Histogram of angles. {caption}", "angle in degrees")
    return figure(chart, caption, [label for label, _ in ANGLES])


def mean_angle(edges: list[float], counts: list[int]) -> float:
    """The mean of a histogram, with each bin at its center.

    Example:

    >>> mean_angle([0, 10, 20], [1, 3])
    12.5
    """
    total = sum(counts)
    centers = ((low + high) / 2 for low, high in itertools.pairwise(edges))
    return sum(at * n for at, n in zip(centers, counts, strict=True)) / total if total else float("nan")


def calibration(evaluation: SavedEvaluation) -> list[Markup]:
    """Calibration, clean and under attack."""
    found, figures = evaluation.result.calibration or {}, []
    for name, part in (("Clean", found.get("clean")), ("Adversarial", found.get("adversarial"))):
        if part is not None:
            caption = f"{name} images: expected calibration error {percent(part['ece'], 1)}."
            chart = reliability_chart(part["bins"], f"Accuracy over confidence. {caption}")
            figures.append(figure(chart, caption))
    intro = (
        "Accuracy (vertical axis) of images grouped by confidence (horizontal axis). On the dotted line both "
        "agree; below it the model is overconfident. Larger points stand for more images."
    )
    return [tag("p", intro), side_by_side(*figures)] if figures else []


def analyses(evaluation: SavedEvaluation) -> list[Markup]:
    """Analyses of the model, which explain its robustness."""
    figures = []
    for one in evaluation.analyses:
        caption = tag("figcaption", tag("b", one.name), f": {one.summary}")
        images = [tag("img", src=data_uri(picture), alt=one.caption) for picture in one.pictures]
        # On phones, where texts in a picture would be too small, it keeps its size and scrolls.
        figures.append(tag("figure", caption, *(scrolling(image, one.name) for image in images)))
    intro = tag("p", "The caption in each picture says what to see in it, and names the models.")
    return [intro, tag("div", *figures, class_="analyses")] if figures else []


def training(evaluation: SavedEvaluation) -> list[Markup]:
    """How the model was trained, if the run still exists: learning curves, and the settings of the run."""
    rows, best = evaluation.training, evaluation.best_epoch
    settings = dict(evaluation.config or {})
    parts = [tag("p", note) for note in settings.pop("notes", ())]
    if rows:
        parts.append(side_by_side(*curves(rows, best)))
    if settings:
        shown = [[name, value_text(value)] for name, value in settings.items() if value is not None]
        grid = table(("setting", "value"), shown, caption="Settings of the training run", numeric_from=2)
        parts.append(details("Settings of the training run", grid))
    return parts


def curves(rows: list[dict], best_epoch: int | None) -> list[Markup]:
    """Accuracies and losses over the epochs."""
    figures = []
    accuracies, losses = lines(rows, ACCURACIES), lines(rows, LOSSES)
    numbers = [row["epoch"] for row in rows]
    epochs = number_axis(min(numbers), max(numbers), "epoch")
    if accuracies:
        caption = "Accuracy during training."
        if best_epoch is not None:
            caption += f" The best model on held-out images is that of epoch {best_epoch}."
        marker = None if best_epoch is None else (best_epoch, "best")
        chart = line_chart(accuracies, epochs, share_axis(""), caption, marker)
        figures.append(figure(chart, caption, [one.name for one in accuracies]))
    if losses:
        finite = [y for one in losses for _, y in one.points if math.isfinite(y)]
        scale = number_axis(min([0.0, *finite]), max([0.0, *finite]), "")
        chart = line_chart(losses, epochs, scale, "Loss during training")
        figures.append(figure(chart, "Loss during training.", [one.name for one in losses]))
    return figures


def lines(rows: list[dict], names: dict[str, str]) -> list[Series]:
    """A series for every column that exists."""
    found = {
        name: [(row["epoch"], row[column]) for row in rows if column in row] for column, name in names.items()
    }
    return [Series(name, points, dots=len(points) == 1) for name, points in found.items() if points]


def settings(evaluation: SavedEvaluation) -> list[Markup]:
    """The exact settings, and how to reproduce the evaluation."""
    result = evaluation.result
    shown = [(name, getattr(result, key)) for key, name in HEADLINE.items()]
    rows = [[name, value_text(value)] for name, value in shown if value is not None]
    others = {name: value for name, value in result.settings.items() if name not in (*HEADLINE, "epsilon")}
    rows += [[name.replace("_", " "), value_text(value)] for name, value in others.items()]
    parts = [table(("setting", "value"), rows, caption="Settings of the evaluation", numeric_from=2)]
    rows = [[result.label(one), value_text(one.settings)] for one in result.attacks if one.settings]
    if rows:
        grid = table(("attack", "settings"), rows, caption="Settings of the attacks", numeric_from=2)
        parts.append(details("Settings of all attacks", grid))
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    parts.append(tag("p", tag("strong", "Versions: "), versions))
    if result.command is not None:
        parts.append(tag("p", tag("strong", "To reproduce it:")))
        parts.append(tag("pre", tag("code", result.command)))
    return parts
