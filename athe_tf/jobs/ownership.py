"""Recognizes files that this library wrote: only those are replaced or removed.

Pages and cards end with a comment that contains a digest of the rest, so that a file that was written or
changed by hand is recognized. JSON files name athe_tf, and archives have known arrays.
"""

import contextlib
import hashlib
import json
import pathlib
import re
import zipfile

from athe_tf.utils.errors import InputError
from athe_tf.utils.files import TEMPORARY, sweep

_SIGNATURE = re.compile(r"<!-- athe_tf ([0-9a-f]{16}) -->\n\Z")
# Some of the arrays of every `examples.npz`, and of the files in `backup/`: values of variables.
_OF_ARCHIVES = ({"clean.npy", "adversarial.npy", "attack.npy", "index.npy"}, {"v00000.npy"})
#: The folder, inside that of an evaluation or a shard, which keeps its state while it is not finished.
STATE = "state"
#: The array that marks the files of a state folder, and all arrays that each of them has; the file that
#: identifies its model and images; the suffix of the file with images that older states have.
STATE_FORMAT = "athe_tf_state"
STATE_ARRAYS = frozenset({"identity.npy", f"{STATE_FORMAT}.npy"})
OWNER = "evaluation.npz"
IMAGES = ".images.npy"


def signed(text: str) -> str:
    """Appends the comment with the digest to a page or a card."""
    return f"{text}<!-- athe_tf {_digest(text)} -->\n"


def is_ours(path) -> bool:
    """Whether this library wrote the file, and it was not changed since."""
    path = pathlib.Path(path)
    try:
        if path.suffix == ".npz":
            return any(holds_arrays(path, frozenset(names)) for names in _OF_ARCHIVES)
        text = path.read_bytes().decode("utf-8")
        if path.suffix in (".json", ".sarif"):
            return _names_us(json.loads(text))
        if path.suffix == ".csv":  # which has no comments
            return text.partition("\n")[0].endswith(",athe_tf")
    except (OSError, ValueError, RecursionError):
        return False
    signature = _SIGNATURE.search(text)
    return signature is not None and signature[1] == _digest(text[: signature.start()])


def holds_arrays(path, names: frozenset[str]) -> bool:
    """Whether a file is an `.npz` with these arrays."""
    try:
        with zipfile.ZipFile(path) as archive:
            return names <= set(archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return False


def check_ours(*paths) -> None:
    """Raises `InputError` if one of the files exists and is not ours."""
    for path in map(pathlib.Path, paths):
        if path.exists() and not is_ours(path):
            raise InputError(
                f"'{path}' exists, and athe_tf did not write it or it was changed since. Move it, or choose "
                "another folder."
            )


def check_state_folder(folder) -> None:
    """Raises `InputError` if a folder contains other files than the state of an evaluation."""
    folder = pathlib.Path(folder)
    found = folder.iterdir() if folder.is_dir() else ()
    if all(path.name.startswith(TEMPORARY) for path in found):
        return
    if not holds_arrays(folder / OWNER, STATE_ARRAYS):
        raise InputError(
            f"The folder '{folder}' contains other files than the state of an evaluation. Move it, or choose "
            "another folder."
        )


def remove_state(folder) -> None:
    """Removes the state of a finished evaluation, and the folder if nothing else is in it."""
    folder = pathlib.Path(folder)
    if not holds_arrays(folder / OWNER, STATE_ARRAYS):
        return
    names = sorted(path.name for path in folder.iterdir() if path.name != OWNER)
    ours = [name for name in names if holds_arrays(folder / name, STATE_ARRAYS)]
    # The owner last, so that a removal that was interrupted can be finished.
    remove_files(folder, *(name + IMAGES for name in ours), *ours, OWNER)


def remove_files(folder, *names: str) -> None:
    """Removes files of ours and what killed processes left, and the folder if nothing else is in it."""
    folder = pathlib.Path(folder)
    sweep(folder)
    for name in names:
        (folder / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def _names_us(value) -> bool:
    return isinstance(value, dict) and any(
        isinstance(part, dict) and "athe_tf" in part
        for part in (value, value.get("versions"), value.get("properties"))
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:16]
