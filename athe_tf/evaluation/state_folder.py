"""The state of a long evaluation on disk: it can be interrupted at any moment and resumes from there.

A running attack keeps its own state in `<attack>.npz`; a finished one is read back from `<attack>.done.npz`.
`evaluation.npz` says which model and which images all of it belongs to.
"""

import json
import pathlib
import re

import numpy as np

from athe_tf.attacks.engine.journal import Journal
from athe_tf.evaluation.inputs import EvaluationInputs
from athe_tf.evaluation.result import AttackOutcome
from athe_tf.utils.errors import InputError
from athe_tf.utils.ownership import IMAGES, OWNER, check_state_folder

_FACTS = ("seconds", "queries", "gradients", "nonfinite", "remarks", "stages")


class StateFolder:
    """The state of one evaluation.

    Args:
        folder: Where to keep it.
        identity: What it belongs to: images, seed, radius. Text and numbers only.
        logits: The clean logits of the first images, which identify the model; `None` for a randomized
            model.
    """

    def __init__(self, folder, identity: dict, logits):
        self.folder = pathlib.Path(folder)
        self.identity = identity
        self.logits = logits
        check_state_folder(self.folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            owner = Journal(self.folder / OWNER, identity, logits)
            owner.load()  # refuses a folder that belongs to another evaluation
            owner.save({})
        except OSError as error:
            raise InputError(
                f"Cannot keep the state in '{self.folder}': {error.strerror}. Use another folder."
            ) from error

    @classmethod
    def open(cls, folder, inputs: EvaluationInputs) -> "StateFolder | None":
        """The state of an evaluation of these inputs; `None` without a folder."""
        return None if folder is None else cls(folder, inputs.identity(), inputs.first_logits())

    def unfinished(self, label: str) -> pathlib.Path:
        """The state file of an attack that is being run."""
        return self.folder / f"{_file_name(label)}.npz"

    def journal(self, label: str, settings: dict) -> Journal:
        """The file of finished results that belong to these settings."""
        path = self.folder / f"{_file_name(label)}.done.npz"
        return Journal(path, {**self.identity, "attack": label, "settings": settings}, self.logits)

    def load(self, label: str, settings: dict) -> AttackOutcome | None:
        """What a finished attack found, or `None`."""
        arrays = self.journal(label, settings).load()
        if arrays is None:
            return None
        facts = json.loads(str(arrays.pop("facts")))
        robust, norms = arrays.pop("robust"), arrays.pop("norms")
        return AttackOutcome(label, robust, norms=norms, settings=settings, examples=arrays, **facts)

    def save(self, outcome: AttackOutcome) -> None:
        """Keeps what a finished attack found, and removes its own state."""
        assert outcome.robust is not None and outcome.norms is not None
        facts = json.dumps({name: getattr(outcome, name) for name in _FACTS})
        arrays = {"robust": outcome.robust, "norms": outcome.norms, "facts": np.array(facts)}
        self.journal(outcome.name, outcome.settings).save(arrays | outcome.examples)
        unfinished = self.unfinished(outcome.name)
        for path in (unfinished, unfinished.with_name(unfinished.name + IMAGES)):
            path.unlink(missing_ok=True)


def _file_name(label: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", label).strip("-")
