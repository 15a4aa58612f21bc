"""`embedding_model`: the features of a classifier as an embedding."""

import keras

from athe_tf.models.features import penultimate
from athe_tf.utils.errors import InputError


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
    features = penultimate(model)
    if features is None:
        raise InputError(
            f"The features of '{model.name}' are not known. Expected a functional or Sequential model that "
            "ends in a Dense or CosineDense. Build it yourself: keras.Model(images, features)."
        )
    unit = keras.layers.UnitNormalization(dtype="float32", name="unit_length")(features.outputs[0])
    return keras.Model(features.inputs[0], unit, name=f"{model.name}_embedding")
