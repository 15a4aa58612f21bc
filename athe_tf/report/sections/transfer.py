"""Adversarial images of one model, seen by another."""

from athe_tf.report.format import points
from athe_tf.report.markup import join, shaded, table
from athe_tf.report.reading import Evaluation
from athe_tf.report.sections.section import Section, paragraph


def section(evaluation: Evaluation) -> Section | None:
    """Where images were carried from model to model."""
    found = evaluation.data.get("transfer")
    if not found:
        return None
    rows = [
        [source, *(shaded(share, points(share, 1)) for share in shares)]
        for source, shares in zip(found["sources"], found["accuracy"], strict=True)
    ]
    attack = f" by {found['attack']}" if "attack" in found else ""
    intro = paragraph(f"Images made{attack} on the model of the row, classified by the model of the column.")
    matrix = table(("made on", *found["targets"]), rows, caption="Accuracy in per cent under transfer")
    return Section("Transfer", "transfer", join([intro, matrix]))
