"""Shipping a classifier: a SavedModel with logits and features, and a card that says what it is."""

import json
import pathlib
import shutil
import zipfile

import keras
import tensorflow as tf
from keras.src.saving.serialization_lib import SafeModeScope

import athe_tf.layers  # noqa: F401  (registers the layers that a file may name)
from athe_tf.attacks.victim import penultimate
from athe_tf.errors import InputError, check
from athe_tf.files import write_text
from athe_tf.layers.cosine_dense import CosineDense
from athe_tf.layers.log_mean_softmax import LogMeanSoftmax
from athe_tf.version import __version__

CARD = "athe_tf.json"


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


def describe(net: keras.Model, margin: float | None = None) -> dict:
    """What a user of the model has to know, for `athe_tf.json`."""
    head = net.layers[-1]
    return {
        "name": net.name,
        "input_shape": list(net.input_shape[1:]),
        "num_classes": net.output_shape[-1],
        "head": head_name(head),
        "scale": head.scale if isinstance(head, CosineDense) else None,
        "margin": margin,
        "normalization": _normalization(net),
        "athe_tf": __version__,
    }


def head_name(head) -> str:
    """What `athe_tf.json` calls a last layer: he, mhe, fn, wn, linear, or ensemble."""
    if isinstance(head, LogMeanSoftmax):
        return "ensemble"
    if not isinstance(head, CosineDense):
        return "linear"
    if head.angular:
        return "mhe"
    return {(True, True): "he", (True, False): "fn", (False, True): "wn"}.get(
        (head.normalize_features, head.normalize_weights), "linear"
    )


def _normalization(net: keras.Model) -> dict | None:
    for layer in net._flatten_layers():
        if isinstance(layer, keras.layers.Normalization) and layer.input_mean is not None:
            mean = [float(v) for v in tf.reshape(layer.mean, [-1])]
            return {"mean": mean, "std": [float(v) ** 0.5 for v in tf.reshape(layer.variance, [-1])]}
    return None


def load_model(path) -> keras.Model:
    """A Keras model from a `.keras` file, whatever layers of this library it has.

    `keras.models.load_model` does the same once `athe_tf.layers` was imported.

    Example:

    >>> net = athe_tf.load_model("runs/digits/best.keras")
    """
    check(
        pathlib.Path(path).suffix != ".h5",
        f"Files in the old .h5 format are not read: some versions of Keras run code from them. Received: "
        f"'{path}'. Load it yourself where you trust it, and save it as a .keras file.",
    )
    check(
        pathlib.Path(path).suffix == ".keras",
        f"Expected a .keras file, a SavedModel folder or a workdir. Received: '{path}'.",
    )
    check(pathlib.Path(path).is_file(), f"There is no model file '{path}'.")
    check(
        zipfile.is_zipfile(path),
        f"The model file '{path}' cannot be read: it is not a zip archive, as a .keras file is. It may be "
        "truncated; copy or train it again.",
    )
    try:
        # The scope too: `keras.config.enable_unsafe_deserialization`, which a process may have called for
        # files of its own, comes before the argument.
        with SafeModeScope(True):
            return keras.models.load_model(path, compile=False, safe_mode=True)
    except Exception as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(
            f"The model file '{path}' cannot be read: {first.rstrip('.')}. It may be truncated; copy or "
            "train it again."
        ) from error
