"""Opening what a user calls a model."""

import pathlib

from athe_tf.attacks.engine.victim import Victim, saved_model_victim, victim
from athe_tf.evaluation.runtime_model import open_runtime_model
from athe_tf.saving.keras_file import load_model
from athe_tf.utils.choices import RUNTIME_SUFFIXES
from athe_tf.utils.errors import InputError, check


def open_model(model) -> Victim:
    """A victim from a model, or from the path of a `.keras`, `.onnx` or `.tflite` file or a SavedModel.

    SavedModels and `.keras` files are programs: open only those whose origin you trust.

    Example:

    >>> victim = open_model("runs/digits/best.keras")

    Args:
        model: A path, or anything that `athe_tf.victim` takes.
    """
    if not isinstance(model, (str, pathlib.Path)):
        return victim(model)
    path = pathlib.Path(model)
    check(
        path.exists(), f"There is no model at '{path}'. Expected a .keras file or the folder of a SavedModel."
    )
    if path.suffix in RUNTIME_SUFFIXES:
        return open_runtime_model(path)
    if not path.is_dir():
        return victim(load_model(path))
    if not (path / "saved_model.pb").exists() and (path / "config.json").exists():
        raise InputError(
            f"Expected a .keras file or the folder of a SavedModel. Received the folder of a training run: "
            f"'{path}'. Give its best model: '{path / 'best.keras'}'."
        )
    return saved_model_victim(path)
