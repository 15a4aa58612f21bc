"""The machines of a run: their addresses, and waiting until all of them answer.

They are read from `TF_CONFIG`, TensorFlow's own variable:

    TF_CONFIG='{"cluster": {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"]},
                "task": {"type": "worker", "index": 0}}'

or from the environment of a Slurm step with one task per machine. Nothing here needs TensorFlow.
"""

import contextlib
import dataclasses
import errno
import ipaddress
import json
import re
import socket
import time
from collections.abc import Mapping

from athe_tf.utils.errors import InputError, check

EXAMPLE = (
    '\'{"cluster": {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"]}, "task": {"type": "worker", "index": 0}}\''
)
# More machines than any cluster has.
MOST_HOSTS = 100_000
#: How other launchers say how many processes they started; their addresses are not read.
OTHER_LAUNCHERS = {
    "OMPI_COMM_WORLD_SIZE": "mpirun",
    "PMI_SIZE": "mpiexec",
    "WORLD_SIZE": "torchrun",
    "SLURM_JOB_NUM_NODES": "a Slurm job without srun",
    "JOB_COMPLETION_COUNT": "an Indexed Job of Kubernetes",
}
#: The number of a pod in an Indexed Job, from 0, which Kubernetes sets; their count is for the user to set.
POD, PODS = "JOB_COMPLETION_INDEX", "JOB_COMPLETION_COUNT"
# Slurm assigns machines, not ports: two jobs on a machine should not use the same one.
FIRST_PORT, PORTS = 20000, 10000


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The workers of a run.

    Example:

    >>> Cluster(("10.0.0.1:2222", "10.0.0.2:2222"), index=1).is_chief
    False

    Attributes:
        workers: `host:port` of each; the first is the chief.
        index: The position of this process among them.
    """

    workers: tuple[str, ...]
    index: int

    @property
    def is_chief(self) -> bool:
        """Whether this process is the first worker."""
        return self.index == 0

    def tf_config(self) -> str:
        """The value of `TF_CONFIG` that describes this cluster."""
        return json.dumps(
            {"cluster": {"worker": list(self.workers)}, "task": {"type": "worker", "index": self.index}}
        )


def find_cluster(environment: Mapping[str, str]) -> Cluster | None:
    """The cluster that the environment describes, or `None` for a single process."""
    if environment.get("TF_CONFIG", "").strip():
        return from_tf_config(environment["TF_CONFIG"])
    if "SLURM_STEP_NUM_TASKS" in environment:
        return from_slurm(environment)
    for name, launcher in OTHER_LAUNCHERS.items():
        count = environment.get(name, "1").strip()
        check(
            count in ("", "1"),
            f"{name}={count} says that this is one of several processes of {launcher}, whose addresses are "
            "not read from there. Set TF_CONFIG on each of them, start them with srun, or use the "
            "distribution 'one' for processes that share nothing.",
        )
    check(POD not in environment or PODS in environment, pods_unknown(environment))
    return None


def pods_unknown(environment: Mapping[str, str]) -> str:
    """What to say to a pod of an Indexed Job that does not know how many there are."""
    return (
        f"{POD}={environment.get(POD)} says that this is a pod of an Indexed Job, and not how many there "
        f"are. Set {PODS} to the number of completions of the Job, or use the distribution 'one' for pods "
        "that share nothing."
    )


def find_pod(environment: Mapping[str, str]) -> tuple[int, int] | None:
    """`(number from 1, count)` of this pod in an Indexed Job of Kubernetes, or `None`.

    Example:

    >>> find_pod({"JOB_COMPLETION_INDEX": "2", "JOB_COMPLETION_COUNT": "8"})
    (3, 8)
    """
    if POD not in environment or environment.get("TF_CONFIG", "").strip():
        return None
    check(PODS in environment, pods_unknown(environment))
    texts = environment[POD].strip(), environment[PODS].strip()
    index, count = (int(text) if re.fullmatch(r"\d{1,6}", text) else -1 for text in texts)
    check(
        0 <= index < count,
        f"Expected {POD} from 0 to {PODS} minus 1. Received: {POD}={texts[0]}, {PODS}={texts[1]}.",
    )
    return index + 1, count


def from_tf_config(text: str) -> Cluster | None:
    """The cluster of a `TF_CONFIG`; `None` if it names no workers."""
    try:
        return _parse(text)
    except (ValueError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise InputError(
            f"The environment variable TF_CONFIG is invalid: {why}. Expected, for example: {EXAMPLE}. "
            f"Received: {text[:500]}"
        ) from error


def _parse(text: str) -> Cluster | None:
    """The same; an error says only what is wrong."""
    config = json.loads(text)
    check(isinstance(config, dict), "it is not a JSON object")
    groups, task = config.get("cluster") or {}, config.get("task") or {}
    check(
        isinstance(groups, dict) and all(isinstance(group, list) for group in groups.values()),
        "its cluster is not an object with lists of addresses",
    )
    check(isinstance(task, dict), "its task is not an object with a type and an index")
    kind, index = task.get("type", "worker"), task.get("index", 0)
    if isinstance(index, str) and re.fullmatch(r"\d{1,9}", index):  # as some schedulers write it
        index = int(index)
    check(
        isinstance(kind, str) and isinstance(index, int) and not isinstance(index, bool),
        f"its task has type {kind!r} and index {index!r}, not a text and a whole number",
    )
    check(
        "sparseCluster" not in config,
        "in its sparseCluster each worker has only its own address; set enableDynamicWorker to false in the "
        "TFJob",
    )
    if not groups:
        return None
    # The name of the chief in older TFJobs and in SageMaker.
    if "master" in groups and "chief" not in groups:
        groups["chief"] = groups.pop("master")
        kind = "chief" if kind == "master" else kind
    unknown = sorted(set(groups) - {"chief", "worker"})
    check(not unknown, f"it has a job '{(unknown or [''])[0]}'; training uses `chief` and `worker` only")
    check(kind in groups, f"its task is of type '{kind}', which is not in its cluster")
    check(
        0 <= index < len(groups[kind]),
        f"its task is {kind} {index}, and there are {len(groups[kind])} of them",
    )
    # A chief is the first of the workers under another name.
    workers = [*groups.get("chief", []), *groups.get("worker", [])]
    for address in workers:
        valid = isinstance(address, str) and re.fullmatch(r"([^\s:\[\]]+|\[[\da-fA-F:.]+\]):\d{1,5}", address)
        check(bool(valid), f"{address!r} is not host:port, or [IPv6]:port")
    check(len(set(workers)) == len(workers), "two workers have the same address")
    return Cluster(tuple(workers), index + (len(groups.get("chief", [])) if kind == "worker" else 0))


def from_slurm(environment: Mapping[str, str]) -> Cluster | None:
    """The cluster of a step that `srun` started; `None` for a step with one task."""
    try:
        tasks, rank = int(environment["SLURM_STEP_NUM_TASKS"]), int(environment["SLURM_PROCID"])
        hosts = expand_hosts(environment["SLURM_STEP_NODELIST"])
        # Steps of one job may run side by side.
        number = int(environment["SLURM_JOB_ID"]) + int(environment.get("SLURM_STEP_ID", 0))
        port = FIRST_PORT + number % PORTS
    except (KeyError, ValueError) as error:
        raise InputError(
            f"The environment of this Slurm step cannot be read: {error}. Start the program with srun, or "
            "set TF_CONFIG yourself."
        ) from error
    if tasks == 1:
        return None
    check(
        tasks == len(hosts),
        f"Expected one task per machine, which uses all of its GPUs. Received: {tasks} tasks on {len(hosts)} "
        "machines. Use srun --ntasks-per-node=1, or srun --ntasks=1 with the distribution 'mirrored'.",
    )
    return Cluster(tuple(f"{host}:{port}" for host in hosts), rank)


def expand_hosts(text: str) -> list[str]:
    """Expands Slurm's short form of host names.

    Example:

    >>> expand_hosts("gpu[08-10,12],login")
    ['gpu08', 'gpu09', 'gpu10', 'gpu12', 'login']
    """
    hosts = []
    for name in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text):
        match = re.fullmatch(r"([^\[]*)\[([^\]]*)\](.*)", name)
        if match is None:
            hosts.append(name)
            continue
        before, ranges, after = match.groups()
        for part in ranges.split(","):
            low, _, high = part.partition("-")
            if int(high or low) - int(low) > MOST_HOSTS:
                raise ValueError(f"'{part}' names more than {MOST_HOSTS} hosts")
            numbers = range(int(low), int(high or low) + 1)
            hosts.extend(
                host for number in numbers for host in expand_hosts(f"{before}{number:0{len(low)}d}{after}")
            )
    if not hosts:
        raise ValueError(f"no host names in '{text}'")
    return hosts


def wait_for_workers(cluster: Cluster, seconds: float) -> None:
    """Returns when every other worker answers at its address; raises `InputError` if one does not.

    TensorFlow itself would wait forever without a message. Meanwhile this process answers at its own address;
    TensorFlow uses the address afterward.
    """
    deadline = time.monotonic() + seconds
    missing = [address for i, address in enumerate(cluster.workers) if i != cluster.index]
    with _answering(cluster.workers[cluster.index]):
        while missing:
            missing = [address for address in missing if not _answers(address)]
            if missing and time.monotonic() > deadline:
                raise InputError(
                    f"Waited {seconds:g} s for the other workers, but there is no answer at "
                    f"{', '.join(missing)}. Start the same command there, open the port in its firewall, "
                    "or correct TF_CONFIG."
                )
            time.sleep(0.1 if missing else 0.0)


@contextlib.contextmanager
def _answering(address: str):
    host, port = host_and_port(address)
    try:
        server = _listen(host, port)
    except (OSError, OverflowError) as error:
        raise InputError(
            f"This worker cannot listen at its own address {address}: {error}. Is another run using the "
            "port? Choose another one."
        ) from error
    with server:
        yield


def host_and_port(address: str) -> tuple[str, int]:
    """The parts of an address; an IPv6 one stands in brackets.

    Example:

    >>> host_and_port("[fd00::1]:2222")
    ('fd00::1', 2222)
    """
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _listen(host: str, port: int) -> socket.socket:
    """A server at a numeric address of this machine; else on all interfaces.

    A host name may mean several interfaces, or the loopback one on the machine itself, and an address may
    belong to a router in front of the machine.
    """
    try:
        number = ipaddress.ip_address(host)
    except ValueError:
        return socket.create_server(("", port), backlog=128)
    family = socket.AF_INET if number.version == 4 else socket.AF_INET6
    try:
        return socket.create_server((str(number), port), family=family, backlog=128)
    except OSError as error:
        if error.errno != errno.EADDRNOTAVAIL:
            raise
        return socket.create_server(("", port), family=family, backlog=128)


def _answers(address: str) -> bool:
    try:
        socket.create_connection(host_and_port(address), timeout=2).close()
    except (OSError, OverflowError):
        return False
    return True
