"""The state of a long evaluation on disk: it can be interrupted at any moment and resumes from there.

A running attack keeps its own state in `<attack>.npz`; a finished one is read back from `<attack>.done.npz`.
`evaluation.npz` says which model and which images all of it belongs to.
"""

import json
import pathlib
import re
from typing import Any

import numpy as np

from athe_tf.attacks.engine.journal import Expected, Journal
from athe_tf.evaluation.example_arrays import EXAMPLE_ARRAYS
from athe_tf.evaluation.examples import KEPT
from athe_tf.evaluation.inputs import EvaluationInputs
from athe_tf.evaluation.result import AttackOutcome
from athe_tf.utils.digests import text_digest
from athe_tf.utils.errors import InputError
from athe_tf.utils.ownership import IMAGES, OWNER, check_state_folder

_FACTS: dict[str, Any] = {
    "seconds": (int, float),
    "queries": int,
    "gradients": int,
    "nonfinite": int,
    "remarks": list,
    "stages": list,
}
# Letters of a label in the name of its file; the digest after them makes it unique.
_LETTERS = 60


class StateFolder:
    """The state of one evaluation.

    Args:
        folder: Where to keep it.
        identity: What it belongs to: model, images, seed, radius. Text and numbers only.
    """

    def __init__(self, folder, identity: dict):
        self.folder = pathlib.Path(folder)
        self.identity = identity
        check_state_folder(self.folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"Cannot keep the state in '{self.folder}': {error.strerror}. Use another folder."
            ) from error
        owner = Journal(self.folder / OWNER, identity)
        owner.load()  # refuses a folder that belongs to another evaluation
        owner.save({})

    @classmethod
    def open(cls, folder, inputs: EvaluationInputs) -> "StateFolder | None":
        """The state of an evaluation of these inputs.

        Returns `None` without a folder, and, with a warning, for a model that cannot be identified.
        """
        if folder is None or inputs.model_digest is None:
            return None
        return cls(folder, inputs.identity())

    def unfinished(self, label: str) -> pathlib.Path:
        """The state file of an attack that is being run."""
        return self.folder / f"{_file_name(label)}.npz"

    def journal(self, label: str, settings: dict) -> Journal:
        """The file of finished results that belong to these settings."""
        path = self.folder / f"{_file_name(label)}.done.npz"
        return Journal(path, {**self.identity, "attack": label, "settings": settings})

    def load(self, label: str, settings: dict, examples: int) -> AttackOutcome | None:
        """What a finished attack found, or `None`.

        Args:
            label: The attack's label.
            settings: Its settings.
            examples: The number of images that it was run on.
        """
        journal = self.journal(label, settings)
        arrays = journal.load(_expected(examples))
        if arrays is None:
            return None
        facts = _read_facts(journal, str(arrays.pop("facts")))
        robust, norms = arrays.pop("robust"), arrays.pop("norms")
        _check_examples(journal, arrays)
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


def _expected(examples: int) -> dict[str, Expected]:
    return {
        "robust": Expected((examples,), "b"),
        "norms": Expected((examples,), "f", low=0),
        "facts": Expected((), "U"),
    }


def _read_facts(journal: Journal, text: str) -> dict:
    try:
        facts = json.loads(text)
        if facts.keys() != _FACTS.keys() or not all(
            isinstance(facts[name], kind) for name, kind in _FACTS.items()
        ):
            raise ValueError(f"expected {sorted(_FACTS)}, received {sorted(facts)}")
    except (AttributeError, TypeError, ValueError) as error:
        raise journal.damaged(str(error)) from error
    return facts


def _check_examples(journal: Journal, arrays: dict[str, np.ndarray]) -> None:
    lengths = {array.shape[:1] for array in arrays.values()}
    if arrays.keys() != set(EXAMPLE_ARRAYS) or len(lengths) != 1 or len(arrays["index"]) > KEPT:
        raise journal.damaged(f"expected arrays of one length, at most {KEPT}: {', '.join(EXAMPLE_ARRAYS)}")


def _file_name(label: str) -> str:
    """A name for a file: readable, and different for different labels."""
    readable = re.sub(r"[^A-Za-z0-9.]+", "-", label).strip("-")[:_LETTERS]
    return f"{readable}-{text_digest(label)[:8]}"
