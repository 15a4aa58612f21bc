"""The files of a data set that a path leads to, recognized by their content before they are opened."""

import pathlib

from athe_tf.data.folder_layout import PARTS, SUFFIXES, folder_and_share
from athe_tf.data.names import base_name, in_memory_only
from athe_tf.utils.digests import file_digest, text_digest

# Of a set in many or large files, so many of them are read, and so much of each.
_FILES, _BYTES = 100, 2**20


def is_path(name: str) -> bool:
    """Whether a data set is named by where its files are."""
    return name.startswith(("npz:", "folder:"))


def source_fingerprint(name: str, data_dir: str | pathlib.Path | None = None) -> str | None:
    """A digest of the files of all splits, which only those can know who have seen them.

    Of an `.npz` file it covers everything, of other sets the names and sizes of all files and the content of
    some.

    Args:
        name: The name of the data set, as for `load`.
        data_dir: Where TensorFlow Datasets keeps its data.

    Returns:
        `None` if no path leads to the data set, or there are no such files on this machine.
    """
    if name.startswith("npz:"):
        path = pathlib.Path(name.removeprefix("npz:"))
        return file_digest(path) if path.is_file() else None
    if name.startswith("folder:"):
        folder, share = folder_and_share(name.removeprefix("folder:"))
        found = [path for part in PARTS for path in folder.glob(f"{part}/*/*")]
        found = list(folder.glob("*/*")) if share else found
        found = [path for path in found if path.suffix.lower() in SUFFIXES and path.name[0] != "."]
    elif data_dir is None or in_memory_only(name):
        return None
    else:
        folder = pathlib.Path(data_dir) / base_name(name)
        found = list(folder.rglob("*"))
    paths = sorted(path for path in found if path.is_file())
    lines = [f"{path.relative_to(folder).as_posix()} {path.stat().st_size}" for path in paths]
    for path in paths[:: max(1, len(paths) // _FILES)]:
        with open(path, "rb") as file:
            lines.append(text_digest(file.read(_BYTES).hex()))
    return text_digest("\n".join(lines)) if paths else None
