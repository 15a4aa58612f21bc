"""`folder:PATH`: a data set of the user's own, as image files in folders.

    PATH/train/ant/1.png     PATH/test/ant/7.jpg
    PATH/train/bee/2.png     PATH/test/bee/8.jpg

The folders below `train` name the classes, in alphabetical order. `validation` is optional, and so is `train`
for a set that is only tested on. Files are PNG or JPEG; others are passed over. A set of grey images has one
channel; in a set with colours, grey images get three. Transparency is left out.
"""

import pathlib

import numpy as np

from athe_tf.data.splits import Splits, from_arrays
from athe_tf.utils.errors import InputError, check

PARTS = ("train", "validation", "test")
SUFFIXES = (".jpeg", ".jpg", ".png")

# Decoded images are kept in memory; more than this belongs into a set that is streamed.
IN_MEMORY_BYTES = 4 * 2**30


def load(name, validation_size=None, image_size=None) -> Splits:
    """The splits of `name`, which is `"folder:PATH"`."""
    folder = pathlib.Path(name.removeprefix("folder:")).expanduser()
    classes = check_folder(folder)
    files = {part: _files(folder / part, classes) for part in PARTS if (folder / part).is_dir()}
    paths = [path for part in files.values() for path, _ in part]
    images = _stacked(name, paths, _decoded(name, paths, image_size))
    parts, start = {}, 0
    for part, pairs in files.items():
        labels = np.array([label for _, label in pairs])
        parts[part] = images[start : start + len(pairs)], labels
        start += len(pairs)
    return from_arrays(
        name, parts, num_classes=len(classes), class_names=classes, validation_size=validation_size
    )


def check_folder(path) -> tuple[str, ...]:
    """The names of the classes; raises `InputError` unless `path` has the folders of a data set."""
    folder = pathlib.Path(path).expanduser()
    check(
        folder.is_dir(),
        "No such folder of images. Expected one with train/CLASS/*.png and test/CLASS/*.png, or .jpg. "
        f"Received: folder:{folder}.",
    )
    present = [part for part in PARTS if (folder / part).is_dir()]
    check(
        "test" in present,
        f"The folder {folder} has nothing to test on. Expected folders `train` and `test` with a folder of "
        f"images for each class. Received: {_subfolders(folder)[:5]}.",
    )
    classes = _subfolders(folder / ("train" if "train" in present else "test"))
    check(
        len(classes) >= 2,
        f"A classifier needs at least 2 classes. Expected a folder of images for each in "
        f"{folder / present[0]}. Received: {classes}.",
    )
    for part in present:
        strange = sorted(set(_subfolders(folder / part)) - set(classes))
        check(
            not strange,
            f"The folder {folder / part} has classes that {folder / present[0]} does not have. "
            f"Received: {strange[:5]}.",
        )
    return tuple(classes)


def _subfolders(folder) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and entry.name[0] != ".")


def _files(folder, classes) -> list[tuple[pathlib.Path, int]]:
    """All image files of a part, class by class, with their labels."""
    pairs = [
        (path, label)
        for label, name in enumerate(classes)
        if (folder / name).is_dir()
        for path in sorted((folder / name).iterdir())
        if path.suffix.lower() in SUFFIXES and path.name[0] != "."
    ]
    check(
        bool(pairs),
        f"There are no images in {folder}. Expected files that end with one of {list(SUFFIXES)} in the "
        "folders of the classes.",
    )
    return pairs


def _decoded(name, paths, image_size) -> list[np.ndarray]:
    """Every image as it is in its file, or its central square where there is an `image_size`."""
    # Imported here: a command line with a typo is answered before TensorFlow starts.
    import tensorflow as tf

    from athe_tf.data.resize import central_square

    def decode(path):
        image = tf.io.decode_image(tf.io.read_file(path), expand_animations=False)
        return image if image_size is None else central_square(image, image_size)

    dataset = tf.data.Dataset.from_tensor_slices([str(path) for path in paths])
    dataset = dataset.map(decode, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    images: list[np.ndarray] = []
    size = 0
    try:
        for image in dataset.prefetch(tf.data.AUTOTUNE).as_numpy_iterator():
            images.append(image)
            size += image.nbytes
            check(
                size < IN_MEMORY_BYTES,
                f"The images of '{name}' do not fit in memory: more than {IN_MEMORY_BYTES / 2**30:.0f} GiB. "
                "Give a smaller image_size, or make a TensorFlow Datasets set of them.",
            )
    except (tf.errors.InvalidArgumentError, tf.errors.OutOfRangeError) as error:
        raise InputError(
            f"The file {paths[len(images)]} is not a PNG or JPEG image, or it is cut short. "
            "Remove it, or save it again."
        ) from error
    return images


def _stacked(name, paths, images) -> np.ndarray:
    """`[N, H, W, C]` with one channel, or three."""
    sizes = {image.shape[:2]: path for image, path in zip(images, paths, strict=True)}
    check(
        len(sizes) == 1,
        f"The images of '{name}' differ in size. Expected `image_size`, to crop and resize them to. "
        f"Received: {' and '.join(f'{size} in {path.name}' for size, path in list(sizes.items())[:2])}. "
        "Give, for example, image_size=224.",
    )
    grey = all(image.shape[-1] < 3 for image in images)
    result = np.empty([len(images), *images[0].shape[:2], 1 if grey else 3], np.uint8)
    for row, image in zip(result, images, strict=True):
        # Grey (with transparency) or colours (with transparency); one channel spreads over three.
        row[...] = image[..., :1] if image.shape[-1] < 3 else image[..., :3]
    return result
