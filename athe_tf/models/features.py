"""The features that a classifier's last layer sees."""

import keras


def penultimate(model: keras.Model) -> keras.Model | None:
    """The model up to the input of its last layer; `None` if the model is not functional."""
    try:
        inputs = model.inputs[0] if len(model.inputs) == 1 else model.inputs
        return keras.Model(inputs, model.layers[-1].input)
    except (AttributeError, ValueError, IndexError, TypeError):
        return None
