"""The folder of an evaluation: `bin/evaluate` and `bin/report` write to it, one process at a time."""

import contextlib
import pathlib
import tempfile
from collections.abc import Iterator

from athe_tf.jobs import locks
from athe_tf.jobs.ownership import check_ours, check_state_folder
from athe_tf.report.writing import WRITTEN

#: The folder inside it that keeps the state of an unfinished evaluation.
STATE = "state"


def locked_folder(folder) -> contextlib.AbstractContextManager[pathlib.Path]:
    """A context in which no other process writes there; removes what a killed one left."""
    return locks.locked_folder(folder, STATE)


@contextlib.contextmanager
def open_output(folder) -> Iterator[pathlib.Path]:
    """The folder for a new evaluation; tested before it starts, so that nothing is lost at the end."""
    folder = pathlib.Path(folder)
    check_ours(*(folder / name for name in ("evaluation.json", "examples.npz", *WRITTEN)))
    check_state_folder(folder / STATE)
    with locked_folder(folder):
        tempfile.TemporaryFile(dir=folder).close()
        yield folder
