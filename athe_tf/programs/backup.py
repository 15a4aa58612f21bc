"""The whole state of a training run in one file, written so that no crash can spoil it."""

import dataclasses
import json
from typing import Any

import numpy as np

from athe_tf.utils.errors import InputError
from athe_tf.utils.files import replacing


@dataclasses.dataclass
class Progress:
    """How far a run has come.

    Attributes:
        epoch: Epochs that are over.
        step: Steps of the current epoch that are over.
        best: The highest validation accuracy so far, and the epoch it was reached in.
        history: One row of logs for each epoch that is over.
        notes: What callbacks keep for themselves, by their name.
        stopped: Why the run ends before its last epoch, if it does.
    """

    epoch: int = 0
    step: int = 0
    best: float | None = None
    best_epoch: int | None = None
    history: list = dataclasses.field(default_factory=list)
    notes: dict = dataclasses.field(default_factory=dict)
    stopped: str | None = None


def variables_of(trainer) -> list:
    """Every variable that a step reads: weights, metrics, seeds, optimiser; each once."""
    found = [*trainer.variables, *trainer.optimizer.variables]
    for metric in trainer.metrics:
        found.extend(metric.variables)
    unique = {id(variable): variable for variable in found}
    return list(unique.values())


def all_finite(trainer) -> bool:
    """Whether every weight is a number."""
    return all(np.isfinite(np.asarray(weight)).all() for weight in trainer.net.trainable_variables)


def save_state(path, trainer, progress: Progress, writes: bool = True) -> None:
    """Writes weights, optimiser, metrics and progress, all or nothing.

    On several workers all have to call this, because metrics are summed up over them, and one writes.
    """
    arrays: dict[str, Any] = {f"v{i:05d}": np.asarray(v) for i, v in enumerate(variables_of(trainer))}
    arrays["progress"] = np.array(json.dumps(dataclasses.asdict(progress)))
    if not writes:
        return
    with replacing(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, **arrays)


def load_state(path, trainer) -> Progress:
    """Puts the state of `save_state` back and returns the progress."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        progress = Progress(**json.loads(str(arrays.pop("progress"))))
    except Exception as error:
        raise InputError(
            f"The backup '{path}' cannot be read: {error}. Remove it to begin again, or use "
            "another --workdir."
        ) from error
    variables = variables_of(trainer)
    values = [arrays[name] for name in sorted(arrays)]
    if [tuple(v.shape) for v in variables] != [value.shape for value in values]:
        raise InputError(f"The backup '{path}' belongs to another model or optimiser. Use another --workdir.")
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
    return progress
