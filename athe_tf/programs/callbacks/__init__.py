"""Callbacks of a training run: metrics, the best model, backups, a line per epoch.

They share a `RunProgress` and are called in the order of the list in `athe_tf/programs/run.py`: the backup is
last, so that it contains the changes of all others. On several workers, all of them track the progress, and
only the chief writes files (`writes`).
"""

from athe_tf.programs.callbacks.backup import Backup, NotFiniteError
from athe_tf.programs.callbacks.best_epoch import BestKeeper, EarlyStopping
from athe_tf.programs.callbacks.epoch_line import EpochLine
from athe_tf.programs.callbacks.overfitting_guard import OverfittingGuard
from athe_tf.programs.callbacks.periods import PeriodKeeper, read_ensemble
from athe_tf.programs.callbacks.records import Records

__all__ = [
    "Backup",
    "BestKeeper",
    "EarlyStopping",
    "EpochLine",
    "NotFiniteError",
    "OverfittingGuard",
    "PeriodKeeper",
    "Records",
    "read_ensemble",
]
