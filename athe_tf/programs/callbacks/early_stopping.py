"""Early stopping by validation accuracy."""

import keras

from athe_tf.programs.run_state import RunProgress


class EarlyStopping(keras.callbacks.Callback):
    """Stops training after `patience` epochs without improvement of the validation accuracy.

    Robust accuracy on held-out images peaks soon after the first drop of the learning rate and then decreases
    (Rice et al., 2020). The best epoch is that of `BestKeeper`, which is part of every backup.
    """

    def __init__(self, patience: int, progress: RunProgress, chosen_by: str = "robust"):
        super().__init__()
        self.chosen_by = chosen_by
        self.patience = patience
        self.progress = progress

    def on_epoch_end(self, epoch, logs=None):
        best_epoch = self.progress.best_epoch
        if self.progress.stopped is None and best_epoch and epoch + 1 - best_epoch >= self.patience:
            self.progress.stopped = (
                f"Stopped after epoch {epoch + 1}: {self.chosen_by} validation accuracy has not improved "
                f"since epoch {best_epoch}."
            )
            self.model.stop_training = True
