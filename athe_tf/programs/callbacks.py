"""Callbacks of a training run: metrics, the best model, backups, a line per epoch.

They share a `RunProgress` and are called in the order of the list in `athe_tf/programs/run.py`: the backup is
last, so that it contains the changes of all others. On several workers, all of them track the progress, and
only the chief writes files (`writes`).
"""

import csv
import json
import pathlib
import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from athe_tf.attacks.engine.attack import Attack
from athe_tf.distribution.strategy import Distribution, WorkerLost
from athe_tf.jobs.journal import read_arrays, write_arrays
from athe_tf.jobs.ownership import check_ours
from athe_tf.models.adapters import ensemble_of
from athe_tf.programs.interruption import INTERRUPTION, Interrupted
from athe_tf.programs.run_state import RunProgress, numbered, save_state
from athe_tf.saving.keras_file import load_model
from athe_tf.saving.opening import victim
from athe_tf.utils.errors import InputError, check
from athe_tf.utils.files import replacing, write_text
from athe_tf.utils.keras_compat import rate_or_schedule
from athe_tf.utils.number_format import format_duration

#: Which of several epochs with the highest accuracy is kept, as `best.json` says it.
TIES = "last"
# Seconds within which a worker learns that another one has to save or to stop.
NOTICED = 1.0
# On fewer validation images, two epochs a few points apart cannot be told from chance.
FEW_IMAGES = 200


def few_images(count: int | None) -> str:
    """A note if epochs are chosen on few validation images, else empty.

    Example:

    >>> few_images(30)
    'Chosen on 30 validation images only: epochs that differ by a few points cannot be told apart.'
    """
    few = count is not None and count < FEW_IMAGES
    text = (
        f"Chosen on {count} validation images only: epochs that differ by a few points cannot be told apart."
    )
    return text if few else ""


class RunCallback(keras.callbacks.Callback):
    """A callback with a file or folder of the run, which this process writes or not."""

    def __init__(self, path, progress: RunProgress, writes: bool = True):
        super().__init__()
        self.path, self.progress, self.writes = pathlib.Path(path), progress, writes


class Records(RunCallback):
    """Records one row of logs per epoch, and writes all rows to `metrics.csv`."""

    def on_epoch_begin(self, epoch, logs=None):
        self._began = time.monotonic()

    def on_epoch_end(self, epoch, logs=None):
        row = {"epoch": epoch + 1}
        row |= {name: float(value) for name, value in (logs or {}).items()}
        row["learning_rate"] = last_learning_rate(self.model.optimizer)
        if self.model.epsilon_schedule is not None:
            row["epsilon"] = float(self.model.epsilon_schedule(self.model.optimizer.iterations - 1))
        if self.progress.remarks:
            row["notes"] = " ".join(self.progress.remarks)
        row["seconds"] = round(time.monotonic() - self._began, 2)
        rows = self.progress.history
        rows.append(row)
        self.progress.epoch, self.progress.step = epoch + 1, 0
        if self.writes:
            columns = dict.fromkeys(name for row in rows for name in row)
            with replacing(self.path) as temporary, open(temporary, "w", newline="") as file:
                writer = csv.DictWriter(file, list(columns))
                writer.writeheader()
                writer.writerows(rows)


def last_learning_rate(optimizer) -> float:
    """The learning rate of the last update; Keras' own property is the next one's."""
    rate = rate_or_schedule(optimizer)
    if callable(rate) and not isinstance(rate, keras.Variable):
        rate = rate(float(np.asarray(optimizer.iterations)) - 1)
    return float(np.asarray(rate))


class BestKeeper(RunCallback):
    """Writes the classifier with the highest validation accuracy, usually robust accuracy, to `best.keras`.

    Keras' own ModelCheckpoint forgets its best value at a restart and then overwrites a better model
    (keras#17012). Here the value is part of the run's progress and also stored next to the file, so that it
    survives an interruption between the two.

    Of equal epochs the last one is kept: accuracies on held-out images tie often, and the later epoch has the
    lower learning rate.
    """

    def __init__(
        self,
        path,
        progress: RunProgress,
        writes: bool = True,
        chosen_by: str = "robust",
        images: int | None = None,
    ):
        super().__init__(path, progress, writes)
        self.chosen_by, self.note = chosen_by, few_images(images)
        self.value_path = self.path.with_suffix(".json")

    def on_train_begin(self, logs=None):
        progress = self.progress
        if self.path.exists() and self.value_path.exists():
            value, epoch = read_value(self.value_path)
            if progress.best is None or (value, epoch) > (progress.best, progress.best_epoch or 0):
                progress.best, progress.best_epoch = value, epoch

    def on_epoch_end(self, epoch, logs=None):
        value = monitored(logs or {}, self.chosen_by)
        if value is None or self.progress.stopped is not None:
            # A callback has stopped the run and restored other weights; the value does not belong to them.
            return
        if self.progress.best is None or float(value) >= self.progress.best:
            self.progress.best, self.progress.best_epoch = float(value), epoch + 1
            if not self.writes:
                return
            with replacing(self.path) as temporary:
                self.model.save(temporary)
            kept = {"value": float(value), "epoch": epoch + 1, "ties": TIES}
            write_text(self.value_path, json.dumps(kept | ({"note": self.note} if self.note else {})))


class EarlyStopping(keras.callbacks.Callback):
    """Stops training after `patience` epochs without improvement of the validation accuracy.

    Robust accuracy on held-out images peaks soon after the first drop of the learning rate and then decreases
    (Rice et al., 2020). A tie is no improvement, although `BestKeeper` keeps the last of equal epochs.
    """

    def __init__(self, patience: int, progress: RunProgress, chosen_by: str = "robust"):
        super().__init__()
        self.patience, self.progress, self.chosen_by = patience, progress, chosen_by

    def on_epoch_end(self, epoch, logs=None):
        scores = [(monitored(row, self.chosen_by), -row["epoch"]) for row in self.progress.history]
        # The first epoch with the highest accuracy so far; 0 before there is one.
        improved = -max((each for each in scores if each[0] is not None), default=(None, 0))[1]
        if self.progress.stopped is None and improved and epoch + 1 - improved >= self.patience:
            self.progress.stopped = (
                f"Stopped after epoch {epoch + 1}: {self.chosen_by} validation accuracy has not improved "
                f"since epoch {improved}."
            )
            self.model.stop_training = True


def monitored(logs, chosen_by: str) -> float | None:
    """The validation accuracy that chooses epochs; the clean one if the run has no other."""
    return logs.get(f"val_{chosen_by}_accuracy", logs.get("val_clean_accuracy"))


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


class PeriodKeeper(RunCallback):
    """Writes the classifier at the end of each period (Liu et al., 2020) to `1.keras`, `2.keras` and so on.

    An interruption between this and the backup is harmless: the resumed run repeats it with the same weights.
    `ends` are the numbers of finished epochs at the end of each period.
    """

    def __init__(self, path, progress: RunProgress, ends):
        super().__init__(path, progress)
        self.ends = [int(end) for end in ends]

    def on_epoch_end(self, epoch, logs=None):
        # A callback has stopped the run and restored other weights.
        if epoch + 1 in self.ends and self.progress.stopped is None:
            with replacing(self.path / f"{self.ends.index(epoch + 1) + 1}.keras") as temporary:
                self.model.save(temporary)


def read_ensemble(folder) -> keras.Model | None:
    """The ensemble of what a `PeriodKeeper` wrote, or `None` if no period was finished."""
    # Not "*.keras", which also matches files that were being written when a process was killed.
    paths = [path for path in pathlib.Path(folder).glob("[0-9]*.keras") if path.stem.isdecimal()]
    paths.sort(key=lambda path: int(path.stem))
    return ensemble_of([load_model(path) for path in paths]) if paths else None


class OverfittingGuard(RunCallback):
    """Stops a run at catastrophic overfitting, and restores the weights of the previous epoch.

    With one-step attacks, a model can learn within one epoch to defeat only this attack: robust accuracy
    drops to zero while the training loss decreases (Wong et al., 2020). At the end of each epoch, this
    callback attacks a batch with several steps and compares the accuracy with the previous epoch's.

    The released FastAT code probes the first batch of each epoch, in training mode. Here it is the same
    training batch for the whole run: the accuracies of two random batches of 128 images differ by chance,
    with a standard deviation of 6 points. Batch normalization is in inference mode, as in the shipped model,
    so that the probe changes nothing.

    The accuracy of the previous epoch is in the run's progress; its weights are in a file next to the backup.

    Args:
        batch: Images in [0, 1] and their labels.
        attack: Measures robust accuracy.
        drop: The drop in accuracy that stops the run.
        path: Where to store the weights of the previous epoch.
        progress: The run's.
        distribution: The run's devices. The chief's measurement decides, and the chief writes.
    """

    def __init__(self, batch, attack: Attack, drop: float, path, progress: RunProgress, distribution=None):
        self.distribution = distribution or Distribution()
        super().__init__(path, progress, self.distribution.is_chief)
        check_ours(self.path)
        self.images, self.labels = batch
        self.attack, self.drop = attack, drop
        self._victim: Any = None

    def on_epoch_end(self, epoch, logs=None):
        accuracy = self.distribution.from_chief(self.robust_accuracy())
        if logs is not None:
            logs["probe_accuracy"] = accuracy
        before = self.progress.notes.get("overfitting_guard")
        if before is not None and before - accuracy > self.drop:
            self.restore()
            self.model.stop_training = True
            self.progress.stopped = (
                f"Stopped after epoch {epoch + 1}: robust accuracy on training images dropped from "
                f"{100 * before:.1f}% to {100 * accuracy:.1f}%, which is catastrophic overfitting. The "
                f"weights of epoch {epoch} are kept. A lower --step_size or --learning_rate, or "
                "--framework=pgd_at, avoids it."
            )
            return
        # An interruption between this and the backup is harmless: the resumed run repeats it.
        if self.writes:
            write_arrays(self.path, numbered(self._variables()))
        self.progress.notes["overfitting_guard"] = accuracy

    def robust_accuracy(self) -> float:
        """The share of the batch that survives the attack."""
        if self._victim is None or not self._victim.unchanged():
            self._victim = victim(self.model.net)
        result = self.attack.run(self._victim, self.images, self.labels, batch_size=len(self.images))
        return float(1 - result.success.mean())

    def restore(self) -> None:
        """Restores the weights of the previous epoch."""
        kept = read_arrays(self.path)
        for name, variable in zip(sorted(kept), self._variables(), strict=True):
            variable.assign(kept[name])

    def _variables(self) -> list:
        averaged = self.model.averaged
        return [*self.model.net.variables, *([] if averaged is None else averaged.variables)]


class EpochLine(keras.callbacks.Callback):
    """Prints one line per epoch; on a terminal, below Keras' progress bar.

    `status` says how far the current epoch is, and `attack` what robust accuracy is measured with.
    """

    def __init__(self, epochs: int, progress: RunProgress, write: Callable = print, attack: str = ""):
        super().__init__()
        self.attack = f" ({attack})" if attack else ""
        self.epochs, self.progress, self.write = epochs, progress, write
        self.status = "Compiling the training step."

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = f"epoch {epoch + 1}/{self.epochs}"
        self._began: float | None = None

    def on_train_batch_end(self, batch, logs=None):
        now, left = time.monotonic(), ""
        # The rest of an interrupted epoch has fewer steps, and ends at the same one.
        remaining = self.params["steps"] - batch - 1
        if self._began is None:
            self._began = now  # the first step includes compilation
        elif batch:
            left = f"  {format_duration((now - self._began) / batch * remaining)} left in this epoch"
        step = self.progress.step
        self.status = f"{self._epoch}  step {step} of {step + remaining}{left}"

    def on_test_batch_end(self, batch, logs=None):
        self.status = f"{self._epoch}  validation, batch {batch + 1}"

    def on_epoch_end(self, epoch, logs=None):
        row = self.progress.history[-1]
        left = format_duration(row["seconds"] * (self.epochs - epoch - 1))
        shown = [f"epoch {epoch + 1}/{self.epochs}", f"loss {row['loss']:.4f}"]
        robust = f"robust{self.attack}"
        for label, name in (("clean", "val_clean_accuracy"), (robust, "val_robust_accuracy")):
            if name in row:
                shown.append(f"{label} {100 * row[name]:.1f}%")
        shown += [f"lr {row['learning_rate']:.3g}", f"{row['seconds']:.0f} s", f"{left} left"]
        self.write("  ".join(shown), flush=True)


class Backup(RunCallback):
    """Writes the state of the run at the end of every epoch, every `minutes` minutes in between, and before a
    signal ends the program.

    Data and noise are functions of the step, so a run that is resumed after any interruption ends with
    bit-identical weights.
    """

    def __init__(self, path, progress: RunProgress, minutes: float, distribution: Distribution):
        super().__init__(path, progress, distribution.is_chief)
        self.seconds, self.distribution = 60 * minutes, distribution
        self._metrics_to_restore: list | None = None
        self._last = time.monotonic()

    def continue_epoch(self, trainer) -> None:
        """Keeps the metrics of an interrupted epoch, because Keras resets them when the rest of it begins."""
        self._metrics_to_restore = [np.asarray(v) for v in _metric_variables(trainer)]

    def on_epoch_begin(self, epoch, logs=None):
        self._first_step = self.progress.step
        # The last step after which the workers asked each other, when that was, and the next one.
        self._asked, self._asked_at, self._ask = 0, time.monotonic(), 0
        if self._metrics_to_restore is not None:
            for variable, value in zip(_metric_variables(self.model), self._metrics_to_restore, strict=True):
                variable.assign(value)
            self._metrics_to_restore = None

    def on_train_batch_end(self, batch, logs=None):
        self.progress.step = self._first_step + batch + 1
        if self._ask <= batch < self.params["steps"] - 1:  # after the last step, the end of the epoch saves
            self._save_and_stop(due=time.monotonic() - self._last > self.seconds)
            self._ask = batch + self._pause(batch)

    def on_epoch_end(self, epoch, logs=None):
        self._save_and_stop(due=True)

    def _pause(self, batch: int) -> int:
        """After how many steps the workers ask each other again; a single one waits for nobody."""
        if self.distribution.workers == 1:
            return 1
        now = time.monotonic()
        rate = (batch + 1 - self._asked) / max(now - self._asked_at, 1e-6)
        self._asked, self._asked_at = batch + 1, now
        # The clocks of the workers differ, and all of them have to ask after the same step.
        return max(1, int(self.distribution.from_chief(min(NOTICED, self.seconds) * rate)))

    def _save_and_stop(self, due: bool) -> None:
        """Saves if that is due on any worker or one has to stop; then all workers stop."""
        number, distribution = INTERRUPTION.requested, self.distribution
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
        if not all(np.isfinite(np.asarray(weight)).all() for weight in self.model.net.trainable_variables):
            raise NotFiniteError(self.model, "a weight")
        save_state(self.path, self.model, self.progress, self.writes)
        self._last = time.monotonic()


def _metric_variables(model) -> list:
    return [variable for metric in model.metrics for variable in metric.variables]


class NotFiniteError(InputError):
    """A loss or a weight is not finite; the last backup was written before that."""

    def __init__(self, trainer, what: str):
        # What XLA compiles is checked after the update.
        step = int(np.asarray(trainer.optimizer.iterations)) + (not trainer.jit_compile)
        super().__init__(
            f"Training stopped at step {step}: {what} is not a number. The last good backup and the best "
            "model are kept. A lower --learning_rate, or a larger --batch_size, usually helps."
        )
