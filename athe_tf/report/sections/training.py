"""How the model was trained: learning curves, and the settings of the run."""

import math

from athe_tf.drawing.charts import Series, figure, line_chart
from athe_tf.drawing.markup import Markup, details, table
from athe_tf.drawing.page import Section, side_by_side
from athe_tf.drawing.plot import number_axis, share_axis
from athe_tf.report.format import value_text
from athe_tf.report.reading import SavedEvaluation

ACCURACIES = {
    "clean_accuracy": "clean, training",
    "robust_accuracy": "robust, training",
    "val_clean_accuracy": "clean, held out",
    "val_robust_accuracy": "robust, held out",
}
LOSSES = {"loss": "training", "val_loss": "held out"}


def section(evaluation: SavedEvaluation) -> Section | None:
    """Returns `None` unless the model comes from a training run that still exists."""
    rows, best = evaluation.training, evaluation.best_epoch
    parts = [side_by_side(*curves(rows, best))] if rows else []
    if evaluation.config:
        shown = [[name, value_text(value)] for name, value in evaluation.config.items() if value is not None]
        settings = table(("setting", "value"), shown, caption="Settings of the training run", numeric_from=2)
        parts.append(details("Settings of the training run", settings))
    return Section("Training", "training", *parts) if parts else None


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
