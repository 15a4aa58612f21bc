"""Files that are written whole or not at all."""

import contextlib
import os
import pathlib
import tempfile


@contextlib.contextmanager
def replacing(path):
    """Yields a temporary path beside `path` that takes its place when all went well."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    try:
        yield pathlib.Path(name)
        with open(name, "rb") as written:
            os.fsync(written.fileno())
        # mkstemp's files are private; what replaces an ordinary file should be one.
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
