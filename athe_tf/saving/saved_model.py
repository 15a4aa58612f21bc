"""`export`: a classifier as a SavedModel with logits and features, and a model card."""

import json
import pathlib
import shutil
from typing import Any

import keras
import tensorflow as tf

from athe_tf.models.features import penultimate
from athe_tf.saving.card import CARD, describe
from athe_tf.utils.errors import InputError
from athe_tf.utils.files import write_text


def export(
    net: keras.Model, folder: str | pathlib.Path, *, margin: float | None = None, replace: bool = False
) -> dict[str, Any]:
    """Writes `net` as a SavedModel that can be attacked like the original.

    Its endpoints are `serve` (logits) and `features` (penultimate features), for any batch size; gradients
    with respect to the images flow through both. The file `athe_tf.json` in the same folder is a model card:
    the head, its scale, the margin of training, the number of classes and the normalization.

    Example:

    >>> net = athe_tf.models.build("small_cnn", 10, head="he", input_shape=(8, 8, 1))
    >>> card = athe_tf.export(net, "export")
    >>> athe_tf.victim("export").scale
    15.0

    Args:
        net: A Keras classifier.
        folder: Where to write. Must not exist, unless `replace`.
        margin: The margin of training, for the card. Defaults to `None`: unknown.
        replace: Delete what is in `folder`. Defaults to `False`.

    Returns:
        The card.
    """
    folder = pathlib.Path(folder)
    if folder.exists():
        if not replace:
            raise InputError(
                f"The folder '{folder}' exists already. Choose another one, or use `replace=True`."
            )
        shutil.rmtree(folder)
    archive = keras.export.ExportArchive()
    archive.track(net)
    images = tf.TensorSpec([None, *net.input_shape[1:]], tf.float32, name="images")
    archive.add_endpoint("serve", lambda x: net(x, training=False), input_signature=[images])
    features = penultimate(net)
    if features is not None:
        archive.add_endpoint("features", lambda x: features(x, training=False), input_signature=[images])
    archive.write_out(str(folder), verbose=False)
    card = describe(net, margin)
    write_text(folder / CARD, json.dumps(card, indent=2) + "\n")
    return card
