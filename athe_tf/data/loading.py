"""From the name of a data set to its splits."""

import pathlib

from athe_tf.data import folder, npz, tfds
from athe_tf.data.names import check_name, in_memory_only
from athe_tf.data.splits import Splits, from_arrays
from athe_tf.utils.errors import check, check_integer

#: The 1,797 handwritten digits of 8 x 8 pixels from the UCI repository (E. Alpaydin and C. Kaynak, 1998),
#: with a fixed, stratified division: 1,197 to train, 200 to validate, 400 to test. `files/DIGITS_LICENSE.md`
#: has the source and the license.
DIGITS = pathlib.Path(__file__).parent / "files" / "digits.npz"


def load(
    name: str,
    *,
    data_dir: str | pathlib.Path | None = None,
    validation_size: int | None = None,
    image_size: int | None = None,
    resize_size: int | None = None,
    streamed: bool | None = None,
    skip_corrupt: bool = False,
    only: str | None = None,
    cache: str | pathlib.Path | None = None,
) -> Splits:
    """Loads a data set by its name.

    Example:

    >>> splits = athe_tf.data.load("digits")
    >>> len(splits.train), len(splits.validation), len(splits.test), splits.num_classes
    (1197, 200, 400, 10)

    Args:
        name: `"digits"`, `"npz:PATH"`, `"folder:PATH"`, or the name of a TensorFlow Datasets set, with
            `:split` if another of its splits than the usual one is to be tested, such as `"cifar10:train"`.
            `"folder:PATH:test=0.2"` divides a folder of classes: a fifth of each, always the same, is tested.
        data_dir: Where TensorFlow Datasets keeps its data. Defaults to its own default. A set that is
            not there is downloaded. Use only folders that you trust: their files name Python classes, of
            which only TFDS' own features are loaded.
        validation_size: Number of training images to hold out for validation. Defaults to a tenth of
            them, at most 1,000; with 0, `validation` is `None`. Sets that have their own validation
            images use those.
        image_size: Crop the central square of every image and resize it to this height and width.
            Required for sets whose images differ in size.
        resize_size: Resize the shorter side to this first, then crop the central `image_size`: 256 for 224
            in most work on ImageNet. Defaults to `None`: crop the largest square, then resize it.
        streamed: Read images when they are needed, which random crops of originals require. Defaults to
            `None`: only if they do not fit in memory. `digits` and `npz:PATH` cannot be streamed.
        skip_corrupt: Leave out the files of `folder:PATH` that cannot be decoded, with a warning. All files
            are decoded once to find them. Defaults to `False`: such a file is an error.
        only: `"train"`, `"validation"` or `"test"`, if no other split is needed: what can be left out is not
            read, and `None`; `mean` and `std` are those of what is read, or NaN. Defaults to `None`: all.
        cache: A file that keeps the names of the files of `folder:PATH` for the next start; folders that were
            changed since are listed again. Defaults to `None`: no file.

    Returns:
        `Splits`.
    """
    check_name(name, data_dir=data_dir)
    sizes = {"validation_size": validation_size, "image_size": image_size, "resize_size": resize_size}
    for argument, value in sizes.items():
        if value is not None:
            check_integer(argument, value, 0 if argument == "validation_size" else 1)
    check(
        resize_size is None or (image_size is not None and resize_size >= image_size),
        "`resize_size` is the shorter side of an image from which the central square of `image_size` is cut. "
        f"Expected `image_size`, at most as large. Received: resize_size={resize_size}, "
        f"image_size={image_size}. Give, for example, resize_size=256 and image_size=224.",
    )
    check(
        not skip_corrupt or name.startswith("folder:"),
        "`skip_corrupt` is about files in folders. Expected a data set 'folder:PATH'. "
        f"Received: name='{name}'. Leave `skip_corrupt` out.",
    )
    check(
        not streamed or not in_memory_only(name),
        f"The data set '{name}' is in memory. Expected 'folder:PATH' or a TensorFlow Datasets name. "
        "Received: streamed=True. Leave `streamed` out.",
    )
    if name == "digits":
        return from_arrays(name, npz.read(DIGITS)[0], class_names=tuple("0123456789"), **sizes)
    if name.startswith("npz:"):
        path = name.removeprefix("npz:")
        parts, names = npz.read(path, only)
        return from_arrays(name, parts, **sizes, num_classes=npz.count_of_classes(path), class_names=names)
    if name.startswith("folder:"):
        return folder.load(
            name, **sizes, streamed=streamed, skip_corrupt=skip_corrupt, only=only, cache=cache
        )
    return tfds.load(name, data_dir, **sizes, streamed=streamed, only=only)
