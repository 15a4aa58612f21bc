"""`freeze`: layers that keep their weights in training, by name."""

import re

import keras

from athe_tf.utils.errors import InputError, check
from athe_tf.utils.keras_compat import all_layers


def freeze(model: keras.Model, pattern: str) -> list[str]:
    """Freezes the layers whose names match a regular expression, and returns these names.

    Frozen layers keep their weights, and their batch normalization its moving statistics, which it also uses
    in training: this is `layer.trainable = False` for all of them, however deeply nested. Freeze before
    `compile`. Setting `layer.trainable = True` and compiling again undoes it.

    Example:

    >>> net = athe_tf.models.build("small_cnn", 10, input_shape=(8, 8, 1))
    >>> athe_tf.models.freeze(net, "(conv|bn)[12]")
    ['conv1', 'bn1', 'conv2', 'bn2']
    >>> net.layers[1].trainable
    False

    Args:
        model: A Keras model.
        pattern: A regular expression that matches whole names of layers, such as `"conv1|group[12]_.*"`.
    """
    layers = _layers_with_weights(model)
    names = [layer.name for layer in layers]
    try:
        matching = [layer for layer in layers if re.fullmatch(pattern, layer.name)]
    except re.error as error:
        raise InputError(
            f"`pattern` must be a regular expression. Received: pattern={pattern!r} ({error})."
        ) from None
    check(
        len(matching) > 0,
        f"No layer with weights has a name that matches {pattern!r} as a whole. Its layers are "
        f"{', '.join(names)}. Use a pattern such as '{names[0]}.*'."
        if names
        else f"The model '{model.name}' has no layers with weights. Build it first.",
    )
    for layer in matching:
        layer.trainable = False
    return [layer.name for layer in matching]


def _layers_with_weights(model: keras.Model) -> list[keras.layers.Layer]:
    """The layers of a model, nested ones included, in the order of their weights."""
    position = {id(weight): number for number, weight in enumerate(model.weights)}
    layers = [layer for layer in all_layers(model) if layer is not model and layer.weights]
    return sorted(layers, key=lambda layer: position[id(layer.weights[0])])
