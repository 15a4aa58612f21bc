"""The head of a classifier, and the features that it sees."""

from typing import Any, NamedTuple

import keras

from athe_tf.layers.cosine_dense import CosineDense
from athe_tf.utils.keras_compat import producer


class Head(NamedTuple):
    """The end of a classifier.

    Example:

    >>> Head().features is None
    True

    Attributes:
        layer: The layer that computes the outputs, however deeply nested; `None` if it cannot be told.
        features: A model from images to the input of that layer. `None` unless the layer is a `Dense` or a
            `CosineDense` on one vector per image: the input of another layer need not be the features.
    """

    layer: Any = None
    features: keras.Model | None = None


def find_head(model: keras.Model, before_softmax: bool = False) -> Head:
    """Looks for the head of a classifier, also inside nested models.

    Example:

    >>> net = athe_tf.models.build("small_cnn", 10, head="he", input_shape=(8, 8, 1))
    >>> nested = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Rescaling(1.0), net])
    >>> find_head(nested).layer is net.layers[-1]
    True

    Args:
        model: A Keras model. The layers of a subclassed model may be called in any order: its head is not
            found.
        before_softmax: Look for the layer before a softmax layer. Defaults to `False`.
    """
    if not _is_graph(model) or len(model.inputs) != 1 or len(model.outputs) != 1:
        return Head()
    layer, features = producer(model.outputs[0])
    while _is_identity(layer) or (before_softmax and is_softmax_layer(layer)):
        layer, features = producer(features)
    if isinstance(layer, keras.Model):
        inner = find_head(layer, before_softmax)
        if inner.features is None:
            return inner
        return Head(inner.layer, keras.Model(model.inputs[0], inner.features(features)))
    if isinstance(layer, (CosineDense, keras.layers.Dense)) and len(features.shape) == 2:
        return Head(layer, keras.Model(model.inputs[0], features))
    return Head(layer)


def penultimate(model: keras.Model) -> keras.Model | None:
    """The model up to the input of its head; `None` if the head is not found."""
    return find_head(model).features


def is_softmax_layer(layer) -> bool:
    """Whether a layer only turns logits into probabilities."""
    activation = getattr(layer, "activation", None) if isinstance(layer, keras.layers.Activation) else None
    return isinstance(layer, keras.layers.Softmax) or activation is keras.activations.softmax


def _is_graph(model) -> bool:
    """Whether the calls of a model's layers are known: it is functional, or a `Sequential` with an input."""
    known = isinstance(model, keras.Sequential) or hasattr(model, "operations")
    return known and bool(model.built and model.outputs)


def _is_identity(layer) -> bool:
    """Whether a layer returns its input, perhaps in another precision."""
    activation = getattr(layer, "activation", None) if isinstance(layer, keras.layers.Activation) else None
    return activation is keras.activations.linear or isinstance(layer, keras.layers.Identity)
