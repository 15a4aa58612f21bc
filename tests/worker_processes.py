"""Processes that a test starts, and ends whatever happens."""

import pathlib
import subprocess
import time

from benchmarks.workers import free_ports, tf_config
from tests.warm_processes import WarmProcess

# Generous: machines that run tests are busy. A process that is still there then is a failure, not a hang.
PATIENCE = 540


class Processes:
    """Modules with their arguments, run side by side as programs; killed when the block is left."""

    def __init__(self, commands, folder, environments=None, all_cores=False):
        self.commands = commands
        self.folder = pathlib.Path(folder)
        self.environments = environments or [{}] * len(commands)
        self.all_cores = all_cores
        self.running: list[WarmProcess] = []

    def __enter__(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        for i, ((module, *arguments), extra) in enumerate(zip(self.commands, self.environments, strict=True)):
            log = self.folder / f"{i}.log"
            environment = {"TF_CPP_MIN_LOG_LEVEL": "2"} | extra
            self.running.append(
                WarmProcess(module, arguments, log, log, environment, all_cores=self.all_cores)
            )
        return self

    def __exit__(self, *error):
        for process in self.running:
            if process.poll() is None:
                process.kill()
            process.wait()

    def text(self, index: int) -> str:
        """What a process has written."""
        return (self.folder / f"{index}.log").read_text(errors="replace")

    def kill(self, index: int) -> None:
        """Ends a process as a power cut would."""
        self.running[index].kill()
        self.running[index].wait()

    def wait(self, index: int) -> int:
        """The exit code of a process."""
        try:
            return self.running[index].wait(PATIENCE)
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"still running after {PATIENCE} s:\n{self.text(index)}") from error

    def succeed(self) -> None:
        """Waits until all have ended well."""
        for i in range(len(self.running)):
            assert self.wait(i) == 0, self.text(i)


def workers(command, folder, count=2) -> Processes:
    """`(module, *arguments)` as `count` workers on loopback; `command` may be a function of the index."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(count)]
    commands = [command(i) if callable(command) else command for i in range(count)]
    environments = [{"TF_CONFIG": tf_config(addresses, i)} for i in range(count)]
    return Processes(commands, folder, environments, all_cores=True)


def wait_for(path, processes: Processes) -> None:
    """Returns when a file is there."""
    deadline = time.monotonic() + PATIENCE
    while not pathlib.Path(path).exists():
        for i, process in enumerate(processes.running):
            assert process.poll() is None, processes.text(i)
        assert time.monotonic() < deadline, f"no {path} within {PATIENCE} s:\n{processes.text(0)}"
        time.sleep(0.02)
