"""The card of a model: head, scale, margin, classes and normalization.

It lies in the folder of a SavedModel as `athe_tf.json`, and beside a file `net.onnx` as `net.onnx.json`.
"""

import json
import math
import os
import pathlib
from typing import Any

import keras
import tensorflow as tf

from athe_tf.layers.cosine_dense import CosineDense
from athe_tf.layers.log_mean_softmax import LogMeanSoftmax
from athe_tf.models.features import check_classifier, find_head
from athe_tf.utils.errors import InputError
from athe_tf.utils.files import write_text
from athe_tf.utils.keras_compat import all_layers
from athe_tf.version import __version__

#: The card in the folder of a SavedModel.
CARD = "athe_tf.json"


def card_path(path: str | os.PathLike) -> pathlib.Path:
    """Where the card of a SavedModel folder or of a file is: `net.onnx.json` for `net.onnx`."""
    path = pathlib.Path(path)
    return path / CARD if path.is_dir() else path.with_name(f"{path.name}.json")


def write_card(path: str | os.PathLike, card: dict[str, Any]) -> None:
    """Writes the card of a SavedModel folder or of a file."""
    write_text(card_path(path), json.dumps(card, indent=2) + "\n")


def read_card(path: str | os.PathLike) -> dict[str, Any]:
    """The card of a SavedModel folder or of a file, empty if there is none; `InputError` if it is no card."""
    beside = card_path(path)
    if not beside.exists():
        return {}
    try:
        card = json.loads(beside.read_text(encoding="utf-8"))
        _check_card(card)
    except (OSError, ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise InputError(
            f"The card '{beside}' beside the model cannot be read: {reason}. Export the model again, or "
            "remove the card."
        ) from error
    return card


def _check_card(card) -> None:
    """Raises `ValueError` if a card contains values that nobody can use."""
    if not isinstance(card, dict):
        raise ValueError("it is not a JSON object")
    for name, kind in (("scale", (int, float)), ("margin", (int, float)), ("num_classes", int)):
        value = card.get(name)
        if value is None or (value == 0 and name == "margin"):
            continue
        if not isinstance(value, kind) or isinstance(value, bool) or not 0 < value < math.inf:
            raise ValueError(f"its `{name}` is {str(value)[:100]}, not a usable number")


def describe(net: keras.Model, margin: float | None = None) -> dict:
    """The content of a model card: what an attacker or a user of the model has to know.

    Example:

    >>> net = athe_tf.models.build("small_cnn", 10, head="he", input_shape=(8, 8, 1))
    >>> card = athe_tf.saving.describe(net, margin=0.2)
    >>> card["head"], card["scale"], card["margin"], card["num_classes"]
    ('he', 15.0, 0.2, 10)

    Args:
        net: A Keras classifier.
        margin: The margin of its training. Defaults to `None`: unknown.
    """
    check_classifier(net)
    head = find_head(net).layer
    return {
        "name": net.name,
        "input_shape": list(net.input_shape[1:]),
        "num_classes": net.output_shape[-1],
        "head": head_name(head),
        "scale": head.scale if isinstance(head, CosineDense) else None,
        "margin": margin,
        "normalization": _normalization(net),
        "athe_tf": __version__,
    }


def head_name(head: keras.layers.Layer | None) -> str:
    """The name of a head in a model card: he, mhe, fn, wn, linear, ensemble, or unknown."""
    if isinstance(head, LogMeanSoftmax):
        return "ensemble"
    if not isinstance(head, CosineDense):
        return "linear" if isinstance(head, keras.layers.Dense) else "unknown"
    if head.angular:
        return "mhe"
    return {(True, True): "he", (True, False): "fn", (False, True): "wn"}.get(
        (head.normalize_features, head.normalize_weights), "linear"
    )


def _normalization(net: keras.Model) -> dict | None:
    for layer in all_layers(net):
        if isinstance(layer, keras.layers.Normalization) and layer.input_mean is not None:
            mean = [float(v) for v in tf.reshape(layer.mean, [-1])]
            return {"mean": mean, "std": [float(v) ** 0.5 for v in tf.reshape(layer.variance, [-1])]}
    return None
