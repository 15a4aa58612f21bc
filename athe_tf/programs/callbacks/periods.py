"""The models at the ends of the periods of a run, and their ensemble (Liu et al., 2020)."""

import pathlib

import keras

from athe_tf.models.adapters import ensemble_of
from athe_tf.programs.run_state import RunProgress
from athe_tf.saving.keras_file import load_model
from athe_tf.utils.files import replacing


class PeriodKeeper(keras.callbacks.Callback):
    """Writes the classifier at the end of each period to `1.keras`, `2.keras` and so on.

    An interruption between this and the backup is harmless: the resumed run repeats it with the same weights.

    Args:
        folder: Where to write.
        ends: The number of finished epochs at the end of each period.
        progress: The run's.
    """

    def __init__(self, folder, ends, progress: RunProgress):
        super().__init__()
        self.folder = pathlib.Path(folder)
        self.ends = [int(end) for end in ends]
        self.progress = progress

    def on_epoch_end(self, epoch, logs=None):
        # A callback has stopped the run and restored other weights.
        if epoch + 1 in self.ends and self.progress.stopped is None:
            with replacing(self.folder / f"{self.ends.index(epoch + 1) + 1}.keras") as temporary:
                self.model.save(temporary)


def read_ensemble(folder) -> keras.Model | None:
    """The ensemble of what a `PeriodKeeper` wrote, or `None` if no period was finished."""
    # Not "*.keras", which also matches files that were being written when a process was killed.
    paths = [path for path in pathlib.Path(folder).glob("[0-9]*.keras") if path.stem.isdecimal()]
    paths.sort(key=lambda path: int(path.stem))
    return ensemble_of([load_model(path) for path in paths]) if paths else None
