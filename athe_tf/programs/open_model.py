"""Opening whatever a user calls a model."""

import importlib
import pathlib

from athe_tf.attacks.engine.replicated import replicated_victim
from athe_tf.attacks.engine.victim import Victim, saved_model_victim, victim
from athe_tf.programs.workdir import find_model
from athe_tf.saving.keras_file import load_model
from athe_tf.utils.errors import InputError, check


def open_victim(name, devices=()) -> Victim:
    """A victim from a `.keras` file, a SavedModel folder, a workdir, or `module:function`.

    A SavedModel and a `.keras` file are programs: open only those whose origin you trust.

    Args:
        name: What the user calls the model.
        devices: Put the weights on each of these; possible for Keras models.
    """
    text = str(name)
    imported = ":" in text and not pathlib.Path(text).exists()
    path = None if imported else find_model(name)
    check(
        len(devices) < 2 or (path is not None and path.is_file()),
        f"Only the weights of a .keras file can be put on {len(devices)} devices. Received: --model={name}. "
        "Use --distribution=one.",
    )
    if path is None:
        return victim(_import_function(text))
    if path.is_dir():
        return saved_model_victim(path)
    model = load_model(path)
    return replicated_victim(model, devices) if len(devices) > 1 else victim(model)


def _import_function(text: str):
    module, _, attribute = text.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"Cannot import '{attribute}' from the module '{module}': {error}. Expected "
            "--model=module:function, with the module on PYTHONPATH."
        ) from error
