"""One row of metrics per epoch, in `metrics.csv`."""

import csv
import pathlib
import time

import keras
import numpy as np

from athe_tf.programs.run_state import RunProgress
from athe_tf.utils.files import replacing
from athe_tf.utils.keras_compat import rate_or_schedule


class Records(keras.callbacks.Callback):
    """Records one row of logs per epoch, and writes all rows to `metrics.csv`."""

    def __init__(self, path, progress: RunProgress, writes: bool = True):
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
    """The learning rate of the last update; Keras' own property is that of the next."""
    rate = rate_or_schedule(optimizer)
    if callable(rate) and not isinstance(rate, keras.Variable):
        rate = rate(float(np.asarray(optimizer.iterations)) - 1)
    return float(np.asarray(rate))


def write_csv(path, rows) -> None:
    """Writes rows of numbers with a header of all their columns, atomically."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with replacing(path) as temporary, open(temporary, "w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)
