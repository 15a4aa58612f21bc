"""`folder:PATH`: the user's own images, as files in folders; `folder_layout.py` describes them.

A set of gray images has one channel; in a set with colors, gray images get three. Transparency is dropped.
"""

import pathlib
import warnings

import numpy as np
import tensorflow as tf

from athe_tf.data.encoded import ImageDecoder
from athe_tf.data.folder_layout import PARTS, ImageFile, check_folder, image_files
from athe_tf.data.image_files import FileSet, unreadable
from athe_tf.data.resize import central_view
from athe_tf.data.splits import Splits, channel_statistics, from_arrays, from_sets, hold_out
from athe_tf.utils.errors import InputError, check

# Decoded images of smaller sets are kept in memory.
IN_MEMORY_BYTES = 4 * 2**30

# Images that the statistics of a set on disk are computed from.
_SAMPLE = 1000


def load(
    name: str,
    validation_size: int | None = None,
    image_size: int | None = None,
    resize_size: int | None = None,
    streamed: bool | None = None,
    skip_corrupt: bool = False,
) -> Splits:
    """The splits of `name`, which is `"folder:PATH"`; the arguments are those of `athe_tf.data.load`."""
    folder = pathlib.Path(name.removeprefix("folder:")).expanduser()
    classes = check_folder(folder)
    files = {part: image_files(folder / part, classes) for part in PARTS if (folder / part).is_dir()}
    if skip_corrupt:
        files = _without_corrupt(name, files)
    _check_classes(name, files, classes)
    everything = [file for part in files.values() for file in part]
    if streamed is None:
        streamed = _decoded_bytes(everything, image_size) >= IN_MEMORY_BYTES
    make = _streamed if streamed else _in_memory
    return make(name, files, classes, validation_size, image_size, resize_size)


def _without_corrupt(name, files):
    bad = set(unreadable([str(file.path) for part in files.values() for file in part]))
    if bad:
        warnings.warn(
            f"Left out {len(bad)} files of '{name}' that are no PNG or JPEG images or are truncated: "
            f"{', '.join(sorted(bad)[:5])}{', ...' if len(bad) > 5 else ''}",
            stacklevel=4,
        )
    return {part: [file for file in found if str(file.path) not in bad] for part, found in files.items()}


def _check_classes(name, files, classes):
    for part, found in files.items():
        check(bool(found), f"No image of `{part}` in '{name}' can be decoded. Check the files.")
    if "train" not in files:
        # Empty folders of a set that is used for testing only number the classes of the others.
        return
    empty = sorted(set(range(len(classes))) - {file.label for file in files["train"]})
    check(
        not empty,
        f"Some classes of '{name}' have no images in `train`: {[classes[label] for label in empty[:5]]}. "
        "Add images, or remove the folders.",
    )


def _decoded_bytes(files: list[ImageFile], image_size) -> int:
    channels = _channels(files)
    if image_size is not None:
        return len(files) * image_size**2 * channels
    return sum(file.header.height * file.header.width for file in files) * channels


def _channels(files: list[ImageFile]) -> int:
    return 3 if any(file.header.channels == 3 for file in files) else 1


def _streamed(name, files, classes, validation_size, image_size, resize_size) -> Splits:
    everything = [file for part in files.values() for file in part]
    shape = (*_size_of_all(name, everything, image_size), _channels(everything))
    parts = {
        part: (np.array([str(file.path) for file in found]), np.array([file.label for file in found]))
        for part, found in files.items()
    }
    sets = {}
    for part, (paths, labels) in hold_out(name, parts, validation_size).items():
        # The first images must not be those of the first classes. RandomState never changes (NEP 19).
        order = np.random.RandomState(0).permutation(len(paths))
        sets[part] = FileSet(
            paths[order].tolist(), labels[order], shape, len(classes), image_size, resize_size
        )
    sample = sets.get("train", sets["test"]).arrays(max_examples=_SAMPLE)[0]
    return from_sets(name, sets, len(classes), classes, channel_statistics(sample))


def _size_of_all(name, files, image_size) -> tuple[int, int]:
    if image_size is not None:
        return image_size, image_size
    sizes = {file.header[:2]: file.path for file in files}
    _check_one_size(name, sizes)
    return next(iter(sizes))


def _check_one_size(name, sizes: dict) -> None:
    check(
        len(sizes) == 1,
        f"The images of '{name}' differ in size. Expected `image_size`, to crop and resize them to. "
        f"Received: {' and '.join(f'{size} in {path.name}' for size, path in list(sizes.items())[:2])}. "
        "Give, for example, image_size=224.",
    )


def _in_memory(name, files, classes, validation_size, image_size, resize_size) -> Splits:
    paths = [file.path for part in files.values() for file in part]
    channels = _channels([file for part in files.values() for file in part])
    decoded = _decoded(name, paths, channels, image_size, resize_size)
    _check_one_size(name, {image.shape[:2]: path for image, path in zip(decoded, paths, strict=True)})
    images = np.stack(decoded)
    parts, start = {}, 0
    for part, found in files.items():
        labels = np.array([file.label for file in found])
        parts[part] = images[start : start + len(found)], labels
        start += len(found)
    return from_arrays(
        name, parts, num_classes=len(classes), class_names=classes, validation_size=validation_size
    )


def _decoded(name, paths, channels, image_size, resize_size) -> list[np.ndarray]:
    """Every image as it is in its file, or as it is evaluated if `image_size` is given."""
    decode = ImageDecoder(channels)

    def read(path):
        return central_view(decode(tf.io.read_file(path)), image_size, resize_size)

    dataset = tf.data.Dataset.from_tensor_slices([str(path) for path in paths])
    dataset = dataset.map(read, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    images: list[np.ndarray] = []
    size = 0
    try:
        for image in dataset.prefetch(tf.data.AUTOTUNE).as_numpy_iterator():
            images.append(image)
            size += image.nbytes
            check(
                size < IN_MEMORY_BYTES,
                f"The images of '{name}' do not fit in memory: more than {IN_MEMORY_BYTES / 2**30:.0f} GiB. "
                "Use a smaller `image_size`, or streamed=True.",
            )
    except (tf.errors.InvalidArgumentError, tf.errors.OutOfRangeError) as error:
        raise InputError(
            f"The file {paths[len(images)]} is not a PNG or JPEG image, or it is truncated. "
            "Remove it, save it again, or use skip_corrupt=True."
        ) from error
    except tf.errors.OpError as error:
        raise InputError(
            f"The file {paths[len(images)]} cannot be read: {type(error).__name__}. Remove it, or change its "
            "permissions."
        ) from error
    return images
