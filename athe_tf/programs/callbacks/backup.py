"""Backups, from which a run resumes."""

import pathlib
import time

import keras
import numpy as np

from athe_tf.distribution.strategy import Distribution
from athe_tf.programs.run_state import RunProgress, all_finite, save_state
from athe_tf.utils.errors import InputError


class Backup(keras.callbacks.Callback):
    """Writes the state of the run at the end of every epoch, and every `minutes` minutes in between.

    Data and noise are functions of the step, so a run that is resumed after any interruption ends with
    bit-identical weights.
    """

    def __init__(
        self, path, progress: RunProgress, minutes: float = 10.0, distribution: Distribution | None = None
    ):
        super().__init__()
        self.path = pathlib.Path(path)
        self.progress = progress
        self.seconds = 60 * minutes
        self.distribution = distribution or Distribution()
        self._metrics_to_restore: list | None = None
        self._last = time.monotonic()

    def continue_epoch(self, trainer) -> None:
        """Keeps the metrics of an interrupted epoch, because Keras resets them when the rest of it begins."""
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
        # The clocks of the workers differ, and all of them have to take part.
        if epoch_goes_on and self.distribution.any_worker(time.monotonic() - self._last > self.seconds):
            self.save()

    def on_epoch_end(self, epoch, logs=None):
        self.save()

    def save(self):
        """Writes the backup; if a weight is not finite, raises an error and keeps the last good backup."""
        if not all_finite(self.model):
            raise NotFiniteError(self.model, "a weight")
        save_state(self.path, self.model, self.progress, writes=self.distribution.is_chief)
        self._last = time.monotonic()


def _metric_variables(model) -> list:
    return [variable for metric in model.metrics for variable in metric.variables]


class NotFiniteError(InputError):
    """A loss or a weight is not finite; the last backup was written before that."""

    def __init__(self, trainer, what: str):
        step = int(np.asarray(trainer.optimizer.iterations))
        super().__init__(
            f"Training stopped at step {step + 1}: {what} is not a number. The last good backup and the best "
            "model are kept. A lower --learning_rate, or a larger --batch_size, usually helps."
        )
        self.step = step
