"""Accuracy of every class, clean and in the worst case."""

from athe_tf.report.charts import column_chart, figure
from athe_tf.report.markup import details, join, table
from athe_tf.report.reading import Evaluation
from athe_tf.report.sections.section import Section
from athe_tf.report.texts import count, percent, points

MOST_CLASSES = 20
NAMES = ("clean", "worst case")
# As in the bars of the attacks.
COLOURS = (4, 1)


def section(evaluation: Evaluation) -> Section | None:
    """Where the evaluation counted by class."""
    found = evaluation.data.get("per_class")
    if not found or not found["count"]:
        return None
    rows = list(
        zip(range(len(found["count"])), found["clean"], found["worst_case"], found["count"], strict=True)
    )
    seen = [row for row in rows if row[3] and row[2] is not None]
    if not seen:
        return None
    weakest = min(seen, key=lambda row: row[2])
    chosen = lowest(seen)
    caption = f"The weakest class in the worst case is {weakest[0]}, with {percent(weakest[2], 1)}."
    chart = column_chart(
        [str(row[0]) for row in chosen],
        [(NAMES[n], COLOURS[n], [row[1 + n] for row in chosen]) for n in range(len(NAMES))],
        f"Accuracy by class. {caption}",
        "class",
    )
    if len(chosen) < len(seen):
        caption += f" Shown are the {len(chosen)} lowest of {len(seen)} classes."
    numbers = table(
        ("class", "clean %", "worst case %", "images"),
        [[str(row[0]), points(row[1]), points(row[2]), count(row[3])] for row in rows],
        caption="Accuracy by class",
    )
    picture = figure(chart, caption, NAMES, boxes=COLOURS)
    return Section("Classes", "classes", join([picture, details("Numbers of all classes", numbers)]))


def lowest(rows: list) -> list:
    """All classes, or the lowest in the worst case where there are many; in the order of their numbers."""
    return sorted(sorted(rows, key=lambda row: row[2])[:MOST_CLASSES])
