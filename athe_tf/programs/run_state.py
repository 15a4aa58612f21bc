"""The whole state of a training run in one file, written atomically, and what it belongs to."""

import contextlib
import dataclasses
import json
import re
from typing import Any

import numpy as np

from athe_tf.data.splits import Splits
from athe_tf.jobs.journal import differences, read_arrays, write_arrays
from athe_tf.programs.config import TrainConfig
from athe_tf.programs.workdir import find_initial_model
from athe_tf.utils import replicas
from athe_tf.utils.digests import file_digest
from athe_tf.utils.errors import InputError, check

INITIAL_MODEL = "initial model"
#: How conditions, and the identities of older backups, call the version of this library.
ATHE_TF = "version of athe_tf"
#: The version of backups. Those without a number have it, too.
FORMAT = 1


@dataclasses.dataclass
class RunProgress:
    """How far a run has come.

    Attributes:
        epoch: Number of finished epochs.
        step: Number of finished steps of the current epoch.
        best: The highest validation accuracy so far, and the epoch it was reached in.
        history: One row of logs per finished epoch.
        notes: Further state of callbacks, by their name.
        stopped: Why the run was stopped before its last epoch, if it was.
        identity: What the run belongs to, as `run_identity` says.
        conditions: On what the last step was made, as `conditions.conditions` says; empty if unknown.
        remarks: What a reader of the run's numbers should know, one line each.
    """

    epoch: int = 0
    step: int = 0
    best: float | None = None
    best_epoch: int | None = None
    history: list = dataclasses.field(default_factory=list)
    notes: dict = dataclasses.field(default_factory=dict)
    stopped: str | None = None
    identity: dict = dataclasses.field(default_factory=dict)
    conditions: dict = dataclasses.field(default_factory=dict)
    remarks: list = dataclasses.field(default_factory=list)


def run_identity(config: TrainConfig, splits: Splits) -> dict[str, str]:
    """What must not change while a run is interrupted, by name: data and initial model."""
    found = {"training images": splits.train.fingerprint()}
    if splits.validation is not None:
        found["validation images"] = splits.validation.fingerprint()
    if config.initial_model is not None:
        # A run that resumes does not need the file any more.
        with contextlib.suppress(InputError, OSError):
            found[INITIAL_MODEL] = file_digest(find_initial_model(config.initial_model))
    return found


def check_identity(stored: dict[str, str], ours: dict[str, str], folder, stop=bool) -> None:
    """Raises `InputError` with the differences between the backup and this run, if there are any.

    `stop` tells from whether there are differences here whether there are any on any worker.
    """
    needed = {name: value for name, value in stored.items() if name != INITIAL_MODEL or name in ours}
    changed = differences(ours, needed, "{name}: {ours} (in the backup: {stored})", _or("none"))
    check(
        not stop(bool(changed)),
        f"The run in {folder} was interrupted with other data. Received: "
        f"{'; '.join(changed) or 'differences on another worker'}. Restore what has changed, or use another "
        "--workdir.",
    )


def variables_of(trainer) -> list:
    """Every variable that a step reads, once: weights, metrics, seeds, optimizer."""
    found = [*trainer.variables, *trainer.optimizer.variables]
    for metric in trainer.metrics:
        found.extend(metric.variables)
    return list({id(variable): variable for variable in found}.values())


def describe_variables(trainer) -> list[str]:
    """Name, shape and dtype of each variable; without the numbers that Keras adds to repeated names."""
    return [
        f"{re.sub(r'_[0-9]+(?=[/_]|$)', '', variable.path)} {replicas.whole_shape(variable)} {variable.dtype}"
        for variable in variables_of(trainer)
    ]


def numbered(variables) -> dict[str, Any]:
    """The values of variables by names that sort in their order."""
    return {f"v{number:05d}": replicas.whole_value(variable) for number, variable in enumerate(variables)}


def save_state(path, trainer, progress: RunProgress, writes: bool = True) -> None:
    """Writes weights, optimizer, metrics and progress, atomically.

    All workers have to call this, because metrics are summed over them; one of them writes.
    """
    arrays = numbered(variables_of(trainer))
    arrays["progress"] = np.array(json.dumps(dataclasses.asdict(progress)))
    arrays["format"] = np.array(FORMAT)
    arrays["description"] = np.array(json.dumps(describe_variables(trainer)))
    if writes:
        write_arrays(path, arrays)


def load_state(path, trainer) -> RunProgress:
    """Restores the state that `save_state` wrote, and returns the progress."""
    try:
        arrays = read_arrays(path)
        version = int(arrays.pop("format", FORMAT))
        check(version == FORMAT, f"it has format {version}, and this version of athe_tf reads {FORMAT}")
        progress = RunProgress(**json.loads(str(arrays.pop("progress"))))
        if ATHE_TF in progress.identity:  # older backups
            progress.conditions.setdefault(ATHE_TF, progress.identity.pop(ATHE_TF))
        described = json.loads(str(arrays.pop("description", "[]")))
    except Exception as error:
        raise InputError(
            f"The backup '{path}' cannot be read: {error}. Remove it to start again, or use "
            "another --workdir."
        ) from error
    ours, stored = (dict(enumerate(names)) for names in (describe_variables(trainer), described))
    changed = differences(ours, stored, "{ours} (in the backup: {stored})", _or("nothing"))
    check(
        not changed,
        f"The backup '{path}' belongs to another model, optimizer or version. Received: "
        f"{''.join(changed[:1])}. Use another --workdir.",
    )
    for variable, name in zip(variables_of(trainer), sorted(arrays), strict=True):
        replicas.assign_whole(variable, arrays[name])
    return progress


def _or(missing: str):
    """Shows values as text, and `missing` where there is none."""
    return lambda value: missing if value is None else str(value)
