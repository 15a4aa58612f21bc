"""Which devices and machines a run uses, checked before TensorFlow starts."""

import dataclasses
import os
import re
from collections.abc import Mapping

from athe_tf.distribution.cluster import Cluster, find_cluster
from athe_tf.utils.errors import check
from athe_tf.utils.registry import unknown_name

#: `auto` chooses one of the others, by the environment and the devices of this machine.
DISTRIBUTIONS = ("auto", "mirrored", "multi_worker", "one", "tpu")
#: Those of an evaluation.
EVALUATION_DISTRIBUTIONS = DISTRIBUTIONS[:-1]
NO_WORKERS = (
    "The distribution 'multi_worker' needs the addresses of the workers. Set TF_CONFIG on each of them, or "
    "start them with srun."
)


@dataclasses.dataclass(frozen=True)
class DistributionSettings:
    """The devices and machines of a run.

    Example:

    >>> DistributionSettings("mirrored", cpu_replicas=2).uses_cpu
    True

    Args:
        kind: `"one"` device (default), `"mirrored"` over the GPUs of this machine, `"multi_worker"` over
            several machines, `"tpu"`, or `"auto"`.
        devices: Numbers of the GPUs to use, as strings, or `("cpu",)`. Defaults to all GPUs.
        cpu_replicas: Split the CPU into this many logical devices, to emulate several GPUs. Defaults to 1.
        cluster: The workers of `"multi_worker"`; `resolve` finds them in the environment.
        worker_timeout: Seconds to wait for the other workers. Defaults to 300.
        deterministic: The same bits in every run on the same device, also on GPUs; without TF32. Defaults to
            `False`.
    """

    kind: str = "one"
    devices: tuple[str, ...] = ()
    cpu_replicas: int = 1
    cluster: Cluster | None = None
    worker_timeout: float = 300.0
    deterministic: bool = False

    def __post_init__(self):
        if self.kind not in DISTRIBUTIONS:
            raise unknown_name("distribution", self.kind, DISTRIBUTIONS)
        for device in self.devices:
            check(
                re.fullmatch(r"\d+|cpu", device) is not None and (device != "cpu" or len(self.devices) == 1),
                "Invalid value for argument `devices`. Expected numbers of GPUs, such as ('0', '1'), or "
                f"('cpu',). Received: devices={self.devices}.",
            )
        check(
            len(set(self.devices)) == len(self.devices),
            f"The argument `devices` contains a GPU twice. Received: devices={self.devices}.",
        )
        count = self.cpu_replicas
        check(count >= 1, f"`cpu_replicas` must be at least 1. Received: cpu_replicas={count}.")
        check(
            count == 1 or (self.kind in ("auto", "mirrored") and self.cluster is None),
            "`cpu_replicas` splits one CPU into several devices, which needs the distribution 'mirrored'. "
            f"Received: cpu_replicas={count} with '{self.kind}'. Leave `cpu_replicas` out.",
        )
        check(
            count == 1 or self.devices in ((), ("cpu",)),
            f"`cpu_replicas` uses the CPU and `devices` the GPUs. Received: cpu_replicas={count}, "
            f"devices={self.devices}. Leave one of them out.",
        )

    @property
    def uses_cpu(self) -> bool:
        """Whether GPUs are left unused."""
        return self.cpu_replicas > 1 or self.devices == ("cpu",)

    def resolve(self, environment: Mapping[str, str] = os.environ) -> "DistributionSettings":
        """The settings with what the environment says: the workers, and whether there is a TPU.

        Reads `TF_CONFIG`, the variables of a Slurm step, and `TPU_NAME`.
        """
        cluster, kind = self._find_cluster(environment), self.kind
        if kind == "auto" and cluster is not None and len(cluster.workers) > 1:
            kind = "multi_worker"
        elif kind == "auto" and "TPU_NAME" in environment and not self.devices and not self.uses_cpu:
            kind = "tpu"
        return dataclasses.replace(self, kind=kind, cluster=cluster if kind == "multi_worker" else None)

    def shared_evaluation(
        self, environment: Mapping[str, str] = os.environ, look_for_workers: bool = True
    ) -> "tuple[DistributionSettings, Cluster | None]":
        """The devices of this machine, and the workers that share the images of an evaluation, if any.

        The workers of an evaluation compute nothing together: each of them uses its own devices.

        Reads `TF_CONFIG` and the variables of a Slurm step, unless told not to look for workers.
        """
        check(
            self.kind in EVALUATION_DISTRIBUTIONS,
            "An evaluation runs on the devices of one machine, or in shares on several workers. Expected a "
            f"distribution in {list(EVALUATION_DISTRIBUTIONS)}. Received: '{self.kind}'.",
        )
        if self.kind not in ("auto", "multi_worker") or not look_for_workers:
            return self, None
        cluster = self._find_cluster(environment)
        several = cluster is not None and len(cluster.workers) > 1
        return dataclasses.replace(self, kind="auto"), cluster if several else None

    def _find_cluster(self, environment: Mapping[str, str]) -> Cluster | None:
        found = find_cluster(environment) if self.kind in ("auto", "multi_worker") else None
        check(self.kind != "multi_worker" or found is not None, NO_WORKERS)
        return found
