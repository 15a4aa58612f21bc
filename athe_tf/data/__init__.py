"""Data sets as splits of `(float32 image in [0, 1], integer label)`.

    splits = athe_tf.data.load("digits")
    for images, labels in splits.train.stream(128, seed=0, augmentation="pad_crop_flip"):
        ...                                  # endless, and the same from any `start_step`
    splits.test.batches(256)                 # in order, nothing dropped
    images, labels = splits.test.arrays(max_examples=1000)

A data set is named

* `digits`: 1,797 handwritten digits of 8 x 8 pixels, shipped with this package;
* `npz:PATH`: a NumPy archive with `x_train`, `y_train`, `x_test`, `y_test`;
* `folder:PATH`: image files, `train/CLASS/*.png` and `test/CLASS/*.jpg`;
* any TensorFlow Datasets name with images and labels: `cifar10`, `mnist`, `imagenet2012`,
  `cifar10_corrupted/fog_3`, `cifar10:3.0.2`.

`with_extra` mixes generated or unlabelled images into the training batches of any of them; `corrupt` makes
noisy, blurred or foggy images of theirs.

Nothing here imports TensorFlow before `load` is called, so that a command line is checked at once.
"""

import importlib
from typing import TYPE_CHECKING

from athe_tf.data.corruptions import corrupt
from athe_tf.data.extra import check_file as check_extra
from athe_tf.data.extra import with_extra
from athe_tf.data.names import check_name
from athe_tf.errors import InputError
from athe_tf.registry import Registry

if TYPE_CHECKING:
    from athe_tf.data.splits import Splits

AUGMENTATIONS = Registry(
    "augmentation",
    __name__,
    {
        "flip": "augment:flip",
        "none": "augment:none",
        "pad_crop": "augment:pad_crop",
        "pad_crop_flip": "augment:pad_crop_flip",
    },
)

_CLASSES = {
    "ImageSet": "athe_tf.data.images",
    "MixedSet": "athe_tf.data.mixed",
    "Splits": "athe_tf.data.splits",
    "StreamedSet": "athe_tf.data.streamed",
}

__all__ = ["AUGMENTATIONS", "check_extra", "check_name", "corrupt", "load", "with_extra", *sorted(_CLASSES)]


def load(name, *, data_dir=None, validation_size=None, image_size=None, seed=0) -> "Splits":
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
        seed: The seed of the run. No split depends on it, so that runs with different seeds hold out
            the same images; the seed of the order is given to `stream`.

    Returns:
        `Splits`.
    """
    del seed
    check_name(name, data_dir=data_dir)
    _check_size("validation_size", validation_size, 0)
    _check_size("image_size", image_size, 1)
    if name == "digits":
        return _room("digits").load(validation_size, image_size)
    if name.startswith("npz:"):
        return _room("npz").load(name, validation_size, image_size)
    if name.startswith("folder:"):
        return _room("folder").load(name, validation_size, image_size)
    return _room("tfds").load(name, data_dir, validation_size, image_size)


def _check_size(argument, value, least):
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
        raise InputError(
            f"Invalid value for argument `{argument}`. Expected an integer of at least {least}. "
            f"Received: {argument}={value!r}."
        )


def _room(module):
    return importlib.import_module(f"{__name__}.{module}")


def __getattr__(name):
    if name in _CLASSES:
        return getattr(importlib.import_module(_CLASSES[name]), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'. Available: {', '.join(__all__)}.")


def __dir__():
    return __all__
