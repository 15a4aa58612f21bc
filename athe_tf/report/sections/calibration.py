"""Whether confidence means what it says, clean and under attack."""

from athe_tf.report.charts import figure, reliability_chart
from athe_tf.report.format import percent
from athe_tf.report.markup import join
from athe_tf.report.reading import Evaluation
from athe_tf.report.sections.section import Section, paragraph, side_by_side

KINDS = (("clean", "Clean images"), ("adversarial", "Adversarial images"))


def section(evaluation: Evaluation) -> Section | None:
    """Where confidences were counted."""
    found = evaluation.data.get("calibration", {})
    figures = []
    for key, name in KINDS:
        if key in found:
            caption = f"{name}: expected calibration error {percent(found[key]['ece'], 1)}."
            title = f"Accuracy over confidence. {caption}"
            figures.append(figure(reliability_chart(found[key]["bins"], title), caption))
    if not figures:
        return None
    intro = paragraph(
        "Accuracy (upright) of the images about which the model is so confident. On the dotted line both "
        "agree; below it the model is too sure. Larger points hold more images."
    )
    return Section("Calibration", "calibration", join([intro, side_by_side(*figures)]))
