"""The head of a classifier, and the features that it sees; `embedding_model`: these as an embedding."""

from typing import Any, NamedTuple

import keras

from athe_tf.layers.cosine_dense import CosineDense
from athe_tf.utils.errors import InputError, check
from athe_tf.utils.keras_compat import all_layers, producer


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
    if not known_graph(model):
        return Head()
    layer, features = producer(model.outputs[0])
    while is_identity(layer) or (before_softmax and is_softmax_layer(layer)):
        layer, features = producer(features)
    if isinstance(layer, keras.Model):
        inner = find_head(layer, before_softmax)
        if inner.features is None:
            return inner
        return Head(inner.layer, keras.Model(model.inputs[0], inner.features(features)))
    if isinstance(layer, (CosineDense, keras.layers.Dense)) and len(features.shape) == 2:
        return Head(layer, keras.Model(model.inputs[0], features))
    return Head(layer)


def check_classifier(model: keras.Model) -> None:
    """Raises `InputError` unless a model says its image shape and its number of classes.

    Example:

    >>> check_classifier(athe_tf.models.build("small_cnn", 10, input_shape=(8, 8, 1)))
    """
    shapes = [getattr(model, name, None) for name in ("input_shape", "output_shape")]
    check(
        None not in shapes,
        f"The image shape and the number of classes of the model '{model.name}' are not known, as its layers "
        "are called in Python code. Wrap it: net = keras.Model(images, net(images)) with images = "
        "keras.Input(image_shape).",
    )
    check(
        isinstance(shapes[0], tuple) and isinstance(shapes[1], tuple) and len(shapes[1]) == 2,
        f"Expected a classifier with one input and one vector of logits. Received: the model '{model.name}' "
        f"from {shapes[0]} to {shapes[1]}. Make one: keras.Model(images, logits).",
    )


def integer_dtype(model) -> str | None:
    """The dtype of a model's input if it is not a floating-point one; `None` if it is, or is not known.

    Example:

    >>> integer_dtype(keras.Sequential([keras.Input((8, 8, 1), dtype="uint8"), keras.layers.Flatten()]))
    'uint8'
    """
    dtypes = [keras.backend.standardize_dtype(one.dtype) for one in getattr(model, "inputs", None) or ()]
    return next((dtype for dtype in dtypes if not keras.backend.is_float_dtype(dtype)), None)


def check_float_input(model: keras.Model) -> None:
    """Raises `InputError` if a model, or one inside it, takes integers: they have no gradient.

    Example:

    >>> check_float_input(athe_tf.models.build("small_cnn", 10, input_shape=(8, 8, 1)))
    """
    for one in all_layers(model):
        dtype = integer_dtype(one) if isinstance(one, keras.Model) else None
        where = "" if one is model else f" contains the model '{one.name}', which"
        check(
            dtype is None,
            f"The model '{model.name}'{where} takes images of dtype {dtype}, and integers have no gradient. "
            "Expected a floating-point input. Use net = athe_tf.models.with_input_range(model, "
            f"{'(0, 255)' if one is model else '(0, 1)'}), which shares its layers.",
        )


def embedding_model(model: keras.Model) -> keras.Model:
    """The classifier without its head: from images to features of unit length.

    Two images are as similar as the inner product of their embeddings, their cosine. The layers are shared
    with `model`.

    Example:

    >>> net = athe_tf.models.build("small_cnn", 10, head="he", input_shape=(8, 8, 1))
    >>> athe_tf.models.embedding_model(net).output_shape
    (None, 128)

    Args:
        model: A functional or Sequential classifier that ends in a `Dense` or a `CosineDense`, also inside a
            nested model.
    """
    features = find_head(model).features
    if features is None:
        raise InputError(
            f"The features of '{model.name}' are not known. Expected a functional or Sequential model that "
            "ends in a Dense or CosineDense. Build it yourself: keras.Model(images, features)."
        )
    unit = keras.layers.UnitNormalization(dtype="float32", name="unit_length")(features.outputs[0])
    return keras.Model(features.inputs[0], unit, name=f"{model.name}_embedding")


def is_softmax_layer(layer) -> bool:
    """Whether a layer only turns logits into probabilities."""
    return isinstance(layer, keras.layers.Softmax) or _only_applies(layer, keras.activations.softmax)


def has_softmax(layer) -> bool:
    """Whether a layer turns its outputs into probabilities."""
    return is_softmax_layer(layer) or getattr(layer, "activation", None) is keras.activations.softmax


def known_graph(model) -> bool:
    """Whether the calls of a model's layers are known, from one input to one output.

    They are for functional models, and for a `Sequential` that has an input shape.
    """
    known = isinstance(model, keras.Sequential) or hasattr(model, "operations")
    return known and bool(model.built and model.outputs) and len(model.inputs) == len(model.outputs) == 1


def is_identity(layer) -> bool:
    """Whether a layer returns its input, perhaps in another precision."""
    return isinstance(layer, keras.layers.Identity) or _only_applies(layer, keras.activations.linear)


def _only_applies(layer, activation) -> bool:
    return isinstance(layer, keras.layers.Activation) and layer.activation is activation
