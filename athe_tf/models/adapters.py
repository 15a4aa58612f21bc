"""Classifiers from other ones: `to_logits`, `with_input_range`, `ensemble_of`; and `freeze`."""

import re
from collections.abc import Sequence

import keras

from athe_tf.layers.log_mean_softmax import LogMeanSoftmax
from athe_tf.models.builder import NORMALIZATION
from athe_tf.models.features import (
    check_classifier,
    has_softmax,
    integer_dtype,
    is_softmax_layer,
    known_graph,
)
from athe_tf.utils.choices import check_input_range, check_statistics
from athe_tf.utils.errors import InputError, check
from athe_tf.utils.keras_compat import all_layers, producer


def to_logits(model: keras.Model) -> keras.Model:
    """Removes the softmax at the end of a classifier: attacks and adversarial training need logits.

    The softmax may be a layer or the activation of the last layer, also inside a nested model. All other
    layers are shared with `model`, with their weights; a last layer with an activation is replaced by a copy
    without one. A model without a softmax is returned unchanged. An integer input, which has no gradient,
    becomes a float32 one, as in `with_input_range`.

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
    model = _with_float_input(model)
    layer, before = producer(model.outputs[0])
    if isinstance(layer, keras.Model):
        inner = to_logits(layer)
        return model if inner is layer else _rebuilt(model, inner(before))
    if is_softmax_layer(layer):
        return _rebuilt(model, before)
    if not has_softmax(layer):
        return model
    copy = type(layer).from_config(layer.get_config() | {"activation": "linear"})
    rebuilt = _rebuilt(model, copy(before))
    copy.set_weights(layer.get_weights())
    return rebuilt


def _rebuilt(model: keras.Model, logits) -> keras.Model:
    return keras.Model(model.inputs[0], logits, name=f"{model.name}_logits")


def _with_float_input(model: keras.Model) -> keras.Model:
    """The same layers, called on float32 images where the model, or one inside it, takes integers."""
    inside = [one for one in all_layers(model) if isinstance(one, keras.Model)]
    if not any(map(integer_dtype, inside)):
        return model

    def floating(tensor):
        dtype = tensor.dtype if keras.backend.is_float_dtype(tensor.dtype) else "float32"
        return keras.Input(tensor.shape[1:], dtype=dtype)

    def same(layer):
        return _with_float_input(layer) if isinstance(layer, keras.Model) else layer

    inputs = model.inputs[0] if isinstance(model, keras.Sequential) else model.input
    images = keras.tree.map_structure(floating, inputs)
    return keras.models.clone_model(model, input_tensors=images, clone_function=same)


def with_input_range(
    model: keras.Model,
    input_range: Sequence[float] = (0.0, 1.0),
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
) -> keras.Model:
    """A classifier that takes images in [0, 1], from one that takes another range, such as 0 to 255.

    Everything else in this library takes images in [0, 1], where the radius of an attack is measured. The
    returned model rescales its input and shares the layers of `model`. If that takes integers, such as uint8,
    which have no gradient, its layers are called on float32 images instead: whole numbers give the same.

    Example:

    >>> of_pixels = athe_tf.models.build("small_cnn", 10, input_shape=(8, 8, 1))
    >>> net = athe_tf.models.with_input_range(of_pixels, (0, 255))
    >>> net.layers[1].scale
    255

    Args:
        model: A Keras classifier.
        input_range: The smallest and the largest value of a pixel that `model` expects. Defaults to 0 and 1.
        mean: What is subtracted from each channel then, if `model` expects normalized images. Defaults to
            `()`: nothing.
        std: What each channel is divided by; goes with `mean`.
    """
    check_input_range(input_range, "`input_range`")
    check_classifier(model)
    low, high = input_range
    images = keras.Input(model.input_shape[1:], name="image")
    rescaled = images
    if (low, high) != (0, 1) or not mean:
        rescaled = keras.layers.Rescaling(high - low, low, dtype="float32", name="input_range")(images)
    if mean:
        check_statistics(mean, std, model.input_shape[-1])
        variance = [value**2 for value in std]
        layer = keras.layers.Normalization(
            mean=list(mean), variance=variance, dtype="float32", name=NORMALIZATION
        )
        rescaled = layer(rescaled)
    return keras.Model(images, _with_float_input(model)(rescaled), name=model.name)


def ensemble_of(members: Sequence[keras.Model], name: str = "ensemble") -> keras.Model:
    """One classifier that predicts the mean of its members' probabilities.

    Its logits are the logarithm of that mean. It is a plain Keras model: it can be saved, exported, evaluated
    and attacked like any other, and gradients flow through all members. The members are copied.

    Example:

    >>> members = [athe_tf.models.build("small_cnn", 10, input_shape=(8, 8, 1), seed=i) for i in (1, 2)]
    >>> net = athe_tf.models.ensemble_of(members)
    >>> net.output_shape
    (None, 10)

    Args:
        members: Classifiers with the same input shape and the same classes.
        name: Name of the model. Defaults to `"ensemble"`.
    """
    check(len(members) > 0, "An ensemble needs at least one member. Received: none.")
    first = members[0]
    for member in members:
        check(
            (member.input_shape, member.output_shape) == (first.input_shape, first.output_shape),
            "All members of an ensemble must have the same input shape and the same classes. "
            f"Received: {first.input_shape} to {first.output_shape}, and "
            f"{member.input_shape} to {member.output_shape}.",
        )
    images = keras.Input(first.input_shape[1:], name="image")
    logits = []
    for index, member in enumerate(members, start=1):
        copy = keras.models.clone_model(member)
        copy.set_weights(member.get_weights())
        # Keras requires unique names, and offers no way to name a clone.
        copy.name = f"member_{index}"
        logits.append(copy(images))
    together = keras.layers.Concatenate(name="logits")(logits) if len(logits) > 1 else logits[0]
    # float32, also under mixed precision.
    mean = LogMeanSoftmax(len(members), name="head", dtype="float32")(together)
    return keras.Model(images, mean, name=name)


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
    # Nested ones included, in the order of their weights.
    position = {id(weight): number for number, weight in enumerate(model.weights)}
    layers = [layer for layer in all_layers(model) if layer is not model and layer.weights]
    layers.sort(key=lambda layer: position[id(layer.weights[0])])
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
