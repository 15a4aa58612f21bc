"""Files that are written whole or not at all."""

import contextlib
import os
import pathlib
import secrets

#: How the names of files that are being written begin.
TEMPORARY = ".athe_tf-"


@contextlib.contextmanager
def replacing(path):
    """Yields a temporary path beside `path` that takes its place when all went well.

    File and folder are synced: after a power cut there is the old file or the new one.
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


def write_text(path, text: str, errors: str = "strict") -> None:
    """Replaces the text of a file as a whole; a file that has it already is left alone."""
    path = pathlib.Path(path)
    content = text.encode("utf-8", errors)
    with contextlib.suppress(OSError):
        if path.is_file() and path.read_bytes() == content:
            return
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def sync(path) -> None:
    """Waits until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
