"""`ensemble_of`: several classifiers as one Keras model."""

from collections.abc import Sequence

import keras

from athe_tf.layers.log_mean_softmax import LogMeanSoftmax
from athe_tf.utils.errors import check


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
    logits = [_copy(member, f"member_{index}")(images) for index, member in enumerate(members, start=1)]
    together = keras.layers.Concatenate(name="logits")(logits) if len(logits) > 1 else logits[0]
    # float32, also under mixed precision.
    mean = LogMeanSoftmax(len(members), name="head", dtype="float32")(together)
    return keras.Model(images, mean, name=name)


def _copy(member: keras.Model, name: str) -> keras.Model:
    """The same layers and weights under another name: Keras requires unique names."""
    copy = keras.models.clone_model(member)
    copy.set_weights(member.get_weights())
    # Keras offers no way to name a clone.
    copy.name = name
    return copy
