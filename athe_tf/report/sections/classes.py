"""Accuracy per class, clean and in the worst case."""

from athe_tf.drawing.charts import column_chart, figure
from athe_tf.drawing.markup import details, table
from athe_tf.drawing.page import Section
from athe_tf.report.accessors import worst_case
from athe_tf.report.format import count, percent, points
from athe_tf.report.reading import SavedEvaluation

MOST_CLASSES = 20
# Key, name and number of the colour, as in the section on attacks.
CLEAN, WORST = ("clean", "clean", 4), ("worst_case", "worst case", 1)


def section(evaluation: SavedEvaluation) -> Section | None:
    """Returns `None` without accuracies per class."""
    data = evaluation.data
    found = data.get("per_class", {"count": []})
    seen = [number for number, images in enumerate(found["count"]) if images and _known(found, number)]
    if not seen:
        return None
    # Without an attack that counts, the worst case equals the clean accuracy.
    series = [CLEAN] if worst_case(data)[0] is None else [CLEAN, WORST]
    key, name, _ = series[-1]
    chosen = lowest(seen, found[key])
    weakest = min(seen, key=lambda number: found[key][number])
    caption = f"The weakest class ({name}) is {weakest}, with {percent(found[key][weakest], 1)}."
    if len(chosen) < len(seen):
        caption += f" Shown are the {len(chosen)} lowest of {len(seen)} classes."
    groups = [(name, color, [found[key][number] for number in chosen]) for key, name, color in series]
    chart = column_chart([str(number) for number in chosen], groups, f"Accuracy by class. {caption}", "class")
    picture = figure(chart, caption, [one[1] for one in series], boxes=[one[2] for one in series])
    return Section("Classes", "classes", picture, details("All classes", numbers(found, series)))


def _known(found: dict, number: int) -> bool:
    return None not in (found["clean"][number], found["worst_case"][number])


def numbers(found: dict, series: list):
    """All classes as a table."""
    rows = [
        [str(number), *(points(found[key][number]) for key, _, _ in series), count(images)]
        for number, images in enumerate(found["count"])
    ]
    head = ("class", *(f"{name} %" for _, name, _ in series), "images")
    return table(head, rows, caption="Accuracy by class")


def lowest(classes: list[int], accuracies: list) -> list[int]:
    """All classes, or those with the lowest accuracy if there are many; in numerical order.

    Example:

    >>> lowest([0, 2], [0.5, None, 0.1])
    [0, 2]
    """
    return sorted(sorted(classes, key=lambda number: accuracies[number])[:MOST_CLASSES])
