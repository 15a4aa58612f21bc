"""`folder:PATH`: the user's own images, as files in folders; `folder_layout.py` describes them.

A set of gray images has one channel; in a set with colors, gray images get three. Transparency is dropped.
"""

import pathlib

import numpy as np
import tensorflow as tf

from athe_tf.data.folder_layout import PARTS, check_folder, image_files
from athe_tf.data.resize import central_square
from athe_tf.data.splits import Splits, from_arrays
from athe_tf.utils.errors import InputError, check

# Decoded images are kept in memory; larger sets have to be streamed by TensorFlow Datasets.
IN_MEMORY_BYTES = 4 * 2**30


def load(name: str, validation_size: int | None = None, image_size: int | None = None) -> Splits:
    """The splits of `name`, which is `"folder:PATH"`."""
    folder = pathlib.Path(name.removeprefix("folder:")).expanduser()
    classes = check_folder(folder)
    files = {part: image_files(folder / part, classes) for part in PARTS if (folder / part).is_dir()}
    first = next(iter(files))
    empty = sorted(set(range(len(classes))) - {label for _, label in files[first]})
    check(
        not empty,
        f"Some classes of '{name}' have no images in `{first}`: {[classes[label] for label in empty[:5]]}. "
        "Add images, or remove the folders.",
    )
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


def _decoded(name, paths, image_size) -> list[np.ndarray]:
    """Every image as it is in its file, or its central square if `image_size` is given."""

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
                "Use a smaller `image_size`, or convert them to a TensorFlow Datasets set.",
            )
    except (tf.errors.InvalidArgumentError, tf.errors.OutOfRangeError) as error:
        raise InputError(
            f"The file {paths[len(images)]} is not a PNG or JPEG image, or it is truncated. "
            "Remove it, or save it again."
        ) from error
    except tf.errors.OpError as error:
        raise InputError(
            f"The file {paths[len(images)]} cannot be read: {type(error).__name__}. Remove it, or change its "
            "permissions."
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
    gray = all(image.shape[-1] < 3 for image in images)
    result = np.empty([len(images), *images[0].shape[:2], 1 if gray else 3], np.uint8)
    for row, image in zip(result, images, strict=True):
        # Gray or color, each perhaps with transparency; one channel is copied to three.
        row[...] = image[..., :1] if image.shape[-1] < 3 else image[..., :3]
    return result
