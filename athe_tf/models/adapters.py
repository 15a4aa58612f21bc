"""Classifiers with the inputs and outputs that this library expects: `to_logits`, `with_input_range`."""

from collections.abc import Sequence

import keras

from athe_tf.models.features import check_classifier, has_softmax, is_softmax_layer, known_graph
from athe_tf.utils.choices import check_input_range
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


def with_input_range(model: keras.Model, input_range: Sequence[float]) -> keras.Model:
    """A classifier that takes images in [0, 1], from one that takes another range, such as 0 to 255.

    Everything else in this library takes images in [0, 1], where the radius of an attack is measured. The
    returned model rescales its input and shares the layers of `model`.

    Example:

    >>> of_pixels = athe_tf.models.build("small_cnn", 10, input_shape=(8, 8, 1))
    >>> net = athe_tf.models.with_input_range(of_pixels, (0, 255))
    >>> net.layers[1].scale
    255

    Args:
        model: A Keras classifier.
        input_range: The smallest and the largest value of a pixel that `model` expects.
    """
    check_input_range(input_range, "`input_range`")
    check_classifier(model)
    low, high = input_range
    images = keras.Input(model.input_shape[1:], name="image")
    rescaled = keras.layers.Rescaling(high - low, low, dtype="float32", name="input_range")(images)
    return keras.Model(images, model(rescaled), name=model.name)
