"""Processes that begin where TensorFlow has been imported.

Importing takes four seconds of a core, and the tests start some thirty programs. A server imports once and
forks a process for each: a process of its own in every respect, with its own environment, streams and exit
code, that can be killed. What is about the start of a program itself takes `subprocess`.
"""

import contextlib
import multiprocessing
import os
import pathlib
import runpy
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.warm_imports"])


def started(function, *arguments):
    """A process that calls a function of a module.

    The server, which the first such process starts, looks for `tests` in the folder where it starts and then
    among the installed packages, where tf2onnx has a `tests` too. So it starts in the checkout, wherever the
    test is.
    """
    process = CONTEXT.Process(target=function, args=arguments, daemon=True)
    with contextlib.chdir(ROOT):
        process.start()
    return process


class WarmProcess:
    """`python -m MODULE ARGUMENTS...`, with the part of `subprocess.Popen`'s interface that tests need.

    Args:
        module: Its `__main__` is run.
        arguments: The rest of the command line.
        stdout: Path of a file.
        stderr: Path of a file, the same one as `stdout` perhaps.
        environment: Variables beside those of this process.
        folder: Where the process runs.
        all_cores: Whether it may use more cores than this process.
    """

    def __init__(self, module, arguments, stdout, stderr, environment=None, folder=ROOT, all_cores=False):
        variables = dict(os.environ) | (environment or {})
        streams = (str(stdout), str(stderr))
        arguments = [*map(str, arguments)]
        self._process = started(_become, module, arguments, streams, variables, str(folder), all_cores)

    @property
    def pid(self):
        return self._process.pid

    def poll(self) -> int | None:
        """The exit code, or `None` while it runs; minus the signal that ended it."""
        return self._process.exitcode

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()

    def signal(self, number: int) -> None:
        """Any signal."""
        os.kill(self._process.pid, number)

    def wait(self, timeout=None) -> int:
        """The exit code, once there is one."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
        return self._process.exitcode


def exit_code_of(function, *arguments, timeout=120) -> int | None:
    """Calls a function in a process of its own: its exit code, or minus the signal that ended it."""
    process = started(function, *arguments)
    process.join(timeout)
    process.kill()
    return process.exitcode


def run_program(name, *flags, folder=ROOT, timeout=300) -> subprocess.CompletedProcess:
    """Runs a program of `athe_tf/programs` to its end."""
    with tempfile.TemporaryDirectory() as streams:
        out, err = (pathlib.Path(streams) / stream for stream in ("out", "err"))
        process = WarmProcess(f"athe_tf.programs.{name}", flags, out, err, folder=folder)
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
        return subprocess.CompletedProcess([name, *flags], code, out.read_text(), err.read_text())


def _become(module, arguments, streams, environment, folder, all_cores):
    """The life of such a process."""
    if all_cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for stream, path in enumerate(streams, start=1):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, stream)
        os.close(file)
    # A module of a program stays imported in the server; run_module would warn of it.
    sys.modules.pop(module, None)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
