"""Lets one of the calls with which a process changes files fail, or kills the process there.

Nothing in the package is prepared for this: Python's audit events tell when files are opened for writing,
renamed, removed and made, and the few calls without an event are wrapped.
"""

import builtins
import errno
import io
import os
import pathlib
import signal
import sys
from typing import Any

#: What happens at a point. A full disk stays full; the other errors happen once.
FAULTS = ("ENOSPC", "EACCES", "EIO", "SIGKILL")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
# A full disk does not prevent these.
_NEEDS_NO_SPACE = ("rename", "remove", "rmdir")
_EVENTS = {"os.rename": "rename", "os.remove": "remove", "os.mkdir": "mkdir", "os.rmdir": "rmdir"}


class FaultPoints:
    """Counts the calls that change files below a folder; at one of them, something goes wrong.

    Opening a file for writing, its first write, and each rename, removal, new folder, sync and allocation are
    one point each. Writing a SavedModel is one point, because TensorFlow does it outside Python; it fails
    after the files have been written.

    Args:
        folder: Only calls for paths below it count.
        at: The number of the point, counted from 1; 0 for none.
        fault: One of `FAULTS`.
        log: A file that gets a line per point, or `None`.
    """

    def __init__(self, folder, at: int = 0, fault: str = "ENOSPC", log=None):
        self.folder = os.path.realpath(folder)
        self.at = at
        self.fault = fault
        self.count = 0
        # Opened before anything is counted, so that writing to it is no point.
        self._log = None if log is None else open(log, "a", buffering=1)  # noqa: SIM115

    def install(self) -> None:
        """Begins to count, until the process ends: audit hooks cannot be removed."""
        sys.addaudithook(self._audit)
        self._open = io.open
        builtins.open = io.open = self._counted_open  # type: ignore[assignment]
        for name in ("fsync", "posix_fallocate", "ftruncate", "pwrite"):
            if hasattr(os, name):
                setattr(os, name, self._counted_descriptor(name, getattr(os, name)))
        self._wrap_saved_model()

    def reached(self, kind: str, path) -> None:
        """Counts a call; raises or kills if it is the one."""
        self.count += 1
        if self._log is not None:
            self._log.write(f"{self.count} {kind} {pathlib.Path(path).name}\n")
        full = self.fault == "ENOSPC" and 0 < self.at < self.count and kind not in _NEEDS_NO_SPACE
        if self.count != self.at and not full:
            return
        if self.fault == "SIGKILL":
            os.kill(os.getpid(), signal.SIGKILL)
        code = getattr(errno, self.fault)
        raise OSError(code, os.strerror(code), str(path))

    def _inside(self, path, folder_descriptor: int = -1) -> bool:
        if isinstance(path, int):
            path = f"/proc/self/fd/{path}"
        if folder_descriptor >= 0:
            path = pathlib.Path(f"/proc/self/fd/{folder_descriptor}").resolve() / os.fsdecode(path)
        return os.path.realpath(os.fsdecode(path)).startswith(self.folder + os.sep)

    def _audit(self, event: str, arguments: tuple) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, (str, bytes, os.PathLike)) and flags & _WRITING and self._inside(path):
                self.reached("open", os.fsdecode(path))
        elif event in _EVENTS:
            path, descriptor = arguments[0], arguments[-1]
            if self._inside(path, descriptor):
                self.reached(_EVENTS[event], os.fsdecode(path))

    def _counted_open(self, file, mode="r", *arguments, **keywords):
        opened = self._open(file, mode, *arguments, **keywords)
        writing = any(letter in mode for letter in "wax+")
        if writing and isinstance(file, (str, bytes, os.PathLike)) and self._inside(file):
            return _FaultyFile(opened, self, os.fsdecode(file))
        return opened

    def _counted_descriptor(self, name: str, function):
        def call(descriptor, *arguments):
            if self._inside(descriptor):
                self.reached(name, os.path.realpath(f"/proc/self/fd/{descriptor}"))
            return function(descriptor, *arguments)

        return call

    def _wrap_saved_model(self) -> None:
        import keras

        write_out = keras.export.ExportArchive.write_out

        def writing(archive, folder, *arguments, **keywords):
            write_out(archive, folder, *arguments, **keywords)
            if self._inside(folder):
                self.reached("SavedModel", folder)

        keras.export.ExportArchive.write_out = writing


class _FaultyFile:
    """A file whose first write is a point; if it fails there, half of the data has been written."""

    def __init__(self, file: Any, points: FaultPoints, path: str):
        self.__dict__.update(_file=file, _points=points, _path=path, _fresh=True)

    def write(self, data):
        if self._fresh:
            self.__dict__["_fresh"] = False
            try:
                self._points.reached("write", self._path)
            except OSError:
                self._file.write(data[: len(data) // 2])
                self._file.flush()
                raise
        return self._file.write(data)

    def __getattr__(self, name):
        return getattr(self._file, name)

    def __enter__(self):
        self._file.__enter__()
        return self

    def __exit__(self, *error):
        return self._file.__exit__(*error)

    def __iter__(self):
        return iter(self._file)
