"""Opening what `--model` names."""

from athe_tf.attacks.engine.replicated import replicated_victim
from athe_tf.attacks.engine.victim import Victim, victim
from athe_tf.evaluation.loading import open_model
from athe_tf.programs.workdir import find_model, is_imported
from athe_tf.saving.keras_file import load_model
from athe_tf.utils.errors import check
from athe_tf.utils.imports import import_object


def open_victim(name, devices=()) -> Victim:
    """A victim from a `.keras` file, a SavedModel folder, the folder of a run, or `module:function`.

    SavedModels and `.keras` files are programs: open only those whose origin you trust.

    Args:
        name: The value of `--model`.
        devices: Put the weights on each of these; possible for `.keras` files.
    """
    path = None if is_imported(name) else find_model(name)
    check(
        len(devices) < 2 or (path is not None and path.is_file()),
        f"Only the weights of a .keras file can be put on {len(devices)} devices. Received: --model={name}. "
        "Use --distribution=one.",
    )
    if path is None:
        return victim(import_object(name, "model"))
    return replicated_victim(load_model(path), devices) if len(devices) > 1 else open_model(path)
