"""A guard against catastrophic overfitting."""

import pathlib
from typing import Any

import keras
import numpy as np

from athe_tf.attacks.engine.attack import Attack
from athe_tf.attacks.engine.victim import victim
from athe_tf.distribution.strategy import Spread
from athe_tf.programs.backup import Progress
from athe_tf.utils.files import replacing


class OverfittingGuard(keras.callbacks.Callback):
    """Stops a run whose robustness collapses, and goes back to the weights of the epoch before.

    Training with one step can, within an epoch, learn to fool its own attack: robust accuracy falls to zero
    while the training loss looks better than ever (Wong et al., 2020). At the end of each epoch this callback
    attacks a batch with several steps and compares with the epoch before.

    The released FastAT code probes the first batch of each epoch, in training mode. Here it is one training
    batch for the whole run: two draws of 128 images differ by chance, by 6 points of accuracy at one standard
    deviation, and the same images do not. Batch normalisation is in inference mode, because that is the model
    one would ship, and so that the probe changes nothing.

    The accuracy of the epoch before is in the run's progress; its weights are in a file beside the backup.

    Args:
        images: The batch, in [0, 1].
        labels: Its labels.
        attack: Measures robust accuracy.
        drop: The fall, in accuracy, that is one too many.
        path: Where to keep the weights of the epoch before.
        progress: The run's.
        spread: What the run is spread over. The chief's measurement decides, and the chief writes.
    """

    def __init__(
        self,
        images,
        labels,
        attack: Attack,
        drop: float,
        path,
        progress: Progress,
        spread: Spread | None = None,
    ):
        super().__init__()
        self.spread = spread or Spread()
        self.images = images
        self.labels = labels
        self.attack = attack
        self.drop = drop
        self.path = pathlib.Path(path)
        self.progress = progress
        self._victim: Any = None

    def on_epoch_end(self, epoch, logs=None):
        accuracy = self.spread.from_chief(self.robust_accuracy())
        if logs is not None:
            logs["probe_accuracy"] = accuracy
        before = self.progress.notes.get("overfitting_guard")
        if before is not None and before - accuracy > self.drop:
            self.restore()
            self.model.stop_training = True
            self.progress.stopped = (
                f"Stopped after epoch {epoch + 1}: robust accuracy on training images fell from "
                f"{100 * before:.1f} % to {100 * accuracy:.1f} %, which is catastrophic overfitting. The "
                f"weights of epoch {epoch} are kept. A lower --step_size or --learning_rate, or "
                "--framework=pgd_at, avoids it."
            )
            return
        self.keep()
        self.progress.notes["overfitting_guard"] = accuracy

    def robust_accuracy(self) -> float:
        """The share of the batch that withstands the attack."""
        if self._victim is None:
            self._victim = victim(self.model.net)
        result = self.attack.run(self._victim, self.images, self.labels, batch_size=len(self.images))
        return float(1 - result.success.mean())

    def keep(self) -> None:
        """Writes the weights of this epoch.

        A kill between this and the backup does no harm: the resumed run comes here again, with the same
        weights.
        """
        if not self.spread.is_chief:
            return
        arrays: dict[str, Any] = {f"v{i:05d}": np.asarray(v) for i, v in enumerate(self._variables())}
        with replacing(self.path) as temporary, open(temporary, "wb") as file:
            np.savez(file, **arrays)

    def restore(self) -> None:
        """Puts back the weights that `keep` wrote."""
        with np.load(self.path, allow_pickle=False) as kept:
            for name, variable in zip(sorted(kept.files), self._variables(), strict=True):
                variable.assign(kept[name])

    def _variables(self) -> list:
        averaged = self.model.averaged
        return [*self.model.net.variables, *([] if averaged is None else averaged.variables)]
