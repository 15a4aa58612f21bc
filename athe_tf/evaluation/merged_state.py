"""`MergedState`: what the shards of an evaluation found, read as the state of the whole evaluation."""

from collections.abc import Sequence

from athe_tf.attacks.engine.results import AttackResult
from athe_tf.evaluation.finished_attack import FinishedAttack, merged
from athe_tf.evaluation.inputs import EvaluationInputs
from athe_tf.evaluation.shard import Shard
from athe_tf.evaluation.state_folder import StateFolder, identity_of
from athe_tf.utils.errors import InputError, check


class MergedState:
    """The states of all shards of an evaluation.

    Raises `InputError` if one of them is missing or belongs to another evaluation: another model, other
    images, another radius or seed, other versions of athe_tf, TensorFlow or Keras.

    Args:
        folders: The state folders of the shards, in their order.
        inputs: What is evaluated: all images.
    """

    def __init__(self, folders: Sequence, inputs: EvaluationInputs):
        check(
            inputs.model_digest is not None,
            "The shards of this evaluation cannot be recognized, because the model contains Python code. "
            "Save the model as a .keras file without it.",
        )
        shards = Shard(1, len(folders)).all()
        shards[0].check_images(len(inputs.images))
        pairs = zip(folders, shards, strict=True)
        self.parts = [(shard, StateFolder(folder, identity_of(inputs, shard))) for folder, shard in pairs]
        for shard, state in self.parts:
            check(state.owner.path.is_file(), _missing(shard, state, "a state"))
            state.check_identity()

    def load(self, label: str, settings: dict, before: AttackResult) -> FinishedAttack:
        """What an attack found on all images; raises `InputError` if a shard has not finished it.

        Args:
            label: The attack's label.
            settings: Its settings.
            before: The result before the attack, on all of its images.
        """
        rows = [shard.rows(len(before.success)) for shard, _ in self.parts]
        parts = [
            self._load(shard, state, label, settings, before.part(own))
            for (shard, state), own in zip(self.parts, rows, strict=True)
        ]
        return merged(parts, rows)

    def _load(self, shard, state: StateFolder, label: str, settings: dict, before) -> FinishedAttack:
        found = state.load(label, settings, before)
        if found is None:
            raise InputError(_missing(shard, state, f"a result of '{label}'"))
        return found


def _missing(shard: Shard, state: StateFolder, what: str) -> str:
    return (
        f"Shard {shard} is not finished. Expected {what} in '{state.folder}'. Received: none. Run that shard "
        "again with the settings of the others."
    )
