"""Accuracy per class, clean and in the worst case."""

from typing import Literal

from athe_tf.drawing.charts import column_chart, figure
from athe_tf.drawing.markup import details, table
from athe_tf.drawing.page import Section
from athe_tf.report.format import count, percent, points
from athe_tf.report.reading import SavedEvaluation
from athe_tf.results.file_format import PerClass

MOST_CLASSES = 20
# Key, name and number of the colour, as in the section on attacks.
Column = tuple[Literal["clean", "worst_case"], str, int]
CLEAN: Column = ("clean", "clean", 4)
WORST: Column = ("worst_case", "worst case", 1)


def section(evaluation: SavedEvaluation) -> Section | None:
    """Returns `None` without accuracies per class."""
    result, found = evaluation.result, evaluation.result.per_class
    if found is None:
        return None
    seen = [number for number, images in enumerate(found["count"]) if images and _known(found, number)]
    if not seen:
        return None
    # Without an attack that counts, the worst case equals the clean accuracy.
    series = [CLEAN] if result.worst_case_accuracy is None else [CLEAN, WORST]
    key, name, _ = series[-1]
    chosen = lowest(seen, found[key])
    weakest = min(seen, key=found[key].__getitem__)  # type: ignore[arg-type]
    caption = f"The weakest class ({name}) is {weakest}, with {percent(found[key][weakest], 1)}."
    if len(chosen) < len(seen):
        caption += f" Shown are the {len(chosen)} lowest of {len(seen)} classes."
    groups = [(name, color, [found[key][number] for number in chosen]) for key, name, color in series]
    chart = column_chart([str(number) for number in chosen], groups, f"Accuracy by class. {caption}", "class")
    picture = figure(chart, caption, [one[1] for one in series], boxes=[one[2] for one in series])
    return Section("Classes", "classes", picture, details("All classes", numbers(found, series)))


def _known(found: PerClass, number: int) -> bool:
    return None not in (found["clean"][number], found["worst_case"][number])


def numbers(found: PerClass, series: list[Column]):
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
