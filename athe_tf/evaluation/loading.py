"""Opening whatever a user calls a model."""

import importlib
import pathlib

from athe_tf.attacks.victim import Victim, saved_model_victim, victim
from athe_tf.errors import InputError
from athe_tf.saved_model import load_model
from athe_tf.workdir import find_model


def open_victim(name) -> Victim:
    """A victim from a `.keras` file, a SavedModel folder, a workdir, or `module:function`.

    A SavedModel and a `.keras` file are programs: open only those whose origin you trust.
    """
    text = str(name)
    if ":" in text and not pathlib.Path(text).exists():
        return victim(_import_function(text))
    path = find_model(name)
    if path.is_dir():
        return saved_model_victim(path)
    return victim(load_model(path))


def _import_function(text: str):
    module, _, attribute = text.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"Cannot import '{attribute}' from the module '{module}': {error}. Expected "
            "--model=module:function, with the module on PYTHONPATH."
        ) from error
