"""The best epoch on held-out images: its model in `best.keras`, and an end some epochs after it."""

import json
import pathlib

import keras

from athe_tf.programs.run_state import RunProgress
from athe_tf.utils.errors import InputError, check
from athe_tf.utils.files import replacing, write_text

MONITOR = "val_robust_accuracy"
#: Which of several epochs with the highest accuracy is kept, as `best.json` says it.
TIES = "last"


class BestKeeper(keras.callbacks.Callback):
    """Writes the classifier with the highest validation accuracy, usually robust accuracy, to `best.keras`.

    Keras' own ModelCheckpoint forgets its best value at a restart and then overwrites a better model
    (keras#17012). Here the value is part of the run's progress and also stored next to the file, so that it
    survives an interruption between the two.

    Of equal epochs the last one is kept: accuracies on held-out images tie often, and the later epoch has the
    lower learning rate.
    """

    def __init__(self, path, progress: RunProgress, monitor: str = MONITOR, writes: bool = True):
        super().__init__()
        self.writes = writes
        self.path = pathlib.Path(path)
        self.value_path = self.path.with_suffix(".json")
        self.progress = progress
        self.monitor = monitor

    def on_train_begin(self, logs=None):
        if self.path.exists() and self.value_path.exists():
            value, epoch = read_value(self.value_path)
            if self.progress.best is None or (value, epoch) > (
                self.progress.best,
                self.progress.best_epoch or 0,
            ):
                self.progress.best, self.progress.best_epoch = value, epoch

    def on_epoch_end(self, epoch, logs=None):
        value = monitored(logs or {}, self.monitor)
        if value is None or self.progress.stopped is not None:
            # A callback has stopped the run and restored other weights; the value does not belong to them.
            return
        if self.progress.best is None or float(value) >= self.progress.best:
            self.progress.best, self.progress.best_epoch = float(value), epoch + 1
            if not self.writes:
                return
            with replacing(self.path) as temporary:
                self.model.save(temporary)
            write_text(self.value_path, json.dumps({"value": float(value), "epoch": epoch + 1, "ties": TIES}))


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


def monitored(logs, monitor: str) -> float | None:
    """The validation accuracy that chooses epochs; the clean one if the run has no other."""
    return logs.get(monitor, logs.get("val_clean_accuracy"))


def read_value(path: pathlib.Path) -> tuple[float, int]:
    """The accuracy of the best model, and its epoch, from its `.json` file."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        value, epoch = kept["value"], kept["epoch"]
        check(isinstance(epoch, int) and 0 <= value <= 1, f"value={value!r}, epoch={epoch!r}")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(
            f"'{path}' cannot be read: {error}. Expected an accuracy `value` and an integer `epoch`. Remove "
            "it; the backup contains both."
        ) from error
    return float(value), epoch
