"""How the model was trained: its curves, and the settings of its run."""

from athe_tf.report.charts import Series, figure, line_chart
from athe_tf.report.format import percent, value_text
from athe_tf.report.markup import Markup, details, join, table
from athe_tf.report.plot import number_axis, share_axis
from athe_tf.report.reading import Evaluation
from athe_tf.report.sections.section import Section, side_by_side

ACCURACIES = {
    "clean_accuracy": "clean, training",
    "robust_accuracy": "robust, training",
    "val_clean_accuracy": "clean, held out",
    "val_robust_accuracy": "robust, held out",
}
LOSSES = {"loss": "training", "val_loss": "held out"}


def section(evaluation: Evaluation) -> Section | None:
    """Where the model comes from a training run that is still there."""
    # As the frameworks say themselves (`chosen_by` in athe_tf/training), without starting TensorFlow.
    standard = (evaluation.config or {}).get("framework") == "standard"
    chosen_by = "clean" if standard else "robust"
    parts = [side_by_side(*curves(evaluation.training, chosen_by))] if evaluation.training else []
    if evaluation.config:
        rows = [[name, value_text(value)] for name, value in evaluation.config.items() if value is not None]
        settings = table(("setting", "value"), rows, caption="Settings of the training run", numeric_from=2)
        parts.append(details("Settings of the training run", settings))
    return Section("Training", "training", join(parts)) if parts else None


def curves(rows: list[dict], chosen_by: str) -> list[Markup]:
    """Accuracies and losses over the epochs."""
    figures = []
    accuracies, losses = lines(rows, ACCURACIES), lines(rows, LOSSES)
    last = max((row.get("epoch", 0.0) for row in rows), default=1.0)
    first = min((row.get("epoch", 0.0) for row in rows), default=0.0)
    epochs = number_axis(first, last, "epoch")
    if accuracies:
        best = best_epoch(rows, f"val_{chosen_by}_accuracy")
        caption = "Accuracy while training."
        if best:
            reached = f"{percent(best[1], 1)}, came in epoch {best[0]:.0f}"
            caption += f" The best {chosen_by} accuracy on held-out images, {reached}."
        marker = (best[0], "best") if best else None
        chart = line_chart(accuracies, epochs, share_axis(""), caption, marker)
        figures.append(figure(chart, caption, [one.name for one in accuracies]))
    if losses:
        highest = max(y for one in losses for _, y in one.points)
        chart = line_chart(losses, epochs, number_axis(0.0, highest, ""), "Loss while training")
        figures.append(figure(chart, "Loss while training.", [one.name for one in losses]))
    return figures


def lines(rows: list[dict], names: dict[str, str]) -> list[Series]:
    """A series for every column that is there."""
    found = []
    for column, name in names.items():
        points = [(row["epoch"], row[column]) for row in rows if column in row and "epoch" in row]
        if points:
            found.append(Series(name, points, dots=len(points) == 1))
    return found


def best_epoch(rows: list[dict], accuracy: str) -> tuple[float, float] | None:
    """`(epoch, accuracy)` of the model that the run kept as its best."""
    known = [(row["epoch"], row[accuracy]) for row in rows if {"epoch", accuracy} <= set(row)]
    return max(known, key=lambda pair: pair[1]) if known else None
