"""A guard against catastrophic overfitting."""

import pathlib
from typing import Any

import keras

from athe_tf.attacks.engine.attack import Attack
from athe_tf.attacks.engine.victim import victim
from athe_tf.distribution.strategy import Distribution
from athe_tf.jobs.journal import read_arrays, write_arrays
from athe_tf.programs.run_state import RunProgress, numbered


class OverfittingGuard(keras.callbacks.Callback):
    """Stops a run at catastrophic overfitting, and restores the weights of the previous epoch.

    With one-step attacks, a model can learn within one epoch to defeat only this attack: robust accuracy
    drops to zero while the training loss decreases (Wong et al., 2020). At the end of each epoch, this
    callback attacks a batch with several steps and compares the accuracy with that of the previous epoch.

    The released FastAT code probes the first batch of each epoch, in training mode. Here it is the same
    training batch for the whole run: the accuracies of two random batches of 128 images differ by chance,
    with a standard deviation of 6 points. Batch normalization is in inference mode, as in the shipped model,
    so that the probe changes nothing.

    The accuracy of the previous epoch is in the run's progress; its weights are in a file next to the backup.

    Args:
        images: The batch, in [0, 1].
        labels: Its labels.
        attack: Measures robust accuracy.
        drop: The drop in accuracy that stops the run.
        path: Where to store the weights of the previous epoch.
        progress: The run's.
        distribution: Of the run over devices. The chief's measurement decides, and the chief writes.
    """

    def __init__(
        self,
        images,
        labels,
        attack: Attack,
        drop: float,
        path,
        progress: RunProgress,
        distribution: Distribution | None = None,
    ):
        super().__init__()
        self.distribution = distribution or Distribution()
        self.images = images
        self.labels = labels
        self.attack = attack
        self.drop = drop
        self.path = pathlib.Path(path)
        self.progress = progress
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
                f"{100 * before:.1f} % to {100 * accuracy:.1f} %, which is catastrophic overfitting. The "
                f"weights of epoch {epoch} are kept. A lower --step_size or --learning_rate, or "
                "--framework=pgd_at, avoids it."
            )
            return
        self.keep()
        self.progress.notes["overfitting_guard"] = accuracy

    def robust_accuracy(self) -> float:
        """The share of the batch that survives the attack."""
        if self._victim is None:
            self._victim = victim(self.model.net)
        result = self.attack.run(self._victim, self.images, self.labels, batch_size=len(self.images))
        return float(1 - result.success.mean())

    def keep(self) -> None:
        """Writes the weights of this epoch.

        An interruption between this and the backup is harmless: the resumed run repeats it with the same
        weights.
        """
        if self.distribution.is_chief:
            write_arrays(self.path, numbered(self._variables()))

    def restore(self) -> None:
        """Restores the weights that `keep` wrote."""
        kept = read_arrays(self.path)
        for name, variable in zip(sorted(kept), self._variables(), strict=True):
            variable.assign(kept[name])

    def _variables(self) -> list:
        averaged = self.model.averaged
        return [*self.model.net.variables, *([] if averaged is None else averaged.variables)]
