"""What the flags and the environment ask for, checked before TensorFlow starts."""

import dataclasses
import os
import re
from collections.abc import Mapping

from athe_tf.distribution.cluster import Cluster, find_cluster
from athe_tf.utils.errors import check
from athe_tf.utils.registry import unknown_name

DISTRIBUTIONS = ("auto", "mirrored", "multi_worker", "one", "tpu")


@dataclasses.dataclass(frozen=True)
class Settings:
    """What to spread a run over.

    Attributes:
        kind: One of `DISTRIBUTIONS`; `"auto"` that looks at the devices is left to whoever sees them.
        devices: Numbers of the GPUs to use, or `"cpu"`; empty for all.
        cpu_replicas: Logical devices to make of the CPU.
        cluster: The workers, for `"multi_worker"`.
        worker_timeout: Seconds to wait for them.
    """

    kind: str = "one"
    devices: tuple[str, ...] = ()
    cpu_replicas: int = 1
    cluster: Cluster | None = None
    worker_timeout: float = 300.0


def check_flags(distribution: str, devices: tuple[str, ...], cpu_replicas: int) -> None:
    """Refuses flags that no environment could make sense of."""
    if distribution not in DISTRIBUTIONS:
        raise unknown_name("distribution", distribution, DISTRIBUTIONS)
    for device in devices:
        check(
            re.fullmatch(r"\d+|cpu", device) is not None and (device != "cpu" or len(devices) == 1),
            "--devices are the numbers of GPUs, such as --devices=0,1, or --devices=cpu. "
            f"Received: --devices={','.join(devices)}.",
        )
    check(
        len(set(devices)) == len(devices),
        f"--devices names a GPU twice. Received: --devices={','.join(devices)}.",
    )
    check(cpu_replicas >= 1, f"--cpu_replicas must be at least 1. Received: --cpu_replicas={cpu_replicas}.")
    check(
        cpu_replicas == 1 or distribution in ("auto", "mirrored"),
        "--cpu_replicas makes several devices of one CPU, for --distribution=mirrored. "
        f"Received: --distribution={distribution} --cpu_replicas={cpu_replicas}. Leave one of them out.",
    )
    check(
        cpu_replicas == 1 or devices in ((), ("cpu",)),
        "--cpu_replicas uses the CPU and --devices the GPUs. Received: "
        f"--cpu_replicas={cpu_replicas} --devices={','.join(devices)}. Leave one of them out.",
    )


def read_local_settings(config) -> Settings:
    """The settings of a config whose work stays on one machine."""
    check(
        config.distribution in ("auto", "one", "mirrored"),
        "An evaluation runs on the devices of one machine. Expected --distribution=auto, one or mirrored. "
        f"Received: --distribution={config.distribution}.",
    )
    devices = ("cpu",) if config.cpu_replicas > 1 else tuple(config.devices)
    return Settings(config.distribution, devices, config.cpu_replicas)


def read_settings(config, environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings of a `TrainConfig`, in this environment."""
    kind, cluster = config.distribution, None
    devices = ("cpu",) if config.cpu_replicas > 1 else tuple(config.devices)
    if kind in ("auto", "multi_worker"):
        cluster = find_cluster(environment)
    if kind == "multi_worker":
        check(
            cluster is not None,
            "--distribution=multi_worker needs to know the workers. Set TF_CONFIG on each of them, or start "
            "them with srun.",
        )
    elif kind == "auto":
        if cluster is not None and len(cluster.workers) > 1:
            kind = "multi_worker"
        elif "TPU_NAME" in environment and not devices:
            kind = "tpu"
    check(
        kind != "multi_worker" or config.cpu_replicas == 1,
        f"A worker has one CPU replica. Received: --cpu_replicas={config.cpu_replicas} and "
        f"{len(cluster.workers) if cluster else 0} workers. Leave --cpu_replicas out.",
    )
    workers = cluster if kind == "multi_worker" else None
    return Settings(kind, devices, config.cpu_replicas, workers, config.worker_timeout)
