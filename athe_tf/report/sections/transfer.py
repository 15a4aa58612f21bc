"""Transfer: adversarial examples of one model, tested on others."""

from athe_tf.drawing.markup import shaded, table
from athe_tf.drawing.page import Section, paragraph
from athe_tf.report.format import points
from athe_tf.report.reading import SavedEvaluation


def section(evaluation: SavedEvaluation) -> Section | None:
    """Returns `None` unless transfer was measured."""
    found = evaluation.result.transfer
    if not found:
        return None
    rows = [
        [source, *(shaded(share, points(share, 1)) for share in shares)]
        for source, shares in zip(found["sources"], found["accuracy"], strict=True)
    ]
    attack = f" by {found['attack']}" if "attack" in found else ""
    intro = paragraph(
        f"Adversarial examples crafted{attack} on the model of the row, classified by that of the column."
    )
    matrix = table(("crafted on", *found["targets"]), rows, caption="Accuracy in % under transfer")
    return Section("Transfer", "transfer", intro, matrix)
