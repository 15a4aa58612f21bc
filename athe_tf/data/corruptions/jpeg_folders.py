"""The published ImageNet-C: `fog/3/n01440764/ILSVRC2012_val_00000293.JPEG` and its neighbors."""

import pathlib
from collections.abc import Sequence

import numpy as np

from athe_tf.data.corruptions.names import SEVERITIES, STANDARD
from athe_tf.data.corruptions.source import Source
from athe_tf.data.folder_layout import ImageFile, image_files, subfolders
from athe_tf.data.image_files import FileSet
from athe_tf.utils.errors import check
from athe_tf.utils.graph_checks import readable_errors

# Classes of ImageNet, for which AlexNet's errors are known.
_IMAGENET_CLASSES = 1000


class JpegFolders(Source):
    """Folders of image files, `PATH/CORRUPTION/SEVERITY/CLASS/*.JPEG`.

    The folders of the corruptions may lie in those of the archives that they come from: `blur`, `digital`,
    `noise`, `weather`, `extra`. The folders of the classes, in alphabetical order, are the labels.

    Args:
        folder: Where they are.
        count: Number of images of each corruption and severity to use, the same in all; `None` for all.
        image_size: Side of the images that the model takes; `None` for that of the files.
        resize_size: Resize the images to this before the crop of `image_size`, as the released code of the
            HE paper does with 256. Defaults to `None`: as they are.
    """

    def __init__(
        self,
        folder: str | pathlib.Path,
        count: int | None = None,
        image_size: int | None = None,
        resize_size: int | None = None,
    ):
        self.folder = pathlib.Path(folder).expanduser()
        self.count, self.image_size, self.resize_size = count, image_size, resize_size
        name, severity = next(
            (name, level) for name in STANDARD for level in SEVERITIES if self._has(name, level)
        )
        self.classes = tuple(subfolders(self._place(name, severity)))
        self.num_classes = len(self.classes)
        self.imagenet = self.num_classes == _IMAGENET_CLASSES
        self.protocol = "the published files, as they are"
        if resize_size is not None:
            self.protocol = f"the published files, resized to {resize_size} pixels before the center crop"
        elif image_size is not None:
            self.protocol = f"the published files, at {image_size} x {image_size} pixels"

    def check(self, names: Sequence[str], severities: Sequence[int]) -> None:
        missing = [f"{name}/{level}" for name in names for level in severities if not self._has(name, level)]
        some = ", ".join(missing[:10]) + (", ..." if len(missing) > 10 else "")
        check(
            not missing,
            f"The folder {self.folder} lacks corruptions or severities. Expected "
            f"CORRUPTION/SEVERITY/CLASS/*.JPEG. Missing: {some}. Extract all archives of ImageNet-C, or "
            "leave these out.",
        )
        for name in names:
            for level in severities:
                self._check_classes(self._place(name, level))

    def batches(self, name, severity, batch_size):
        files = self._chosen(image_files(self._place(name, severity), self.classes))
        height, width = files[0].header[:2]
        own = self.image_size in (None, height) and height == width and self.resize_size is None
        size = None if own else self.image_size or height
        images = FileSet(
            [str(file.path) for file in files],
            [file.label for file in files],
            (height, width, 3) if size is None else (size, size, 3),
            len(self.classes),
            size,
            self.resize_size,
        )
        with readable_errors():
            for x, y in images.batches(batch_size):
                yield x.numpy(), y.numpy()

    def _chosen(self, files: list[ImageFile]) -> list[ImageFile]:
        if self.count is None or self.count >= len(files):
            return files
        # Of all classes, and the same images in every cell. RandomState never changes (NEP 19).
        chosen = np.random.RandomState(0).permutation(len(files))[: self.count]
        return [files[index] for index in np.sort(chosen)]

    def _check_classes(self, place) -> None:
        found = tuple(subfolders(place))
        check(
            found == self.classes,
            f"The folder {place} has other classes than its neighbors. Expected {self.num_classes}. "
            f"Received: {len(found)}. Extract the archives again.",
        )

    def _has(self, name: str, severity: int) -> bool:
        return has_cell(self.folder, name, severity)

    def _place(self, name: str, severity: int) -> pathlib.Path:
        return next(path for path in _places(self.folder, name, severity) if path.is_dir())


def is_jpeg_folder(folder: pathlib.Path) -> bool:
    """Whether a folder has at least one standard corruption in the layout of ImageNet-C."""
    return any(has_cell(folder, name, level) for name in STANDARD for level in SEVERITIES)


def has_cell(folder: pathlib.Path, name: str, severity: int) -> bool:
    """Whether there is a folder of this corruption and severity."""
    return any(path.is_dir() for path in _places(folder, name, severity))


def _places(folder: pathlib.Path, name: str, severity: int) -> list[pathlib.Path]:
    within = [folder / archive for archive in ("", "blur", "digital", "noise", "weather", "extra")]
    return [parent / name / str(severity) for parent in within]
