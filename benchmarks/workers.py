"""Workers on this machine: processes that find each other on loopback."""

import contextlib
import json
import os
import socket
import subprocess
from collections.abc import Sequence

# Longer than any run of a benchmark; one that hangs is an error.
PATIENCE = 1800


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody uses."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def tf_config(addresses: list[str], index: int) -> str:
    """What `TF_CONFIG` says to the worker of this index."""
    return json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}})


def run_workers(commands: Sequence[list[str]]) -> None:
    """Runs commands side by side, as the workers of a cluster where there are several; all must succeed."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(len(commands))]
    running = []
    try:
        for index, command in enumerate(commands):
            cluster = {"TF_CONFIG": tf_config(addresses, index)} if len(commands) > 1 else {}
            running.append(
                subprocess.Popen(
                    command, env=os.environ | cluster, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                )
            )
        if any(process.wait(PATIENCE) for process in running):
            raise RuntimeError(f"This failed; run it alone to see why: {' '.join(commands[0])}")
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
                process.wait()
