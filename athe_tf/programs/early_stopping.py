"""Stops a run whose robust accuracy no longer rises."""

import keras

from athe_tf.programs.backup import Progress


class EarlyStopping(keras.callbacks.Callback):
    """Ends training when the best validation accuracy is `patience` epochs old.

    Robust accuracy on new images peaks soon after the first drop of the learning rate and falls from then on
    (Rice et al., 2020). What it looks at is the best keeper's, and so is part of every backup.
    """

    def __init__(self, patience: int, progress: Progress, chosen_by: str = "robust"):
        super().__init__()
        self.chosen_by = chosen_by
        self.patience = patience
        self.progress = progress

    def on_epoch_end(self, epoch, logs=None):
        best_epoch = self.progress.best_epoch
        if self.progress.stopped is None and best_epoch and epoch + 1 - best_epoch >= self.patience:
            self.progress.stopped = (
                f"Stopped after epoch {epoch + 1}: {self.chosen_by} validation accuracy has not risen "
                f"since epoch {best_epoch}."
            )
            self.model.stop_training = True
