"""Atomic writing of files and folders."""

import contextlib
import errno
import os
import pathlib
import secrets
import shutil
import threading
from collections.abc import Iterator

#: Prefix of the names of files and folders that are being written.
TEMPORARY = ".athe_tf-"
#: Prefixes for folders: the new one while it is written, and the old one while they are exchanged.
NEW_FOLDER = f"{TEMPORARY}new-"
OLD_FOLDER = f"{TEMPORARY}old-"

#: Error numbers of a disk or a quota that is full.
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

# What this process is writing, for `remove_unfinished`.
_unfinished: set[pathlib.Path] = set()
_exchanging = threading.Lock()


@contextlib.contextmanager
def replacing(path: str | pathlib.Path) -> Iterator[pathlib.Path]:
    """Yields a temporary path in the same folder that replaces `path` if no error occurs.

    File and folder are synced: after a power failure, either the old file or the new one is there.
    """
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{TEMPORARY}{secrets.token_hex(6)}{path.suffix}")
    with _unfinished_until_left(temporary):
        try:
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
            yield temporary
            sync(temporary)
            os.replace(temporary, path)
            sync(path.parent)
        except OSError as error:
            if error.filename in (None, str(temporary)):
                error.filename = str(path)  # the name that the user knows
            raise


@contextlib.contextmanager
def replacing_folder(path: str | pathlib.Path) -> Iterator[pathlib.Path]:
    """Yields a new folder beside `path` that replaces the folder `path` if no error occurs.

    An old folder is removed only after the new one has its name. If the process is killed while they are
    exchanged, the next call, or `sweep`, restores the old one.
    """
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    new, old = (path.with_name(prefix + path.name) for prefix in (NEW_FOLDER, OLD_FOLDER))
    recover_folder(path)
    with _unfinished_until_left(new):
        new.mkdir()
        yield new
        for inside in (*new.rglob("*"), new):
            sync(inside)
        with _exchanging:
            try:
                if path.exists():
                    os.replace(path, old)
                os.replace(new, path)
            except BaseException:
                recover_folder(path)
                raise
        sync(path.parent)
        _remove(old)


def recover_folder(path: str | pathlib.Path) -> None:
    """Ends an exchange of folders that was interrupted: `path` is the old folder or the new one."""
    path = pathlib.Path(path)
    new, old = (path.with_name(prefix + path.name) for prefix in (NEW_FOLDER, OLD_FOLDER))
    if old.exists() and not path.exists():
        os.replace(old, path)
        sync(path.parent)
    _remove(old)
    _remove(new)


def sweep(*folders: str | pathlib.Path) -> None:
    """Removes what killed processes left in folders; only for the process that holds their lock."""
    for folder in map(pathlib.Path, folders):
        found = sorted(folder.glob(f"{TEMPORARY}*")) if folder.is_dir() else ()
        for path in found:
            if path.name.startswith(OLD_FOLDER):
                recover_folder(path.with_name(path.name.removeprefix(OLD_FOLDER)))
            _remove(path)


def remove_unfinished() -> None:
    """Removes the temporary files of this process, which is about to end without leaving its contexts.

    Another thread may call this: folders are not exchanged any more afterward.
    """
    _exchanging.acquire(timeout=1)
    for path in tuple(_unfinished):
        with contextlib.suppress(OSError):
            _remove(path)


def write_text(path: str | pathlib.Path, text: str, errors: str = "strict") -> None:
    """Replaces the text of a file atomically; a file that already has it is not touched."""
    path = pathlib.Path(path)
    content = text.encode("utf-8", errors)
    with contextlib.suppress(OSError):
        if path.is_file() and path.read_bytes() == content:
            return
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def sync(path) -> None:
    """Waits until a file, or the entries of a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _unfinished_until_left(path: pathlib.Path) -> Iterator[None]:
    """Removes a temporary file or folder if an error occurs."""
    _unfinished.add(path)
    try:
        yield
    except BaseException:
        _remove(path)
        raise
    finally:
        _unfinished.discard(path)


def _remove(path: pathlib.Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
