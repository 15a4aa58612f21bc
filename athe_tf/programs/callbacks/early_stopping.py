"""Early stopping by validation accuracy."""

import keras

from athe_tf.programs.callbacks.best_keeper import monitored
from athe_tf.programs.run_state import RunProgress


class EarlyStopping(keras.callbacks.Callback):
    """Stops training after `patience` epochs without improvement of the validation accuracy.

    Robust accuracy on held-out images peaks soon after the first drop of the learning rate and then decreases
    (Rice et al., 2020). A tie is no improvement, although `BestKeeper` keeps the last of equal epochs.
    """

    def __init__(self, patience: int, progress: RunProgress, chosen_by: str = "robust"):
        super().__init__()
        self.chosen_by = chosen_by
        self.patience = patience
        self.progress = progress

    def on_epoch_end(self, epoch, logs=None):
        improved = self.last_improvement()
        if self.progress.stopped is None and improved and epoch + 1 - improved >= self.patience:
            self.progress.stopped = (
                f"Stopped after epoch {epoch + 1}: {self.chosen_by} validation accuracy has not improved "
                f"since epoch {improved}."
            )
            self.model.stop_training = True

    def last_improvement(self) -> int | None:
        """The first epoch with the highest accuracy so far; `None` before there is one."""
        monitor = f"val_{self.chosen_by}_accuracy"
        scores = [(monitored(row, monitor), row["epoch"]) for row in self.progress.history]
        measured = [(score, -epoch) for score, epoch in scores if score is not None]
        return -max(measured)[1] if measured else None
