"""What a backup belongs to: the data, the initial model, and the version of the library."""

import contextlib

from athe_tf.data.splits import Splits
from athe_tf.programs.config import TrainConfig
from athe_tf.programs.workdir import find_initial_model
from athe_tf.utils.digests import file_digest
from athe_tf.utils.errors import InputError, check
from athe_tf.version import __version__

INITIAL_MODEL = "initial model"


def run_identity(config: TrainConfig, splits: Splits) -> dict[str, str]:
    """What must not change while a run is interrupted, by name."""
    found = {"version of athe_tf": __version__, "training images": splits.train.fingerprint()}
    if splits.validation is not None:
        found["validation images"] = splits.validation.fingerprint()
    if config.initial_model is not None:
        # A run that resumes does not need the file any more.
        with contextlib.suppress(InputError, OSError):
            found[INITIAL_MODEL] = file_digest(find_initial_model(config.initial_model))
    return found


def check_identity(stored: dict[str, str], ours: dict[str, str], folder, stop=bool) -> None:
    """Raises `InputError` with the differences, if there are any.

    Args:
        stored: That of the backup.
        ours: That of this run.
        folder: The folder of the run.
        stop: From whether there are differences here to whether there are any on any worker.
    """
    changed = [
        f"{name}: {ours.get(name, 'none')} (in the backup: {stored.get(name, 'none')})"
        for name in sorted(stored.keys() | ours.keys())
        if stored.get(name) != ours.get(name) and not (name == INITIAL_MODEL and name not in ours)
    ]
    check(
        not stop(bool(changed)),
        f"The run in {folder} was interrupted with other data or another version. Received: "
        f"{'; '.join(changed) or 'differences on another worker'}. Restore what has changed, or use another "
        "--workdir.",
    )
