"""From the name of a data set to its splits."""

from athe_tf.data import digits, folder, npz, tfds
from athe_tf.data.names import check_name
from athe_tf.data.splits import Splits
from athe_tf.utils.errors import InputError


def load(name, *, data_dir=None, validation_size=None, image_size=None) -> Splits:
    """Loads a data set by its name.

    Example:

        splits = athe_tf.data.load("cifar10", data_dir="/data/tfds")
        model = athe_tf.models.build("wrn-34-10", num_classes=splits.num_classes)

    Args:
        name: `"digits"`, `"npz:PATH"`, `"folder:PATH"`, or the name of a TensorFlow Datasets set.
        data_dir: Where TensorFlow Datasets keeps its data. Defaults to its own default. A set that is
            not there is downloaded.
        validation_size: How many training images are held out for validation. Defaults to a tenth of
            them, at most 1,000; with 0, `validation` is `None`. Sets that bring their own validation
            images use those.
        image_size: Crop the central square of every image and resize it to this height and width.
            Sets whose images differ in size need it.

    Returns:
        `Splits`.
    """
    check_name(name, data_dir=data_dir)
    _check_size("validation_size", validation_size, 0)
    _check_size("image_size", image_size, 1)
    if name == "digits":
        return digits.load(validation_size, image_size)
    if name.startswith("npz:"):
        return npz.load(name, validation_size, image_size)
    if name.startswith("folder:"):
        return folder.load(name, validation_size, image_size)
    return tfds.load(name, data_dir, validation_size, image_size)


def _check_size(argument, value, least):
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
        raise InputError(
            f"Invalid value for argument `{argument}`. Expected an integer of at least {least}. "
            f"Received: {argument}={value!r}."
        )
