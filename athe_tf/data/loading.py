"""From the name of a data set to its splits."""

import pathlib

from athe_tf.data import digits, folder, npz, tfds
from athe_tf.data.names import check_name
from athe_tf.data.splits import Splits, from_arrays
from athe_tf.utils.errors import check_integer


def load(
    name: str,
    *,
    data_dir: str | pathlib.Path | None = None,
    validation_size: int | None = None,
    image_size: int | None = None,
) -> Splits:
    """Loads a data set by its name.

    Example:

    >>> splits = athe_tf.data.load("digits")
    >>> len(splits.train), len(splits.validation), len(splits.test), splits.num_classes
    (1197, 200, 400, 10)

    Args:
        name: `"digits"`, `"npz:PATH"`, `"folder:PATH"`, or the name of a TensorFlow Datasets set.
        data_dir: Where TensorFlow Datasets keeps its data. Defaults to its own default. A set that is
            not there is downloaded. Use only folders that you trust: their files name Python classes, of
            which only TFDS' own features are loaded.
        validation_size: Number of training images to hold out for validation. Defaults to a tenth of
            them, at most 1,000; with 0, `validation` is `None`. Sets that have their own validation
            images use those.
        image_size: Crop the central square of every image and resize it to this height and width.
            Required for sets whose images differ in size.

    Returns:
        `Splits`.
    """
    check_name(name, data_dir=data_dir)
    if validation_size is not None:
        check_integer("validation_size", validation_size, 0)
    if image_size is not None:
        check_integer("image_size", image_size, 1)
    if name == "digits":
        return digits.load(validation_size, image_size)
    if name.startswith("npz:"):
        parts = npz.read(name.removeprefix("npz:"))
        return from_arrays(name, parts, validation_size=validation_size, image_size=image_size)
    if name.startswith("folder:"):
        return folder.load(name, validation_size, image_size)
    return tfds.load(name, data_dir, validation_size, image_size)
