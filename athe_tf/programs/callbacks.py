"""What happens between the steps of a run: records, the best model, backups, a line an epoch.

They share a `Progress`. At the end of an epoch they act in the order of `make_callbacks`: the backup comes
last, so that whatever it says has happened has happened. On several workers all of them keep the progress,
and the chief alone (`writes`) writes.
"""

import csv
import json
import math
import pathlib
import time

import keras
import numpy as np

from athe_tf.distribution.strategy import Spread
from athe_tf.programs.backup import Progress, all_finite, save_state
from athe_tf.utils.errors import InputError
from athe_tf.utils.files import replacing, write_text

MONITOR = "val_robust_accuracy"


class Records(keras.callbacks.Callback):
    """Keeps one row of logs an epoch, in `metrics.csv` too, where it can be watched."""

    def __init__(self, path, progress: Progress, writes: bool = True):
        super().__init__()
        self.path = pathlib.Path(path)
        self.progress = progress
        self.writes = writes

    def on_epoch_begin(self, epoch, logs=None):
        self._began = time.monotonic()

    def on_epoch_end(self, epoch, logs=None):
        row = {"epoch": epoch + 1}
        row |= {name: float(value) for name, value in (logs or {}).items()}
        row["learning_rate"] = last_learning_rate(self.model.optimizer)
        if self.model.epsilon_schedule is not None:
            row["epsilon"] = float(self.model.epsilon_schedule(self.model.optimizer.iterations - 1))
        row["seconds"] = round(time.monotonic() - self._began, 2)
        self.progress.history.append(row)
        self.progress.epoch, self.progress.step = epoch + 1, 0
        if self.writes:
            write_csv(self.path, self.progress.history)


def last_learning_rate(optimizer) -> float:
    """The rate of the update before this moment; Keras' own property is that of the next."""
    # A LossScaleOptimizer keeps a rate of its own, which is never used.
    rate = getattr(optimizer, "inner_optimizer", optimizer)._learning_rate
    if callable(rate) and not isinstance(rate, keras.Variable):
        rate = rate(float(np.asarray(optimizer.iterations)) - 1)
    return float(np.asarray(rate))


def write_csv(path, rows) -> None:
    """Writes rows of numbers under the names of all their columns, all or nothing."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with replacing(path) as temporary, open(temporary, "w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)


class BestKeeper(keras.callbacks.Callback):
    """Keeps the classifier with the highest validation accuracy, the robust one mostly, in `best.keras`.

    Keras' own ModelCheckpoint forgets its best value at a restart and then overwrites a better model
    (keras#17012). Here the value is part of the run's progress, and stands beside the file as well: it
    survives a kill between the two.
    """

    def __init__(self, path, progress: Progress, monitor: str = MONITOR, writes: bool = True):
        super().__init__()
        self.writes = writes
        self.path = pathlib.Path(path)
        self.value_path = self.path.with_suffix(".json")
        self.progress = progress
        self.monitor = monitor

    def on_train_begin(self, logs=None):
        if self.path.exists() and self.value_path.exists():
            kept = json.loads(self.value_path.read_text())
            if self.progress.best is None or kept["value"] > self.progress.best:
                self.progress.best, self.progress.best_epoch = kept["value"], kept["epoch"]

    def on_epoch_end(self, epoch, logs=None):
        value = (logs or {}).get(self.monitor, (logs or {}).get("val_clean_accuracy"))
        if value is None or self.progress.stopped is not None:
            # A run that was stopped before this has no longer the weights that the value belongs to.
            return
        if self.progress.best is None or float(value) > self.progress.best:
            self.progress.best, self.progress.best_epoch = float(value), epoch + 1
            if not self.writes:
                return
            with replacing(self.path) as temporary:
                self.model.save(temporary)
            write_text(self.value_path, json.dumps({"value": float(value), "epoch": epoch + 1}))


class Backup(keras.callbacks.Callback):
    """Writes the state of the run at every epoch's end, and some minutes after the last time.

    Together with data and noise that are functions of the step, a run that was killed anywhere and started
    again ends with the same weights, bit for bit.
    """

    def __init__(self, path, progress: Progress, minutes: float = 10.0, spread: Spread | None = None):
        super().__init__()
        self.path = pathlib.Path(path)
        self.progress = progress
        self.seconds = 60 * minutes
        self.spread = spread or Spread()
        self._metrics_to_restore: list | None = None
        self._last = time.monotonic()

    def continue_epoch(self, trainer) -> None:
        """Remembers the metrics of a half epoch, because Keras resets them when it begins the other half."""
        self._metrics_to_restore = [np.asarray(v) for v in _metric_variables(trainer)]

    def on_epoch_begin(self, epoch, logs=None):
        self._first_step = self.progress.step
        if self._metrics_to_restore is not None:
            for variable, value in zip(_metric_variables(self.model), self._metrics_to_restore, strict=True):
                variable.assign(value)
            self._metrics_to_restore = None

    def on_train_batch_end(self, batch, logs=None):
        self.progress.step = self._first_step + batch + 1
        epoch_goes_on = batch + 1 < self.params["steps"]
        # The clocks of workers differ, and all have to take part.
        if epoch_goes_on and self.spread.any(time.monotonic() - self._last > self.seconds):
            self.save()

    def on_epoch_end(self, epoch, logs=None):
        self.save()

    def save(self):
        """Writes the backup, unless the weights are not numbers: then the last good one stays."""
        if not all_finite(self.model):
            raise NotFiniteError(self.model, "a weight")
        save_state(self.path, self.model, self.progress, writes=self.spread.is_chief)
        self._last = time.monotonic()


def _metric_variables(model) -> list:
    return [variable for metric in model.metrics for variable in metric.variables]


class NotFiniteError(InputError):
    """Training left the numbers; the last backup was written before."""

    def __init__(self, trainer, what: str):
        step = int(np.asarray(trainer.optimizer.iterations))
        super().__init__(
            f"Training stopped at step {step + 1}: {what} is not a number. The last good backup and the best "
            "model are kept. A lower --learning_rate, or a larger --batch_size, usually helps."
        )
        self.step = step


class EpochLine(keras.callbacks.Callback):
    """One line an epoch, for logs; on a terminal Keras' progress bar is shown instead."""

    def __init__(self, epochs: int, progress: Progress, write=print):
        super().__init__()
        self.epochs = epochs
        self.progress = progress
        self.write = write

    def on_epoch_end(self, epoch, logs=None):
        row = self.progress.history[-1]
        seconds = row["seconds"]
        left = seconds * (self.epochs - epoch - 1)
        shown = [f"epoch {epoch + 1}/{self.epochs}", f"loss {row['loss']:.4f}"]
        for label, name in (("clean", "val_clean_accuracy"), ("robust", "val_robust_accuracy")):
            if name in row:
                shown.append(f"{label} {100 * row[name]:.1f} %")
        shown.append(f"lr {row['learning_rate']:.3g}")
        shown.append(f"{seconds:.0f} s")
        shown.append(f"{readable_time(left)} left")
        self.write("  ".join(shown), flush=True)


def readable_time(seconds: float) -> str:
    """`75` as `1 min 15 s`, `7300` as `2 h 2 min`."""
    seconds = math.ceil(seconds)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    if seconds < 2 * 86400:
        return f"{seconds // 3600} h {seconds % 3600 // 60} min"
    return f"{seconds / 86400:.1f} days"
