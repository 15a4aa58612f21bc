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

    >>> periods = [athe_tf.load_model(f"runs/pas/periods/{i}.keras") for i in (1, 2, 3)]
    >>> net = athe_tf.models.ensemble_of(periods)

    Args:
        members: Classifiers with the same images and the same classes.
        name: Of the model.
    """
    check(len(members) > 0, "An ensemble needs at least one member. Received: none.")
    first = members[0]
    for member in members:
        check(
            (member.input_shape, member.output_shape) == (first.input_shape, first.output_shape),
            "All members of an ensemble take the same images and know the same classes. "
            f"Received: {first.input_shape} to {first.output_shape}, and "
            f"{member.input_shape} to {member.output_shape}.",
        )
    images = keras.Input(first.input_shape[1:], name="image")
    logits = [_copy(member, f"member_{index}")(images) for index, member in enumerate(members, start=1)]
    together = keras.layers.Concatenate(name="logits")(logits) if len(logits) > 1 else logits[0]
    # float32: a mean of probabilities has no use for less.
    mean = LogMeanSoftmax(len(members), name="head", dtype="float32")(together)
    return keras.Model(images, mean, name=name)


def _copy(member: keras.Model, name: str) -> keras.Model:
    """The same layers and weights under another name, which Keras wants to be unique."""
    copy = keras.models.clone_model(member)
    copy.set_weights(member.get_weights())
    # Keras offers no way to name a clone.
    copy.name = name
    return copy
