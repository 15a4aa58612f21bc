"""`export`: a classifier as a SavedModel with logits and features, and a model card."""

import json
import pathlib
from typing import Any

import keras
import tensorflow as tf

from athe_tf.jobs.locks import lock_name, locked
from athe_tf.models.features import penultimate
from athe_tf.saving.card import CARD, describe
from athe_tf.utils.errors import InputError
from athe_tf.utils.files import recover_folder, replacing_folder, write_text

#: What an export contains.
EXPORTED = {"assets", "fingerprint.pb", "saved_model.pb", "variables", CARD}


def export(
    net: keras.Model, folder: str | pathlib.Path, *, margin: float | None = None, replace: bool = False
) -> dict[str, Any]:
    """Writes `net` as a SavedModel that can be attacked like the original.

    Its endpoints are `serve` (logits) and, if the model ends in a `Dense` or `CosineDense`, `features`
    (penultimate features), for any batch size; gradients with respect to the images flow through both. The
    file `athe_tf.json` in the same folder is a model card:
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
        replace: Replace the export in `folder`, once the new one is complete. Defaults to `False`.

    Returns:
        The card.
    """
    folder = pathlib.Path(folder).absolute()
    with locked(folder.parent, lock_name(folder.name)):
        recover_folder(folder)
        check_replaceable(folder, replace)
        card = describe(net, margin)
        with replacing_folder(folder) as new:
            _write(net, new)
            write_text(new / CARD, json.dumps(card, indent=2) + "\n")
    return card


def check_replaceable(folder: str | pathlib.Path, replace: bool) -> None:
    """Raises `InputError` unless `export` may write to a folder."""
    folder = pathlib.Path(folder)
    if not folder.exists():
        return
    if not replace:
        raise InputError(f"'{folder}' exists already. Choose another folder, or use `replace=True`.")
    if not folder.is_dir() or any(path.name not in EXPORTED for path in folder.iterdir()):
        raise InputError(
            f"'{folder}' is not an exported model, or contains other files. Only an exported model is "
            "replaced; choose another folder."
        )


def _write(net: keras.Model, folder: pathlib.Path) -> None:
    archive = keras.export.ExportArchive()
    archive.track(net)
    images = tf.TensorSpec([None, *net.input_shape[1:]], tf.float32, name="images")
    archive.add_endpoint("serve", lambda x: net(x, training=False), input_signature=[images])
    features = penultimate(net)
    if features is not None:
        archive.add_endpoint("features", lambda x: features(x, training=False), input_signature=[images])
    archive.write_out(str(folder), verbose=False)
