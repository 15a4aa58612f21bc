"""The model card `athe_tf.json`: head, scale, margin, classes and normalization of a model."""

import keras
import tensorflow as tf

from athe_tf.layers.cosine_dense import CosineDense
from athe_tf.layers.log_mean_softmax import LogMeanSoftmax
from athe_tf.models.features import check_classifier, find_head
from athe_tf.utils.keras_compat import all_layers
from athe_tf.version import __version__

CARD = "athe_tf.json"


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
