"""`initialize`: from settings to devices, workers and a strategy."""

import os
import signal
from collections.abc import Callable

import tensorflow as tf

from athe_tf.distribution.cluster import Cluster, wait_for_workers
from athe_tf.distribution.keras_patches import repair_fit
from athe_tf.distribution.settings import DistributionSettings
from athe_tf.distribution.strategy import Distribution
from athe_tf.utils.errors import InputError, check


def initialize(settings: DistributionSettings, write: Callable[[str], object] | None = None) -> Distribution:
    """Chooses the devices and creates the strategy; call it before TensorFlow has computed anything.

    Example:

    >>> athe_tf.distribution.initialize(athe_tf.distribution.DistributionSettings("one"))
    Distribution(replicas=1, workers=1)

    Args:
        settings: Which devices and machines to use.
        write: Called with lines for the user, such as the names of the devices.
    """
    if settings.kind == "tpu":
        return Distribution(_tpu_strategy())
    if settings.kind == "multi_worker" and settings.cluster is not None:
        _choose_gpus(settings)
        return _join_workers(settings, settings.cluster, write)
    devices = local_devices(settings, write)
    return Distribution(tf.distribute.MirroredStrategy(devices)) if len(devices) > 1 else Distribution()


def local_devices(settings: DistributionSettings, write: Callable[[str], object] | None = None) -> list[str]:
    """The names of this machine's devices that the settings select; call it first, as `initialize`."""
    devices = _choose_gpus(settings) or _logical_cpus(settings.cpu_replicas)
    if write is not None and len(devices) > 1:
        write(f"Using {len(devices)} devices: {', '.join(devices)}.")
    elif write is not None and settings.kind == "mirrored":
        write("Only one device was found, so the distribution 'mirrored' is the same as 'one'.")
    return devices


def _choose_gpus(settings: DistributionSettings) -> list[str]:
    """Hides all GPUs but the chosen ones and returns their names."""
    found = tf.config.list_physical_devices("GPU")
    chosen = found
    if settings.uses_cpu:
        chosen = []
    elif settings.devices:
        numbers = [int(device) for device in settings.devices]
        check(
            max(numbers) < len(found),
            f"There is no GPU number {max(numbers)}: TensorFlow finds {len(found)}. "
            f"Received: devices={settings.devices}. Leave `devices` out, or use ('cpu',).",
        )
        chosen = [found[number] for number in numbers]
    if settings.kind == "one":
        chosen = chosen[:1]
    tf.config.set_visible_devices(chosen, "GPU")
    return [f"GPU:{i}" for i in range(len(chosen))]


def _logical_cpus(count: int) -> list[str]:
    if count > 1:
        cpu = tf.config.list_physical_devices("CPU")[0]
        try:
            tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)
        except RuntimeError as error:
            raise InputError(
                "The CPU can be divided into replicas only before TensorFlow has computed anything. "
                "Call `athe_tf.distribution.initialize` first."
            ) from error
    return [f"CPU:{i}" for i in range(count)]


def _join_workers(settings: DistributionSettings, cluster: Cluster, write) -> Distribution:
    if len(cluster.workers) > 1:
        wait_for_workers(cluster, settings.worker_timeout)
    os.environ["TF_CONFIG"] = cluster.tf_config()
    repair_fit()
    handler = signal.getsignal(signal.SIGTERM)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    # TensorFlow catches the signal and ignores it, so that a scheduler could not stop the worker.
    signal.signal(signal.SIGTERM, handler or signal.SIG_DFL)
    if write is not None:
        write(
            f"Worker {cluster.index + 1} of {len(cluster.workers)} at {cluster.workers[cluster.index]}; "
            f"{strategy.num_replicas_in_sync} replicas in total."
        )
    return Distribution(strategy, cluster)


def _tpu_strategy():
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect()
    except Exception as error:
        raise InputError(
            f"No TPU answers: {error}. Set TPU_NAME (`local` on a TPU VM), or use another distribution."
        ) from error
    return tf.distribute.TPUStrategy(resolver)
