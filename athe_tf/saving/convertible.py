"""A copy of a classifier that converters to ONNX and LiteRT understand."""

import keras
import numpy as np
from keras import ops

from athe_tf.layers.cosine_dense import ANGULAR_CLIP, CosineDense
from athe_tf.utils.errors import InputError


class ArctangentHead(CosineDense):
    """An angular `CosineDense` without the arc cosine, which LiteRT does not have.

    The angle is atan2(sqrt(1 - c²), c) for a cosine c.
    """

    def call(self, inputs):
        limit = 1.0 - ANGULAR_CLIP
        cosines = ops.clip(self.similarities(inputs), -limit, limit)
        return -self.scale * ops.arctan2(ops.sqrt(1.0 - ops.square(cosines)), cosines)


def convertible(net: keras.Model) -> keras.Model:
    """A copy of `net` that computes the same logits, up to rounding, with operations that convert.

    The normalization of the input becomes a `Rescaling`, whose numbers are part of the graph: the converter
    to ONNX takes those of a `Normalization` for inputs. An angular head becomes an `ArctangentHead`.

    Args:
        net: A functional or Sequential classifier.
    """
    try:
        copy = keras.models.clone_model(net, clone_function=_copied)
    except ValueError as error:
        raise InputError(
            f"Only functional and Sequential models can be converted. Received: {type(net).__name__} "
            f"'{net.name}'. Export it as a SavedModel."
        ) from error
    kept = [weight for layer in net.layers for weight in _kept_weights(layer)]
    copy.set_weights([np.asarray(weight) for weight in kept])
    return copy


def _copied(layer: keras.layers.Layer) -> keras.layers.Layer:
    if isinstance(layer, keras.layers.Normalization):
        mean, variance = (np.ravel(value).astype(float) for value in (layer.mean, layer.variance))
        std = np.sqrt(variance)
        return keras.layers.Rescaling((1 / std).tolist(), (-mean / std).tolist(), name=layer.name)
    if isinstance(layer, CosineDense) and layer.angular:
        return ArctangentHead.from_config(layer.get_config())
    return type(layer).from_config(layer.get_config())


def _kept_weights(layer: keras.layers.Layer) -> list:
    """The weights that the copy of a layer has too."""
    if isinstance(layer, keras.layers.Normalization):
        return []
    if isinstance(layer, keras.Model):
        return [weight for inner in layer.layers for weight in _kept_weights(inner)]
    return layer.weights
