"""Atomic writing of files."""

import contextlib
import os
import pathlib
import secrets
from collections.abc import Iterator

#: Prefix of the names of files that are being written.
TEMPORARY = ".athe_tf-"


@contextlib.contextmanager
def replacing(path: str | pathlib.Path) -> Iterator[pathlib.Path]:
    """Yields a temporary path in the same folder that replaces `path` if no error occurs.

    File and folder are synced: after a power failure, either the old file or the new one is there.
    """
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{TEMPORARY}{secrets.token_hex(6)}{path.suffix}")
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        yield temporary
        sync(temporary)
        os.replace(temporary, path)
        sync(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


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
