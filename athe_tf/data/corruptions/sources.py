"""Where corrupted images come from: generated here, the published files, or TensorFlow Datasets.

A source gives batches of images with one corruption at one severity:

    source = open_source("generated", images, labels)
    for x, y in source.batches("fog", 3, batch_size=128):
        ...                                          # float32 images in [0, 1], and labels
"""

import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from athe_tf.data.corruptions.apply import corrupt
from athe_tf.data.corruptions.names import SEVERITIES, STANDARD, family
from athe_tf.data.folder import FileSet
from athe_tf.data.folder_layout import image_files, read_header, subfolders
from athe_tf.data.images import chosen_part
from athe_tf.data.loading import load
from athe_tf.data.names import base_name
from athe_tf.utils.errors import InputError, check
from athe_tf.utils.graph_checks import readable_errors
from athe_tf.utils.images_and_labels import as_float, check_images, check_labels

# What TensorFlow Datasets calls some corruptions of CIFAR-10-C.
_TFDS_NAMES = {
    "cifar10_corrupted": {"glass_blur": "frosted_glass_blur", "elastic_transform": "elastic"},
    "imagenet2012_corrupted": {},
}
# How their images are given to the model, and what a reader of the numbers should know.
_PROTOCOLS = {
    "cifar10_corrupted": ("CIFAR-10-C as published", None),
    "imagenet2012_corrupted": (
        "224 x 224 pixels as they are, without resizing (Hendrycks and Dietterich)",
        "TensorFlow Datasets makes ImageNet-C again from the validation images; it is not the published set "
        "of JPEG files.",
    ),
}


class Source:
    """Corrupted images.

    `open_source` describes the arguments of subclasses. `count` is the number of images of each corruption
    and severity to use, `None` for all; `image_size` is the side of the images that the model takes, `None`
    for the source's own.

    Attributes:
        generated: Whether the images are generated here, so that they differ from those of published tables.
        protocol: A description of the images and how they are given to the model.
        remark: What a reader of the numbers should know, or `None`.
        imagenet: Whether this is ImageNet-C, on which AlexNet's errors were measured.
        num_classes: The number of classes, if it is known before the labels are read.
    """

    generated = False
    protocol = ""
    remark: str | None = None
    imagenet = False
    num_classes: int | None = None

    def check(self, names: Sequence[str], severities: Sequence[int]) -> None:
        """Raises `InputError` if corruptions or severities are missing, before hours are spent on others."""

    def batches(self, name: str, severity: int, batch_size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields `(images, labels)` of a corruption and severity: float32 in [0, 1] and integers."""
        raise NotImplementedError


class Generated(Source):
    """Images corrupted here, when they are needed."""

    generated = True

    def __init__(self, images, labels, seed: int = 0):
        self.images, self.labels, self.seed = np.asarray(images), np.asarray(labels), seed
        check_images(self.images)
        check_labels(self.labels, len(self.images))
        whose = family(self.images.shape[1:3])
        self.protocol = f"the images as given, corrupted with the constants of {whose}"

    def batches(self, name, severity, batch_size):
        ids = np.arange(len(self.images))
        for start in range(0, len(ids), batch_size):
            part = slice(start, start + batch_size)
            x = corrupt(self.images[part], name, severity, seed=self.seed, ids=ids[part])
            yield as_float(x), self.labels[part]


class Folder(Source):
    """The published files of CIFAR-10-C and CIFAR-100-C: `fog.npy` and its neighbors, and `labels.npy`.

    Each file holds the test set five times, severity by severity: 50,000 images for 10,000.
    """

    protocol = "the published files, as they are"

    def __init__(self, folder, count: int | None = None):
        self.folder = pathlib.Path(folder).expanduser()
        check(self.folder.is_dir(), f"No such folder of corrupted images. Received: folder:{self.folder}.")
        self.labels = self._open("labels")
        check(
            self.labels.ndim == 1 and len(self.labels) % 5 == 0 and len(self.labels) > 0,
            f"Invalid shape of labels.npy in {self.folder}. Expected [5 * N], the labels of five severities. "
            f"Received: shape={self.labels.shape}.",
        )
        self.rows = len(self.labels) // 5
        check_labels(np.asarray(self.labels), len(self.labels), "labels.npy")
        self.count = self.rows if count is None else min(count, self.rows)

    def batches(self, name, severity, batch_size):
        images = self._open(name)
        check(
            images.ndim == 4 and len(images) == len(self.labels) and images.dtype == np.uint8,
            f"Invalid array in {self.folder / name}.npy. Expected uint8 [{len(self.labels)}, H, W, C], as "
            f"many as labels.npy has. Received: {images.dtype}, shape={images.shape}.",
        )
        first = (severity - 1) * self.rows
        for start in range(first, first + self.count, batch_size):
            part = slice(start, min(start + batch_size, first + self.count))
            yield as_float(np.asarray(images[part])), np.asarray(self.labels[part])

    def check(self, names, severities):
        for name in names:
            self._open(name)

    def _open(self, name):
        path = self.folder / f"{name}.npy"
        check(
            path.is_file(),
            f"The folder {self.folder} lacks {path.name}. Expected the files of CIFAR-10-C, one for each "
            "corruption and labels.npy, or the folders of ImageNet-C. Leave the corruption out, or fetch it.",
        )
        try:
            # Mapped: a file has 150 MB, and a severity is a fifth of it.
            return np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise InputError(
                f"The file {path} is not a NumPy array, or it is truncated. Received: {error}."
            ) from error


# Classes of ImageNet, for which AlexNet's errors are known.
_IMAGENET_CLASSES = 1000


class JpegFolders(Source):
    """Folders of image files, `PATH/CORRUPTION/SEVERITY/CLASS/*.JPEG`.

    The folders of the corruptions may lie in the folders of their archives: `blur`, `digital`,
    `noise`, `weather`, `extra`. The folders of the classes, in alphabetical order, are the labels.
    """

    def __init__(self, folder, count: int | None = None, image_size=None, resize_size=None):
        self.folder = pathlib.Path(folder).expanduser()
        self.count, self.image_size, self.resize_size = count, image_size, resize_size
        self.classes = tuple(subfolders(_first_place(self.folder)))
        self.num_classes = len(self.classes)
        self.imagenet = self.num_classes == _IMAGENET_CLASSES
        self.protocol = "the published files, as they are"
        if resize_size is not None:
            self.protocol = f"the published files, resized to {resize_size} pixels before the center crop"
        elif image_size is not None:
            self.protocol = f"the published files, at {image_size} x {image_size} pixels"

    def check(self, names: Sequence[str], severities: Sequence[int]) -> None:
        cells = ((name, level) for name in names for level in severities)
        places = {f"{name}/{level}": _place(self.folder, name, level) for name, level in cells}
        missing = [cell for cell, place in places.items() if place is None]
        some = ", ".join(missing[:10]) + (", ..." if len(missing) > 10 else "")
        check(
            not missing,
            f"The folder {self.folder} lacks corruptions or severities. Expected "
            f"CORRUPTION/SEVERITY/CLASS/*.JPEG. Missing: {some}. Extract all archives of ImageNet-C, or "
            "leave these out.",
        )
        for place in places.values():
            found = tuple(subfolders(place))
            check(
                found == self.classes,
                f"The folder {place} has other classes than its neighbors. Expected {self.num_classes}. "
                f"Received: {len(found)}. Extract the archives again.",
            )

    def batches(self, name, severity, batch_size):
        place = _place(self.folder, name, severity)
        listed = image_files(place.parent, self.classes, parts=[place.name])[0][place.name]
        # Of all classes, and the same images in every cell.
        chosen = chosen_part(len(listed[0]), self.count)
        paths, labels = [listed[0][index] for index in chosen], listed[1][chosen]
        height, width = read_header(paths[0])[:2]
        own = self.image_size in (None, height) and height == width and self.resize_size is None
        size = None if own else self.image_size or height
        shape = (height, width, 3) if size is None else (size, size, 3)
        images = FileSet(paths, labels, shape, len(self.classes), size, self.resize_size)
        with readable_errors():
            for x, y in images.batches(batch_size):
                yield x.numpy(), y.numpy()


def _place(folder: pathlib.Path, name: str, severity: int) -> Any:
    """The folder of a corruption and severity in the layout of ImageNet-C; `None` if there is none."""
    archives = ("", "blur", "digital", "noise", "weather", "extra")
    places = (folder / archive / name / str(severity) for archive in archives)
    return next((place for place in places if place.is_dir()), None)


def _first_place(folder: pathlib.Path) -> Any:
    """The folder of the first standard corruption and severity there is; `None` without any."""
    places = (_place(folder, name, level) for name in STANDARD for level in SEVERITIES)
    return next(filter(None, places), None)


class Published(Source):
    """`cifar10_corrupted` or `imagenet2012_corrupted` of TensorFlow Datasets."""

    def __init__(self, name: str, data_dir=None, count: int | None = None, image_size: int | None = None):
        check(
            name in _TFDS_NAMES,
            f"Unknown source of corruptions '{name}'. Expected 'generated', 'folder:PATH', or one of "
            f"{sorted(_TFDS_NAMES)}.",
        )
        self.name, self.data_dir, self.count = name, data_dir, count
        own = 32 if name == "cifar10_corrupted" else 224
        self.image_size = None if image_size in (None, own) else image_size
        self.protocol, self.remark = _PROTOCOLS[name]
        self.imagenet = name == "imagenet2012_corrupted"
        if self.image_size is not None:
            resized = f"{image_size} x {image_size}"
            self.protocol = f"{own} x {own} pixels resized to {resized}, as RobustBench does"

    def batches(self, name, severity, batch_size):
        config = f"{self.name}/{_TFDS_NAMES[self.name].get(name, name)}_{severity}"
        test = load(config, data_dir=self.data_dir, image_size=self.image_size).test
        left = len(test) if self.count is None else min(self.count, len(test))
        for x, y in test.batches(batch_size):
            yield x.numpy()[:left], y.numpy()[:left]
            left -= len(y)
            if left <= 0:
                return


def open_source(
    source: str, images=None, labels=None, *, seed: int = 0, data_dir=None, resize_size: int | None = None
) -> Source:
    """Opens a source: `"generated"`, `"folder:PATH"`, or the name of a TensorFlow Datasets set.

    Example:

    >>> images, labels = athe_tf.data.load("digits").test.arrays(max_examples=4)
    >>> source = athe_tf.data.corruptions.open_source("generated", images, labels)
    >>> [x.shape for x, y in source.batches("fog", severity=3, batch_size=3)]
    [(3, 8, 8, 1), (1, 8, 8, 1)]

    Args:
        source: The name.
        images: The clean images to corrupt. Published images come with their own labels; then only the
            number and size of these matter, and `None` means all published images.
        labels: The labels of `images`.
        seed: The seed of generated corruptions. Defaults to 0.
        data_dir: Where TensorFlow Datasets keeps its data.
        resize_size: For folders of ImageNet-C: resize the images to this before the crop, as the released
            code of the HE paper does with 256. Defaults to `None`: no resizing.
    """
    check(
        isinstance(source, str),
        f"The source of corruptions is a string: 'generated', 'folder:PATH', or one of "
        f"{sorted(_TFDS_NAMES)}. Received: source={source!r}.",
    )
    count = None if images is None else len(images)
    image_size = None if images is None else images.shape[1]
    folder = pathlib.Path(source.removeprefix("folder:")).expanduser()
    if source.startswith("folder:") and _first_place(folder):
        return JpegFolders(folder, count, image_size, resize_size)
    check(
        resize_size is None,
        "Only folders of ImageNet-C have images to resize. Expected a source 'folder:PATH' with "
        f"fog/1/CLASS/*.JPEG. Received: source='{source}', resize_size={resize_size}. Leave it out.",
    )
    if source == "generated":
        if images is None or labels is None:
            raise InputError("Generated corruptions need `images` and `labels`. Received: None.")
        return Generated(images, labels, seed)
    if source.startswith("folder:"):
        return Folder(folder, count)
    return Published(base_name(source), data_dir, count, image_size)
