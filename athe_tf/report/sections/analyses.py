"""Analyses of the model: why it is as robust as it is."""

from athe_tf.drawing.markup import Markup, tag
from athe_tf.drawing.page import Section, paragraph
from athe_tf.drawing.png import as_data_uri
from athe_tf.report.analyses import SavedAnalysis
from athe_tf.report.reading import SavedEvaluation


def section(evaluation: SavedEvaluation) -> Section | None:
    """Returns `None` if there are no analyses with the evaluation."""
    if not evaluation.analyses:
        return None
    intro = paragraph("The caption in each picture says what to see in it, and names the models.")
    figures = [figure(analysis) for analysis in evaluation.analyses]
    return Section("Analyses", "analyses", intro, tag("div", *figures, class_="analyses"))


def figure(analysis: SavedAnalysis) -> Markup:
    """The pictures of an analysis under its name."""
    caption = tag("figcaption", tag("b", analysis.name), f": {analysis.summary}")
    images = [tag("img", src=as_data_uri(picture), alt=analysis.caption) for picture in analysis.pictures]
    # On phones, where texts in a picture would be too small, it keeps its size and scrolls.
    boxes = [
        tag("div", image, class_="scroll", tabindex="0", role="region", aria_label=analysis.name)
        for image in images
    ]
    return tag("figure", caption, *boxes)
