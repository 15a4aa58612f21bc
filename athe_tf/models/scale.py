"""`suggest_scale`: a scale for a hypersphere head, from a model with a linear head."""

import keras
import numpy as np

from athe_tf.utils.errors import check


def suggest_scale(model: keras.Model, images, batch_size: int = 128) -> float:
    """The mean Euclidean norm of a model's logits, as a first value for the scale s of a hypersphere head.

    The authors of hypersphere embedding chose the range of s by this norm in standard training, which they
    found to be around 10 (rebuttal). Train with values around it and compare robust accuracies.

    Example:

    >>> linear = athe_tf.models.build("small_cnn", 10, input_shape=(8, 8, 1))
    >>> scale = athe_tf.models.suggest_scale(linear, x)

    Args:
        model: A classifier with a linear head, after standard training.
        images: Clean images in [0, 1].
        batch_size: Images per forward pass. Defaults to 128.
    """
    logits = np.asarray(model.predict(np.asarray(images), batch_size=batch_size, verbose=0), np.float64)
    check(
        logits.ndim == 2 and len(logits) > 0,
        "Expected a classifier with one vector of logits per image, and at least one image. "
        f"Received: logits of shape {logits.shape}.",
    )
    return float(np.linalg.norm(logits, axis=1).mean())
