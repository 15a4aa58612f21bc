"""The state of a long evaluation on disk: it can be interrupted at any moment and resumes from there.

A running attack keeps its own state in `<attack>.npz`; a finished one is read back from `<attack>.done.npz`.
`evaluation.npz` says which model and which images all of it belongs to. Shards have a state each, and what
all of them found is read as the state of the whole evaluation.
"""

import dataclasses
import pathlib
import re
from collections.abc import Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from athe_tf.attacks.engine.attack_state import expected_arrays, fill, result_arrays
from athe_tf.attacks.engine.results import AttackResult
from athe_tf.evaluation.adversarial_examples import MAX_EXAMPLES, Examples
from athe_tf.evaluation.inputs import EvaluationInputs
from athe_tf.evaluation.model_diagnosis import MAX_EXAMPLES as MAX_CLEAN
from athe_tf.evaluation.model_diagnosis import CleanPredictions
from athe_tf.jobs.journal import Expected, Journal
from athe_tf.jobs.ownership import OWNER, check_state_folder
from athe_tf.jobs.shard import Shard, joined
from athe_tf.results.pictures import EXAMPLE_ARRAYS
from athe_tf.utils.arithmetic import computed_on
from athe_tf.utils.digests import text_digest
from athe_tf.utils.errors import InputError, check, first_line

# Letters of a label in the name of its file; the digest after them makes it unique.
_LETTERS = 60
# Names of arrays: which adversarial examples are left at 8 bits, the wall-clock time of an attack, and the
# reason why it could not be run; and the prefix for arrays of adversarial examples.
EIGHT_BIT, SECONDS, NOT_RUN, EXAMPLE = "eight_bit", "wall_seconds", "not_run", "example "
NAN_LOGITS, BROKEN_PASSES, COMPUTED_ON = "nan_logits", "broken_passes", "computed_on"


@dataclasses.dataclass
class FinishedAttack:
    """What an attack found on some of the images of an evaluation.

    Attributes:
        result: The result for each of them; its adversarial images are not kept.
        eight_bit: Whether each has an adversarial example that is still one at 8 bits.
        nan_logits: Whether each has an adversarial example whose logits are not finite.
        seconds: Wall-clock time.
        examples: The first adversarial examples.
        broken_passes: How many passes of a randomized model were wrong for each.
        not_run: Why it could not be run; then there is no result.
    """

    result: AttackResult | None = None
    eight_bit: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0, bool))
    nan_logits: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0, bool))
    seconds: float = 0.0
    examples: Examples = dataclasses.field(default_factory=dict)
    broken_passes: np.ndarray | None = None
    not_run: str | None = None

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], before: AttackResult) -> "FinishedAttack":
        """From the arrays of a file, and the result before the attack, which is filled in."""
        if NOT_RUN in arrays:
            return cls(not_run=str(arrays[NOT_RUN]))
        fill(before, arrays)
        examples = {name: arrays[EXAMPLE + name] for name in EXAMPLE_ARRAYS}
        found = arrays[EIGHT_BIT], arrays[NAN_LOGITS], float(arrays[SECONDS])
        return cls(before, *found, examples, arrays.get(BROKEN_PASSES))

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of its file."""
        if self.result is None:
            return {NOT_RUN: np.array(self.not_run)}
        own = {EIGHT_BIT: self.eight_bit, NAN_LOGITS: self.nan_logits}
        own |= {} if self.broken_passes is None else {BROKEN_PASSES: self.broken_passes}
        own[SECONDS] = np.array(float(self.seconds))
        examples = {EXAMPLE + name: array for name, array in self.examples.items()}
        return {**result_arrays(self.result), **own, **examples}


class StateFolder:
    """The state of one evaluation, or of one shard of it."""

    def __init__(self, folder, inputs: EvaluationInputs, shard: Shard | None = None):
        self.folder = pathlib.Path(folder)
        self.identity = inputs.identity()
        if shard is not None:  # those that are merged also share the versions that computed them
            versions = {"tensorflow": tf.__version__, "keras": keras.__version__}
            self.identity |= {**versions, "shard": str(shard)}
        self.owner = Journal(self.folder / OWNER, self.identity)
        #: What its attacks were computed on, one text for each device and arithmetic.
        self.computed_on = [computed_on()]

    @classmethod
    def open(cls, folder, inputs: EvaluationInputs, shard: Shard | None = None) -> "StateFolder | None":
        """The state of an evaluation of these inputs; the folder is created if necessary.

        Returns `None` without a folder, and, with a warning, for a model that cannot be identified.
        """
        if folder is None or inputs.model_digest is None:
            return None
        opened = cls(folder, inputs, shard)
        check_state_folder(opened.folder)
        try:
            opened.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"Cannot keep the state in '{opened.folder}': {first_line(error)}. Use another folder."
            ) from error
        opened.computed_on = sorted({*opened.computed_on, *_devices(opened.owner.load())})
        opened.owner.save({COMPUTED_ON: np.array(opened.computed_on)})
        if shard is not None:
            opened.clean().save(inputs.clean_arrays())
        return opened

    def clean(self) -> Journal:
        """The file with what a shard knows about its clean images."""
        # A randomized model has another digest before its passes are known; the owner checks the model.
        return Journal(self.folder / "clean.npz", {**self.identity, "model": None})

    def unfinished(self, label: str) -> pathlib.Path:
        """The state file of an attack that is being run."""
        return self.folder / f"{_file_name(label)}.npz"

    def journal(self, label: str, settings: dict) -> Journal:
        """The file of finished results that belong to these settings."""
        path = self.folder / f"{_file_name(label)}.done.npz"
        return Journal(path, {**self.identity, "attack": label, "settings": settings})

    def load(self, label: str, settings: dict, before: AttackResult) -> FinishedAttack | None:
        """What a finished attack found, or `None`; `before`, the result before the attack, is filled in."""
        arrays = self.arrays(label, settings, before)
        return None if arrays is None else FinishedAttack.from_arrays(arrays, before)

    def arrays(self, label: str, settings: dict, before: AttackResult) -> dict[str, np.ndarray] | None:
        """The arrays of a finished attack, as they must be, or `None`."""
        journal = self.journal(label, settings)
        arrays = journal.load()
        if arrays is None or NOT_RUN in arrays:
            return arrays
        expected = {
            **expected_arrays(before),
            EIGHT_BIT: Expected(before.success.shape, "b"),
            NAN_LOGITS: Expected(before.success.shape, "b", added=True),
            SECONDS: Expected((), "f", low=0),
        }
        if BROKEN_PASSES in arrays:
            expected[BROKEN_PASSES] = Expected(before.success.shape, "i", low=0)
        journal.check(arrays, expected)
        examples = {name: array for name, array in arrays.items() if name not in expected}
        lengths = {array.shape[:1] for array in examples.values()}
        known = examples.keys() == {EXAMPLE + name for name in EXAMPLE_ARRAYS}
        if not known or len(lengths) != 1 or len(arrays[EXAMPLE + "index"]) > MAX_EXAMPLES:
            raise journal.damaged(
                f"expected arrays of one length, at most {MAX_EXAMPLES}: {', '.join(EXAMPLE_ARRAYS)}"
            )
        return arrays

    def save(self, label: str, settings: dict, finished: FinishedAttack) -> None:
        """Keeps what a finished attack found, and removes its own state."""
        self.journal(label, settings).save(finished.arrays())
        Journal(self.unfinished(label), self.identity).remove()


def recall_clean(folders: Sequence, inputs: EvaluationInputs) -> tuple:
    """From the shards: clean predictions, whether all images have 8 bits, and the wrong passes of each."""
    count, first = len(inputs.images), min(len(inputs.images), MAX_CLEAN)
    parts, rows = [], []
    for shard, folder in zip(Shard(1, len(folders)).all(), folders, strict=True):
        state = StateFolder(folder, inputs, shard)
        arrays = _check_finished(state.clean().load(), shard, state, "its clean predictions")
        parts.append(arrays)
        rows.append(shard.rows(count))
        own, each = len(rows[-1]), (("correct", "b"), ("confidence", "f"), ("predicted", "i"))
        state.clean().check(arrays, {name: Expected((own,), kind) for name, kind in each})
        kept = (len(shard.rows(first)), *arrays["logits"].shape[1:])
        state.clean().check(arrays, {"logits": Expected(kept, "f"), "nonfinite": Expected((), "i", 0, own)})
    whole = {
        name: joined([part[name] for part in parts], rows)
        for name in parts[0]
        if parts[0][name].shape[:1] == rows[0].shape
    }
    logits = joined([part["logits"] for part in parts], [each[each < first] for each in rows])
    found = whole["correct"], whole["confidence"], logits, whole["predicted"]
    nonfinite = int(sum(part["nonfinite"] for part in parts))
    return CleanPredictions(*found, nonfinite), all(part["eight_bit"] for part in parts), whole.get("wrong")


class MergedState:
    """The states of all shards of an evaluation.

    Raises `InputError` if one of them is missing or belongs to another evaluation: another model, other
    images, another radius or seed, other versions of athe_tf, TensorFlow or Keras. `folders` are in the order
    of the shards, and `inputs` have all images.
    """

    def __init__(self, folders: Sequence, inputs: EvaluationInputs):
        check(
            inputs.model_digest is not None,
            "The shards of this evaluation cannot be recognized, because the model contains Python code. "
            "Save the model as a .keras file without it.",
        )
        shards = Shard(1, len(folders)).all()
        shards[0].check_images(len(inputs.images))
        pairs = zip(shards, folders, strict=True)
        self.parts = [(shard, StateFolder(folder, inputs, shard)) for shard, folder in pairs]
        for shard, state in self.parts:
            state.computed_on = _devices(_check_finished(state.owner.load(), shard, state, "a state"))
        #: As in `StateFolder`, of all shards.
        self.computed_on = sorted({text for _, state in self.parts for text in state.computed_on})

    def load(self, label: str, settings: dict, before: AttackResult) -> FinishedAttack:
        """What an attack found on all images; raises `InputError` if a shard has not finished it."""
        found, rows = [], []
        for shard, state in self.parts:
            rows.append(shard.rows(len(before.success)))
            arrays = state.arrays(label, settings, before.part(rows[-1]))
            found.append(_check_finished(arrays, shard, state, f"a result of '{label}'"))
        return FinishedAttack.from_arrays(merged(found, rows), before)


def _devices(arrays: Mapping[str, np.ndarray] | None) -> list[str]:
    return [str(text) for text in (arrays or {}).get(COMPUTED_ON, ())]


def _check_finished(arrays: dict | None, shard: Shard, state: StateFolder, expected: str) -> dict:
    if arrays is None:
        raise InputError(
            f"Shard {shard} is not finished. Expected {expected} in '{state.folder}'. Received: none. Run "
            "that shard again with the settings of the others."
        )
    return arrays


def merged(parts: Sequence[dict[str, np.ndarray]], rows: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of an attack on all images, from its shards' `parts` and the `rows` of their images."""
    missed = next((part for part in parts if NOT_RUN in part), None)
    if missed is not None:  # in another shard, perhaps, no image had to be attacked
        return missed
    # Each shard has its first adversarial examples; these are the first of the whole set.
    first = np.argsort(np.concatenate([part[EXAMPLE + "index"] for part in parts]))[:MAX_EXAMPLES]
    whole = {}
    for name in parts[0]:
        arrays = [part[name] for part in parts]
        if name in ("seconds", SECONDS):
            whole[name] = np.sum(arrays, axis=0)
        else:
            whole[name] = np.concatenate(arrays)[first] if name.startswith(EXAMPLE) else joined(arrays, rows)
    return whole


def _file_name(label: str) -> str:
    """A name for a file: readable, and different for different labels."""
    readable = re.sub(r"[^A-Za-z0-9.]+", "-", label).strip("-")[:_LETTERS]
    return f"{readable}-{text_digest(label)[:8]}"
