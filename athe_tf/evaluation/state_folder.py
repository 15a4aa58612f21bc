"""The state of a long evaluation on disk: it can be interrupted at any moment and resumes from there.

A running attack keeps its own state in `<attack>.npz`; a finished one is read back from `<attack>.done.npz`.
`evaluation.npz` says which model and which images all of it belongs to.
"""

import pathlib
import re

import keras
import numpy as np
import tensorflow as tf

from athe_tf.attacks.engine.attack_state import expected_arrays, fill, result_arrays
from athe_tf.attacks.engine.journal import Expected, Journal
from athe_tf.attacks.engine.results import AttackResult
from athe_tf.evaluation.example_arrays import EXAMPLE_ARRAYS
from athe_tf.evaluation.examples import KEPT, Examples
from athe_tf.evaluation.finished_attack import FinishedAttack
from athe_tf.evaluation.inputs import EvaluationInputs
from athe_tf.evaluation.shard import Shard
from athe_tf.utils.digests import text_digest
from athe_tf.utils.errors import InputError, first_line
from athe_tf.utils.ownership import IMAGES, OWNER, check_state_folder

# Letters of a label in the name of its file; the digest after them makes it unique.
_LETTERS = 60
# The arrays with the adversarial examples that are left at 8 bits, and with the wall-clock time of an attack.
EIGHT_BIT, SECONDS = "eight_bit", "wall_seconds"
# Prefix of the arrays of adversarial examples.
EXAMPLE = "example "


class StateFolder:
    """The state of one evaluation, or of one shard of it.

    Args:
        folder: Where to keep it.
        identity: What it belongs to: model, images, seed, radius. Text and numbers only.
    """

    def __init__(self, folder, identity: dict):
        self.folder = pathlib.Path(folder)
        self.identity = identity

    @classmethod
    def open(cls, folder, inputs: EvaluationInputs, shard: Shard | None = None) -> "StateFolder | None":
        """The state of an evaluation of these inputs.

        Returns `None` without a folder, and, with a warning, for a model that cannot be identified.

        Args:
            folder: Where to keep it; created if necessary.
            inputs: What is evaluated.
            shard: The share of the images, if it is one of several.
        """
        if folder is None or inputs.model_digest is None:
            return None
        opened = cls(folder, identity_of(inputs, shard))
        check_state_folder(opened.folder)
        try:
            opened.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"Cannot keep the state in '{opened.folder}': {first_line(error)}. Use another folder."
            ) from error
        opened.check_identity()
        opened.owner.save({})
        return opened

    @property
    def owner(self) -> Journal:
        """The file that says what the folder belongs to."""
        return Journal(self.folder / OWNER, self.identity)

    def check_identity(self) -> None:
        """Raises `InputError` if the folder belongs to another evaluation."""
        self.owner.load()

    def unfinished(self, label: str) -> pathlib.Path:
        """The state file of an attack that is being run."""
        return self.folder / f"{_file_name(label)}.npz"

    def journal(self, label: str, settings: dict) -> Journal:
        """The file of finished results that belong to these settings."""
        path = self.folder / f"{_file_name(label)}.done.npz"
        return Journal(path, {**self.identity, "attack": label, "settings": settings})

    def load(self, label: str, settings: dict, before: AttackResult) -> FinishedAttack | None:
        """What a finished attack found, or `None`.

        Args:
            label: The attack's label.
            settings: Its settings.
            before: The result before the attack, which is filled in.
        """
        journal = self.journal(label, settings)
        arrays = journal.load()
        if arrays is None:
            return None
        if "not_run" in arrays:
            return FinishedAttack(not_run=str(arrays["not_run"]))
        expected = {
            **expected_arrays(before),
            EIGHT_BIT: Expected(before.success.shape, "b"),
            SECONDS: Expected((), "f", low=0),
        }
        journal.check(arrays, expected)
        found = {name: arrays.pop(name) for name in expected}
        fill(before, found)
        examples = _read_examples(journal, arrays)
        return FinishedAttack(before, found[EIGHT_BIT], float(found[SECONDS]), examples)

    def save(self, label: str, settings: dict, finished: FinishedAttack) -> None:
        """Keeps what a finished attack found, and removes its own state."""
        self.journal(label, settings).save(_arrays(finished))
        unfinished = self.unfinished(label)
        for path in (unfinished, unfinished.with_name(unfinished.name + IMAGES)):
            path.unlink(missing_ok=True)


def identity_of(inputs: EvaluationInputs, shard: Shard | None = None) -> dict:
    """What a state belongs to; shards that are merged also share the versions that computed them."""
    if shard is None:
        return inputs.identity()
    versions = {"tensorflow": tf.__version__, "keras": keras.__version__}
    return {**inputs.identity(), **versions, "shard": str(shard)}


def _arrays(finished: FinishedAttack) -> dict[str, np.ndarray]:
    if finished.result is None:
        return {"not_run": np.array(finished.not_run)}
    own = {EIGHT_BIT: finished.eight_bit, SECONDS: np.array(float(finished.seconds))}
    examples = {EXAMPLE + name: array for name, array in finished.examples.items()}
    return {**result_arrays(finished.result), **own, **examples}


def _read_examples(journal: Journal, arrays: dict[str, np.ndarray]) -> Examples:
    arrays = {name.removeprefix(EXAMPLE): array for name, array in arrays.items()}
    lengths = {array.shape[:1] for array in arrays.values()}
    if arrays.keys() != set(EXAMPLE_ARRAYS) or len(lengths) != 1 or len(arrays["index"]) > KEPT:
        raise journal.damaged(f"expected arrays of one length, at most {KEPT}: {', '.join(EXAMPLE_ARRAYS)}")
    return arrays


def _file_name(label: str) -> str:
    """A name for a file: readable, and different for different labels."""
    readable = re.sub(r"[^A-Za-z0-9.]+", "-", label).strip("-")[:_LETTERS]
    return f"{readable}-{text_digest(label)[:8]}"
