"""Opening what `--model` names."""

import keras

from athe_tf.attacks.engine.victim import Victim, in_range, replicated_victim
from athe_tf.evaluation.loading import open_model
from athe_tf.models.features import known_graph
from athe_tf.models.input_range import with_input_range
from athe_tf.programs.workdir import find_model, is_imported
from athe_tf.saving.keras_file import load_model
from athe_tf.utils.errors import check
from athe_tf.utils.imports import import_object


def open_victim(name, devices=(), input_range=()) -> Victim:
    """A victim from a file, a SavedModel folder, the folder of a run, or `module:function`.

    SavedModels, `.keras`, `.onnx` and `.tflite` files are programs: open only those whose origin you trust.

    Args:
        name: The value of `--model`.
        devices: Put the weights on each of these; possible for `.keras` files.
        input_range: The values of pixels that the model expects; empty for [0, 1].
    """
    path = None if is_imported(name) else find_model(name)
    check(
        len(devices) < 2 or (path is not None and path.suffix == ".keras"),
        f"Only the weights of a .keras file can be put on {len(devices)} devices. Received: --model={name}. "
        "Use --distribution=one.",
    )
    model = (
        import_object(name, "model")
        if path is None
        else load_model(path)
        if path.suffix == ".keras"
        else path
    )
    if input_range and isinstance(model, keras.Model) and known_graph(model):
        model, input_range = with_input_range(model, input_range), ()
    found = replicated_victim(model, devices) if len(devices) > 1 else open_model(model)
    return in_range(found, *input_range) if input_range else found
