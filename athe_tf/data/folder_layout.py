"""The folders and files of `folder:PATH`, checked without TensorFlow.

    PATH/train/ant/1.png     PATH/test/ant/7.jpg
    PATH/train/bee/2.png     PATH/test/bee/8.jpg

The folders below `train` name the classes, in alphabetical order. `validation` is optional, and so is `train`
for a set that is used for testing only. Files are PNG or JPEG; others are ignored.
"""

import pathlib
from typing import NamedTuple

from athe_tf.data.image_headers import ImageHeader, read_header
from athe_tf.utils.errors import InputError, check, first_line

PARTS = ("train", "validation", "test")
SUFFIXES = (".jpeg", ".jpg", ".png")
# Folders that archive programs and file servers leave beside the classes.
_NOT_CLASSES = ("__MACOSX", "@eaDir")


class ImageFile(NamedTuple):
    """A file of a split."""

    path: pathlib.Path
    label: int
    header: ImageHeader


def check_folder(path: str | pathlib.Path) -> tuple[str, ...]:
    """The names of the classes; raises `InputError` unless `path` has the folders of a data set."""
    folder = pathlib.Path(path).expanduser()
    check(
        _is_folder(folder),
        "No such folder of images. Expected one with train/CLASS/*.png and test/CLASS/*.png, or .jpg. "
        f"Received: folder:{folder}.",
    )
    present = [part for part in PARTS if (folder / part).is_dir()]
    check(
        "test" in present,
        f"The folder {folder} has no test images. Expected folders `train` and `test` with a folder of "
        f"images for each class. Received: {subfolders(folder)[:5]}.",
    )
    classes = subfolders(folder / ("train" if "train" in present else "test"))
    check(
        len(classes) >= 2,
        f"A classifier needs at least 2 classes. Expected a folder of images for each in "
        f"{folder / present[0]}. Received: {classes}.",
    )
    for part in present:
        unknown = sorted(set(subfolders(folder / part)) - set(classes))
        check(
            not unknown,
            f"The folder {folder / part} has classes that {folder / present[0]} does not have. "
            f"Received: {unknown[:5]}.",
        )
    return tuple(classes)


def _is_folder(path: pathlib.Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError) as error:
        raise InputError(f"The folder '{path}' cannot be opened: {error}.") from error


def subfolders(folder: pathlib.Path) -> list[str]:
    """The names of the classes in a folder, in alphabetical order."""
    names = [entry.name for entry in _entries(folder) if entry.is_dir()]
    return sorted(name for name in names if name[0] != "." and name not in _NOT_CLASSES)


def _entries(folder: pathlib.Path) -> list[pathlib.Path]:
    """What is in a folder, by name; names must be text, because reports print those of classes."""
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise InputError(
            f"The folder {folder} cannot be read: {first_line(error)}. Change its permissions."
        ) from error
    for entry in entries:
        try:
            entry.name.encode()
        except UnicodeEncodeError as error:
            raise InputError(f"The name of {str(entry)!a} is not UTF-8. Rename it.") from error
    return entries


def image_files(folder: pathlib.Path, classes: tuple[str, ...]) -> list[ImageFile]:
    """The image files of a split, class by class."""
    pairs = [
        (path, label)
        for label, name in enumerate(classes)
        if (folder / name).is_dir()
        for path in _entries(folder / name)
        if path.suffix.lower() in SUFFIXES and path.name[0] != "."
    ]
    check(
        bool(pairs),
        f"There are no images in {folder}. Expected files that end with one of {list(SUFFIXES)} in the "
        "folders of the classes.",
    )
    for path, _ in pairs:
        # A folder, a link to nothing, or a pipe, which would be waited for.
        check(path.is_file(), f"{path} is named like an image, but is not a file. Remove or rename it.")
    return [ImageFile(path, label, read_header(path)) for path, label in pairs]
