"""The whole state of a training run in one file, written atomically."""

import dataclasses
import itertools
import json
import re
from typing import Any

import numpy as np

from athe_tf.utils.errors import InputError, check
from athe_tf.utils.files import replacing


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
        identity: What the run belongs to: see `athe_tf.programs.run_identity`.
    """

    epoch: int = 0
    step: int = 0
    best: float | None = None
    best_epoch: int | None = None
    history: list = dataclasses.field(default_factory=list)
    notes: dict = dataclasses.field(default_factory=dict)
    stopped: str | None = None
    identity: dict = dataclasses.field(default_factory=dict)


def variables_of(trainer) -> list:
    """Every variable that a step reads, once: weights, metrics, seeds, optimizer."""
    found = [*trainer.variables, *trainer.optimizer.variables]
    for metric in trainer.metrics:
        found.extend(metric.variables)
    unique = {id(variable): variable for variable in found}
    return list(unique.values())


def describe_variables(trainer) -> list[str]:
    """Name, shape and dtype of each variable; without the numbers that Keras adds to repeated names."""
    return [
        f"{re.sub(r'_[0-9]+(?=[/_]|$)', '', variable.path)} {tuple(variable.shape)} {variable.dtype}"
        for variable in variables_of(trainer)
    ]


def all_finite(trainer) -> bool:
    """Whether every weight is finite."""
    return all(np.isfinite(np.asarray(weight)).all() for weight in trainer.net.trainable_variables)


def save_state(path, trainer, progress: RunProgress, writes: bool = True) -> None:
    """Writes weights, optimizer, metrics and progress, atomically.

    All workers have to call this, because metrics are summed over them; one of them writes.
    """
    arrays: dict[str, Any] = {f"v{i:05d}": np.asarray(v) for i, v in enumerate(variables_of(trainer))}
    arrays["progress"] = np.array(json.dumps(dataclasses.asdict(progress)))
    arrays["description"] = np.array(json.dumps(describe_variables(trainer)))
    if not writes:
        return
    with replacing(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, **arrays)


def load_state(path, trainer) -> RunProgress:
    """Restores the state that `save_state` wrote, and returns the progress."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        progress = RunProgress(**json.loads(str(arrays.pop("progress"))))
        described = json.loads(str(arrays.pop("description", "[]")))
    except Exception as error:
        raise InputError(
            f"The backup '{path}' cannot be read: {error}. Remove it to start again, or use "
            "another --workdir."
        ) from error
    variables = variables_of(trainer)
    values = [arrays[name] for name in sorted(arrays)]
    ours = describe_variables(trainer)
    pairs = itertools.zip_longest(ours, described, fillvalue="nothing")
    changed = next((f"{ours} (in the backup: {theirs})" for ours, theirs in pairs if ours != theirs), None)
    check(
        changed is None,
        f"The backup '{path}' belongs to another model, optimizer or version. Received: {changed}. Use "
        "another --workdir.",
    )
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
    return progress
