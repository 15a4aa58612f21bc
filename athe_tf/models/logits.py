"""`to_logits`: a classifier without its softmax."""

import keras

from athe_tf.models.features import has_softmax, is_softmax_layer, known_graph
from athe_tf.utils.errors import InputError
from athe_tf.utils.keras_compat import producer


def to_logits(model: keras.Model) -> keras.Model:
    """Removes the softmax at the end of a classifier: attacks and adversarial training need logits.

    The softmax may be a layer or the activation of the last layer, also inside a nested model. All other
    layers are shared with `model`, with their weights; a last layer with an activation is replaced by a copy
    without one. A model without a softmax is returned unchanged.

    Example:

    >>> inputs = keras.Input((8, 8, 1))
    >>> outputs = keras.layers.Dense(10, activation="softmax")(keras.layers.Flatten()(inputs))
    >>> net = athe_tf.models.to_logits(keras.Model(inputs, outputs))
    >>> net.layers[-1].activation.__name__
    'linear'

    Args:
        model: A functional or Sequential classifier with one input and one output, such as those of
            `keras.applications`.
    """
    if not known_graph(model):
        raise InputError(
            f"The last layer of '{model.name}' is not known: `to_logits` needs a functional or Sequential "
            "model with one input and one output, and an input shape. Remove the softmax in the model's code."
        )
    layer, before = producer(model.outputs[0])
    if isinstance(layer, keras.Model):
        inner = to_logits(layer)
        return model if inner is layer else _rebuilt(model, inner(before))
    if is_softmax_layer(layer):
        return _rebuilt(model, before)
    return _rebuilt(model, _without_activation(layer, before)) if has_softmax(layer) else model


def _rebuilt(model: keras.Model, logits) -> keras.Model:
    return keras.Model(model.inputs[0], logits, name=f"{model.name}_logits")


def _without_activation(layer, inputs):
    """The output of a copy of a layer that has the same weights and no activation."""
    copy = type(layer).from_config(layer.get_config() | {"activation": "linear"})
    outputs = copy(inputs)
    copy.set_weights(layer.get_weights())
    return outputs
