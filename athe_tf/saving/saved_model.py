"""Writing a classifier as a SavedModel with logits and features, and a card that says what it is."""

import json
import pathlib
import shutil

import keras
import tensorflow as tf

from athe_tf.models.features import penultimate
from athe_tf.saving.card import CARD, describe
from athe_tf.utils.errors import InputError
from athe_tf.utils.files import write_text


def export(net: keras.Model, folder, *, margin: float | None = None, replace: bool = False) -> dict:
    """Writes `net` as a SavedModel that can be attacked like the original.

    Its endpoints are `serve` (logits) and `features` (penultimate features), for any batch size; gradients
    with respect to the images flow through both. Beside them, `athe_tf.json` tells the head, its scale, the
    margin it was trained with, the number of classes and the normalisation inside.

    Example:

    >>> athe_tf.export(net, "export/")
    >>> report = athe_tf.evaluate("export/", test_images, attacks=["pgd-20"], epsilon=8 / 255)

    Args:
        net: A Keras classifier.
        folder: Where to write; must not exist, unless `replace`.
        margin: The margin of training, for the card.
        replace: Replace what stands in `folder`.

    Returns:
        The card.
    """
    folder = pathlib.Path(folder)
    if folder.exists():
        if not replace:
            raise InputError(f"The folder '{folder}' exists already. Export to another one.")
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
