"""What a user of a model has to know, as `athe_tf.json` says it."""

import keras
import tensorflow as tf

from athe_tf.layers.cosine_dense import CosineDense
from athe_tf.layers.log_mean_softmax import LogMeanSoftmax
from athe_tf.version import __version__

CARD = "athe_tf.json"


def describe(net: keras.Model, margin: float | None = None) -> dict:
    """What a user of the model has to know, for `athe_tf.json`."""
    head = net.layers[-1]
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


def head_name(head) -> str:
    """What `athe_tf.json` calls a last layer: he, mhe, fn, wn, linear, or ensemble."""
    if isinstance(head, LogMeanSoftmax):
        return "ensemble"
    if not isinstance(head, CosineDense):
        return "linear"
    if head.angular:
        return "mhe"
    return {(True, True): "he", (True, False): "fn", (False, True): "wn"}.get(
        (head.normalize_features, head.normalize_weights), "linear"
    )


def _normalization(net: keras.Model) -> dict | None:
    for layer in net._flatten_layers():
        if isinstance(layer, keras.layers.Normalization) and layer.input_mean is not None:
            mean = [float(v) for v in tf.reshape(layer.mean, [-1])]
            return {"mean": mean, "std": [float(v) ** 0.5 for v in tf.reshape(layer.variance, [-1])]}
    return None
