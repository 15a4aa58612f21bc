"""Locks on folders: one process at a time writes to a folder.

The locks are `flock`'s. The operating system releases them when their process ends, however it ends. A
lock file that a killed process left behind is free, and is taken over by the next one.
"""

import contextlib
import errno
import fcntl
import os
import pathlib
import socket
import warnings
from collections.abc import Iterator

from athe_tf.utils.errors import InputError
from athe_tf.utils.files import sweep

#: The usual name of lock files, and the prefix of all: they are no part of the content of a folder.
LOCK = ".athe_tf.lock"
# What file systems without locks answer.
UNSUPPORTED = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


@contextlib.contextmanager
def locked(folder: str | pathlib.Path, name: str = LOCK) -> Iterator[None]:
    """A context in which no other process can lock the same name in a folder.

    Creates the folder. Afterward the lock file is removed, and so are folders that were created and are
    still empty.

    Args:
        folder: The folder to lock.
        name: The name of the lock file. Processes with different names do not exclude each other.

    Raises:
        InputError: If another process holds the lock; the message names its host and process id.
    """
    folder = pathlib.Path(folder)
    created = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = None
    try:
        descriptor = _acquire(folder / name)
        yield
    finally:
        if descriptor is not None:
            # While the lock is held: whoever waits for this file sees that it is gone, and makes a new one.
            with contextlib.suppress(OSError):
                (folder / name).unlink()
            os.close(descriptor)
        with contextlib.suppress(OSError):
            for parent in created:
                parent.rmdir()


@contextlib.contextmanager
def locked_folder(folder: str | pathlib.Path, *inside: str) -> Iterator[pathlib.Path]:
    """A context in which no other process writes to a folder; removes what a killed one left.

    `inside` are the names of folders in it that are written to as well.
    """
    folder = pathlib.Path(folder)
    with locked(folder):
        sweep(folder, *(folder / name for name in inside))
        yield folder


def lock_name(of: str) -> str:
    """The lock file for one entry of a folder that others use too."""
    return f"{LOCK}-{of}"


def _acquire(path: pathlib.Path) -> int | None:
    """A file descriptor that holds the lock; `None` where the file system has no locks."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        with contextlib.ExitStack() as unless_kept:
            unless_kept.callback(os.close, descriptor)
            if not _flock(descriptor, path):
                path.unlink(missing_ok=True)
                return None
            # The holder before us may have removed the file between our two calls.
            if _same_file(descriptor, path):
                with contextlib.suppress(OSError):  # a full disk: the lock holds without a name, too
                    os.ftruncate(descriptor, 0)
                    os.write(descriptor, f"{socket.gethostname()} {os.getpid()}\n".encode())
                unless_kept.pop_all()
                return descriptor


def _flock(descriptor: int, path: pathlib.Path) -> bool:
    """Locks a file; returns whether its file system has locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise InputError(
            f"The folder '{path.parent}' is in use by {_holder(descriptor)}. Wait until it has finished, "
            "stop it, or use another folder."
        ) from error
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
        warnings.warn(
            f"The file system of '{path.parent}' has no locks ({error.strerror}), so nothing prevents a "
            "second process from writing there. Start only one.",
            stacklevel=4,
        )
        return False
    return True


def _holder(descriptor: int) -> str:
    words = os.pread(descriptor, 1000, 0).decode(errors="replace").split()
    if len(words) != 2 or not all(word.isprintable() for word in words):  # it is writing its name
        return "another process"
    return f"another process: host {words[0]}, process {words[1]}"


def _same_file(descriptor: int, path: pathlib.Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False
