"""The folders and files of `folder:PATH`, checked without TensorFlow.

    PATH/train/ant/1.png     PATH/test/ant/7.jpg
    PATH/train/bee/2.png     PATH/test/bee/8.jpg

The folders below `train` name the classes, in alphabetical order. `validation` is optional, and so is `train`
for a set that is used for testing only. Files are PNG or JPEG; others are ignored. `folder:PATH:test=0.2`
divides PATH/ant/1.png, PATH/bee/2.png and so on: a fifth of each class is for testing.
"""

import contextlib
import os
import pathlib
import re
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO, NamedTuple

import numpy as np

from athe_tf.utils.errors import InputError, check, first_line

PARTS = ("train", "validation", "test")
SUFFIXES = (".jpeg", ".jpg", ".png")
# Folders that archive programs and file servers leave beside the classes.
_NOT_CLASSES = ("__MACOSX", "@eaDir")


# From the first bytes of a file to how many bytes its header needs, and where and how the two are written.
_PNG = b"\x89PNG"
_WIDTH_AND_HEIGHT = {_PNG: (26, 16, ">II"), b"GIF8": (10, 6, "<HH"), b"BM": (26, 18, "<ii")}

# A photograph of a large camera has 100 million pixels. Decoders allocate what a header declares.
LARGEST_PIXELS = 2**27


class ImageHeader(NamedTuple):
    """What a file declares; zeros if its header is not understood: the decoder will say so."""

    height: int = 0
    width: int = 0
    #: 1 for gray, 3 for color, without transparency.
    channels: int = 0


# Threads that list folders and read headers.
THREADS = 32
# A folder that was changed so many seconds ago may change again without another time.
SETTLED = 2.0


def folder_and_share(path: str) -> tuple[pathlib.Path, float]:
    """The folder, and which share of its images is for testing; 0 if the folder is divided itself."""
    found = re.fullmatch(r"(.+):test=(0?\.\d+)", path)
    share = float(found[2]) if found else 0.0
    check(not found or share > 0, f"The share of test images must be larger than 0. Received: {path}.")
    return pathlib.Path(found[1] if found else path).expanduser(), share


def check_folder(path: str) -> tuple[str, ...]:
    """The names of the classes; raises `InputError` unless `path` has the folders of a data set."""
    folder, share = folder_and_share(path)
    try:
        is_folder = folder.is_dir()
    except (OSError, ValueError) as error:
        raise InputError(f"The folder '{folder}' cannot be opened: {error}.") from error
    check(
        is_folder,
        "No such folder of images. Expected one with train/CLASS/*.png and test/CLASS/*.png, or .jpg. "
        f"Received: folder:{folder}.",
    )
    present = [part for part in PARTS if (folder / part).is_dir()]
    check(
        ("test" in present) != bool(share),
        f"The folder {folder} has no test images. Expected folders `train` and `test` with a folder of "
        f"images for each class. Received: {subfolders(folder)[:5]}. If these are the classes, divide them: "
        f"folder:{folder}:test=0.2."
        if not share
        else f"The folder {folder} has test images already. Received: {path}. Leave :test={share:g} out.",
    )
    present = [""] if share else present
    classes = subfolders(folder / ("train" if "train" in present else present[-1]))
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


def subfolders(folder: pathlib.Path) -> list[str]:
    """The names of the classes in a folder, in alphabetical order."""
    names = [entry.name for entry in _entries(folder) if entry.is_dir()]
    return sorted(name for name in names if name[0] != "." and name not in _NOT_CLASSES)


def _entries(folder: pathlib.Path) -> list[os.DirEntry]:
    """What is in a folder, by name; names must be text, because reports print those of classes."""
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        raise InputError(
            f"The folder {folder} cannot be read: {first_line(error)}. Change its permissions."
        ) from error
    for entry in entries:
        try:
            entry.name.encode()
        except UnicodeEncodeError as error:
            raise InputError(f"The name of {entry.path!a} is not UTF-8. Rename it.") from error
    return entries


def image_files(
    root: pathlib.Path,
    classes: tuple[str, ...],
    known: Mapping[str, tuple[int, list[str]]] | None = None,
    parts: Sequence[str] = PARTS,
) -> tuple[dict[str, tuple[list[str], np.ndarray]], dict[str, tuple[int, list[str]]]]:
    """The paths and labels of the images of each split, class by class; no file is opened.

    Args:
        root: The folder of the data set.
        classes: The names of the classes.
        known: The second result of an earlier call: from the folders of classes to the times of their last
            changes, and the names. Folders that were not changed are not listed again.
        parts: The names of the splits.
    """
    parts = [part for part in parts if (root / part).is_dir()]
    folders = [(part, label, f"{part}/{name}") for part in parts for label, name in enumerate(classes)]

    def names(folder: str) -> tuple[int, list[str]]:
        path = root / folder
        if not path.is_dir():
            return 0, []
        changed = path.stat().st_mtime_ns
        if known is not None and changed and known.get(folder, (0,))[0] == changed:
            return known[folder]
        settled = time.time() - changed / 1e9 > SETTLED
        return (changed if settled else 0), _image_names(path)

    every = [folder for *_, folder in folders]
    listed = dict(zip(every, in_threads(names, every), strict=True))
    found = {}
    for part in parts:
        paths, labels = [], []
        for _, label, folder in (each for each in folders if each[0] == part):
            paths += [f"{root}/{folder}/{name}" for name in listed[folder][1]]
            labels += [label] * len(listed[folder][1])
        check(
            bool(paths),
            f"There are no images in {root / part}. Expected files that end with one of {list(SUFFIXES)} in "
            "the folders of the classes.",
        )
        found[part] = (paths, np.array(labels))
    return found, listed


def _image_names(folder: pathlib.Path) -> list[str]:
    names = []
    for entry in _entries(folder):
        if os.path.splitext(entry.name)[1].lower() in SUFFIXES and entry.name[0] != ".":
            # A folder, a link to nothing, or a pipe, which would be waited for.
            is_file = False
            with contextlib.suppress(OSError):  # a link to itself
                is_file = entry.is_file()
            check(is_file, f"{entry.path} is named like an image, but is not a file. Remove or rename it.")
            names.append(entry.name)
    return names


def in_threads(function: Callable, items: Sequence) -> list:
    """What a function returns for each item, many at the same time: on a network, each waits."""
    size = max(1, min(1024, len(items) // THREADS))
    chunks = [items[start : start + size] for start in range(0, len(items), size)]
    with ThreadPoolExecutor(THREADS) as pool:
        return [each for found in pool.map(lambda some: [*map(function, some)], chunks) for each in found]


def read_header(path: str | pathlib.Path) -> ImageHeader:
    """The header of an image file, without its pixels.

    Raises `InputError` if a PNG, JPEG, GIF or BMP file declares more pixels than any photograph has.
    """
    try:
        with open(path, "rb") as file:
            header = _header(file)
    except OSError as error:
        raise InputError(
            f"The file {path} cannot be read: {first_line(error)}. Change its permissions, or remove it."
        ) from error
    check(
        header.height * header.width <= LARGEST_PIXELS,
        f"The file {path} declares {header.height} x {header.width} pixels. Expected at most "
        f"{LARGEST_PIXELS:,} pixels. Remove it, or save it again.",
    )
    return header


def _header(file: BinaryIO) -> ImageHeader:
    """What the first bytes declare.

    Not by Pillow, which stops at checksums and texts that TensorFlow's decoders pass over: such a file would
    not be measured before its pixels are allocated.
    """
    start = file.read(26)
    for magic, (needed, place, numbers) in _WIDTH_AND_HEIGHT.items():
        if start.startswith(magic) and len(start) >= needed:
            width, height = struct.unpack_from(numbers, start, place)
            # The color type of a PNG file: gray, with or without transparency.
            gray = magic == _PNG and start[25] in (0, 4)
            return ImageHeader(abs(height), abs(width), 1 if gray else 3)
    return _jpeg_header(file) if start.startswith(b"\xff\xd8") else ImageHeader()


def _jpeg_header(file: BinaryIO) -> ImageHeader:
    """The first frame header of a JPEG file."""
    file.seek(2)
    while len(start := file.read(4)) == 4 and start[0] == 0xFF:
        marker, length = start[1], struct.unpack(">H", start[2:])[0]
        # Frame headers are C0 to CF, but for the tables C4 and CC and the extension C8.
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            body = file.read(6)
            if len(body) < 6:
                return ImageHeader()
            height, width = struct.unpack(">HH", body[1:5])
            return ImageHeader(height, width, 1 if body[5] == 1 else 3)
        file.seek(max(length, 2) - 2, 1)
    return ImageHeader()
