"""`load_model`: Keras models from `.keras` files."""

import pathlib
import zipfile
import zlib

import keras

from athe_tf.utils.errors import check, check_model_file, unreadable_model
from athe_tf.utils.keras_compat import safe_mode


def load_model(path: str | pathlib.Path, compile: bool = False) -> keras.Model:
    """Loads a Keras model from a `.keras` file, including the layers and losses of this library.

    Code in the file is never executed: a model with a `Lambda` layer is refused. After `import athe_tf`,
    `keras.models.load_model` loads such a file too, in Keras' own way.

    Example:

    >>> athe_tf.models.build("small_cnn", 10, head="he", input_shape=(8, 8, 1)).save("net.keras")
    >>> net = athe_tf.load_model("net.keras")
    >>> net.layers[-1].scale
    15.0

    Args:
        path: A file that ends with `.keras`. SavedModel folders are opened by `athe_tf.victim`.
        compile: Also restore the optimizer with its state, the loss and the metrics, to go on with `fit`.
            Defaults to `False`.
    """
    check(
        pathlib.Path(path).suffix != ".h5",
        f"Files in the old .h5 format are not read: some versions of Keras run code from them. Received: "
        f"'{path}'. If you trust the file, load it with Keras, and save it as a .keras file.",
    )
    check(pathlib.Path(path).suffix == ".keras", f"Expected a .keras file. Received: '{path}'.")
    check_model_file(path)
    try:
        open(path, "rb").close()  # a file without permission is no zip archive either
        check(zipfile.is_zipfile(path), "it is not a zip archive, as a .keras file is")
        with safe_mode():
            return keras.models.load_model(path, compile=compile, safe_mode=True)
    except Exception as error:
        raise unreadable_model(path, error, _remedy(path)) from error


def _remedy(path: str | pathlib.Path) -> str:
    """What helps against a file that cannot be read."""
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip() is not None
    except OSError:
        return "Check its permissions."
    except (zipfile.BadZipFile, EOFError, zlib.error):
        damaged = True
    if damaged:
        return "It may be truncated; copy or train it again."
    return (
        "Code in a file is never run, and classes of your own are not known here: if you trust the model, "
        "name a function that returns its logits, as module:function."
    )
