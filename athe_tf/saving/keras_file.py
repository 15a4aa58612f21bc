"""Reading `.keras` files."""

import pathlib
import zipfile

import keras
from keras.src.saving.serialization_lib import SafeModeScope

from athe_tf.layers import batch_norm, cosine_dense, log_mean_softmax  # noqa: F401  (a file may name them)
from athe_tf.utils.errors import InputError, check


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
