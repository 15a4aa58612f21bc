"""Calibration, clean and under attack."""

from typing import Literal

from athe_tf.drawing.charts import figure, reliability_chart
from athe_tf.drawing.page import Section, paragraph, side_by_side
from athe_tf.report.format import percent
from athe_tf.report.reading import SavedEvaluation

KINDS: tuple[tuple[Literal["clean", "adversarial"], str], ...] = (
    ("clean", "Clean images"),
    ("adversarial", "Adversarial images"),
)


def section(evaluation: SavedEvaluation) -> Section | None:
    """Returns `None` without calibration data."""
    found = evaluation.result.calibration or {}
    figures = []
    for key, name in KINDS:
        if key in found:
            caption = f"{name}: expected calibration error {percent(found[key]['ece'], 1)}."
            title = f"Accuracy over confidence. {caption}"
            figures.append(figure(reliability_chart(found[key]["bins"], title), caption))
    if not figures:
        return None
    intro = paragraph(
        "Accuracy (vertical axis) of images grouped by confidence (horizontal axis). On the dotted line both "
        "agree; below it the model is overconfident. Larger points stand for more images."
    )
    return Section("Calibration", "calibration", intro, side_by_side(*figures))
