"""Backups, from which a run resumes."""

import pathlib
import time

import keras
import numpy as np

from athe_tf.distribution.strategy import Distribution, WorkerLost
from athe_tf.programs.interruption import INTERRUPTION, Interrupted, Interruption
from athe_tf.programs.run_state import RunProgress, all_finite, save_state
from athe_tf.utils.errors import InputError


class Backup(keras.callbacks.Callback):
    """Writes the state of the run at the end of every epoch, every `minutes` minutes in between, and before a
    signal ends the program.

    Data and noise are functions of the step, so a run that is resumed after any interruption ends with
    bit-identical weights.
    """

    def __init__(
        self,
        path,
        progress: RunProgress,
        minutes: float = 10.0,
        distribution: Distribution | None = None,
        interruption: Interruption = INTERRUPTION,
    ):
        super().__init__()
        self.path = pathlib.Path(path)
        self.progress = progress
        self.seconds = 60 * minutes
        self.distribution = distribution or Distribution()
        self.interruption = interruption
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
        if batch + 1 < self.params["steps"]:  # after the last step, the end of the epoch saves
            self._save_and_stop(due=time.monotonic() - self._last > self.seconds)

    def on_epoch_end(self, epoch, logs=None):
        self._save_and_stop(due=True)

    def _save_and_stop(self, due: bool) -> None:
        """Saves if that is due on any worker or one has to stop; then all workers stop."""
        number, distribution = self.interruption.requested, self.distribution
        # Clocks and signals of the workers differ, and all of them have to take part.
        if not distribution.any_worker(due or number is not None):
            return
        self.save()
        if not distribution.any_worker(number is not None):  # the chief has written before it answers
            return
        written = f"A backup was written after epoch {self.progress.epoch}, step {self.progress.step}."
        if number is None:
            raise WorkerLost(
                f"Another worker of this run was stopped, so this one stops too. {written} Restart all "
                "workers to resume."
            )
        raise Interrupted(number, f"{written} The same command resumes the run.")

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
