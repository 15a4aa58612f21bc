"""One line per epoch, for logs."""

import time
from collections.abc import Callable

import keras

from athe_tf.programs.run_state import RunProgress
from athe_tf.utils.number_format import format_duration


class EpochLine(keras.callbacks.Callback):
    """Prints one line per epoch, for logs; on a terminal, Keras' progress bar is shown instead.

    `status` says how far the current epoch is.
    """

    def __init__(self, epochs: int, progress: RunProgress, write: Callable = print):
        super().__init__()
        self.epochs = epochs
        self.progress = progress
        self.write = write
        self.status = "Compiling the training step."

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = f"epoch {epoch + 1}/{self.epochs}"
        self._began: float | None = None

    def on_train_batch_end(self, batch, logs=None):
        now = time.monotonic()
        steps = self.params["steps"]
        left = ""
        if self._began is None:
            self._began = now  # the first step includes compilation
        elif batch:
            seconds = (now - self._began) / batch * (steps - batch - 1)
            left = f"  {format_duration(seconds)} left in this epoch"
        # The rest of an interrupted epoch has fewer steps, and ends at the same one.
        self.status = (
            f"{self._epoch}  step {self.progress.step} of {self.progress.step + steps - batch - 1}{left}"
        )

    def on_test_batch_end(self, batch, logs=None):
        self.status = f"{self._epoch}  validation, batch {batch + 1}"

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
        shown.append(f"{format_duration(left)} left")
        self.write("  ".join(shown), flush=True)
