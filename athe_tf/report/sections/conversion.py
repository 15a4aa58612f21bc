"""A file for another runtime beside its parent, the model that it was made of."""

from athe_tf.drawing.markup import table
from athe_tf.drawing.page import Section, paragraph
from athe_tf.report.format import percent
from athe_tf.report.reading import SavedEvaluation
from athe_tf.results.text_table import conversion_sentence


def section(evaluation: SavedEvaluation) -> Section | None:
    """Returns `None` unless the model is such a file, and its parent is known."""
    result, found = evaluation.result, evaluation.result.conversion
    if not found:
        return None
    rows = [
        ["clean", percent(result.clean_accuracy), percent(found["clean_accuracy"])],
        ["worst case", percent(result.worst_case_accuracy), percent(found["worst_case_accuracy"])],
    ]
    intro = paragraph(
        "The model is a file without gradients. Attacks on its parent, the model that it was made of, were "
        "tried on it, and attacks that need outputs only were run on the file itself."
    )
    numbers = table(("accuracy", "this file", "parent"), rows, caption="The file and its parent")
    return Section(
        "The file and its parent", "conversion", intro, numbers, paragraph(conversion_sentence(found))
    )
