"""One line per epoch, for logs."""

import keras

from athe_tf.programs.run_state import RunProgress
from athe_tf.utils.number_format import format_duration


class EpochLine(keras.callbacks.Callback):
    """Prints one line per epoch, for logs; on a terminal, Keras' progress bar is shown instead."""

    def __init__(self, epochs: int, progress: RunProgress, write=print):
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
        shown.append(f"{format_duration(left)} left")
        self.write("  ".join(shown), flush=True)
