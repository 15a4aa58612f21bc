"""Where a long evaluation stands, in a folder: it may be stopped at any moment and goes on from there.

An attack under way keeps its own state in `<attack>.npz`; a finished one is read back from
`<attack>.done.npz`. `evaluation.npz` says which model and which images all of it belongs to.
"""

import json
import pathlib
import re

import numpy as np

from athe_tf.attacks.engine.journal import Journal
from athe_tf.evaluation.result import AttackReport
from athe_tf.utils.errors import InputError
from athe_tf.utils.ownership import IMAGES, OWNER, check_state_folder

_FACTS = ("seconds", "queries", "gradients", "nonfinite", "remarks", "stages")


class StateFolder:
    """The state of one evaluation.

    Args:
        folder: Where to keep it.
        identity: What it belongs to: images, seed, radius. Text and numbers only.
        logits: The clean logits of the first images, which tell the model; `None` for a model whose logits
            change from pass to pass.
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
                f"Cannot keep the state in '{self.folder}': {error.strerror}. Use another --output."
            ) from error

    def under_way(self, label: str) -> pathlib.Path:
        """The state file of an attack that is being run."""
        return self.folder / f"{_file_name(label)}.npz"

    def journal(self, label: str, settings: dict) -> Journal:
        """Where results are kept that belong to settings of their own."""
        path = self.folder / f"{_file_name(label)}.done.npz"
        return Journal(path, {**self.identity, "attack": label, "settings": settings}, self.logits)

    def load(self, label: str, settings: dict) -> AttackReport | None:
        """What a finished attack found, or `None`."""
        arrays = self.journal(label, settings).load()
        if arrays is None:
            return None
        facts = json.loads(str(arrays.pop("facts")))
        robust, norms = arrays.pop("robust"), arrays.pop("norms")
        return AttackReport(label, robust, norms=norms, settings=settings, shown=arrays, **facts)

    def save(self, line: AttackReport) -> None:
        """Keeps what a finished attack found, and lets go of its own state."""
        assert line.robust is not None and line.norms is not None
        facts = json.dumps({name: getattr(line, name) for name in _FACTS})
        arrays = {"robust": line.robust, "norms": line.norms, "facts": np.array(facts), **line.shown}
        self.journal(line.name, line.settings).save(arrays)
        under_way = self.under_way(line.name)
        for path in (under_way, under_way.with_name(under_way.name + IMAGES)):
            path.unlink(missing_ok=True)


def _file_name(label: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", label).strip("-")
