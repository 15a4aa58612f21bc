"""`initialize`: from settings to devices, workers and a strategy; `Distribution`: who reads, who writes."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from athe_tf.data.images import ImageSource, part_of
from athe_tf.distribution.cluster import Cluster, wait_for_workers
from athe_tf.distribution.keras_patches import repair_fit
from athe_tf.distribution.settings import DistributionSettings
from athe_tf.utils.arithmetic import make_deterministic
from athe_tf.utils.errors import InputError, check

# What the other workers see when one is lost: the collective operation that waits for it is aborted.
LOST_WORKER_ERRORS = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
)


class WorkerLost(RuntimeError):
    """Another worker of the run was lost; this one is intact.

    Example:

    >>> try:
    ...     raise WorkerLost("Another worker of this run was lost.")
    ... except RuntimeError as error:
    ...     print(error)
    Another worker of this run was lost.
    """


class Distribution:
    """The devices that share each batch of a run; without arguments, one device.

    Example:

    >>> distribution = athe_tf.distribution.initialize(athe_tf.distribution.DistributionSettings("one"))
    >>> with distribution.scope():
    ...     net = athe_tf.models.build("small_cnn", 10, input_shape=(8, 8, 1))
    >>> train = athe_tf.data.load("digits").train
    >>> batches = distribution.train_dataset(train, batch_size=128, seed=0)
    >>> distribution
    Distribution(replicas=1, workers=1)

    Args:
        strategy: A `tf.distribute.Strategy`, or `None` for one device.
        cluster: The workers, if there are several.
    """

    def __init__(self, strategy=None, cluster: Cluster | None = None):
        self.strategy: Any = strategy
        self.cluster = cluster

    def __repr__(self) -> str:
        return f"Distribution(replicas={self.replicas}, workers={self.workers})"

    @property
    def replicas(self) -> int:
        """Number of devices that share a batch."""
        return 1 if self.strategy is None else self.strategy.num_replicas_in_sync

    @property
    def workers(self) -> int:
        """Number of processes that share a batch."""
        return 1 if self.cluster is None else len(self.cluster.workers)

    @property
    def is_chief(self) -> bool:
        """Whether this process writes the files of the run."""
        return self.cluster is None or self.cluster.is_chief

    def scope(self) -> contextlib.AbstractContextManager:
        """The context in which models, optimizers and metrics are created."""
        return contextlib.nullcontext() if self.strategy is None else self.strategy.scope()

    def check_batch_size(self, batch_size: int) -> None:
        """Raises `InputError` unless the replicas can share a batch evenly."""
        lower = batch_size // self.replicas * self.replicas
        check(
            batch_size % self.replicas == 0,
            f"{self.replicas} replicas cannot share a batch of {batch_size} images evenly. "
            f"Received: batch_size={batch_size}. Use {lower or self.replicas} or {lower + self.replicas}.",
        )

    def train_dataset(self, source: ImageSource, batch_size: int, **options) -> Any:
        """The batches of `source.stream(batch_size, **options)`, divided among the replicas.

        A worker reads only the images of its own part. The position of an image in the global batch does not
        depend on the number of workers or replicas.
        """
        if self.strategy is None:
            return source.stream(batch_size, **options)
        # Endless: the workers would ask each other before each step whether a finite dataset has ended.
        options["epochs"] = None
        return self._distributed(lambda part: source.stream(batch_size, **options, part=part), batch_size)

    def eval_dataset(self, source: ImageSource, batch_size: int) -> tuple[Any, int | None]:
        """The batches of `source.batches(batch_size)`, and their number, or `None` if the dataset is finite.

        On several replicas the last batch is padded with images of weight zero.
        """
        if self.strategy is None:
            return source.batches(batch_size), None

        def of_worker(part):
            def padded_part(x, y):
                return tuple(part_of(values, part) for values in pad_batch(x, y, batch_size))

            return source.batches(batch_size).map(padded_part).repeat()

        return self._distributed(of_worker, batch_size), -(-len(source) // batch_size)

    def _distributed(self, of_worker, batch_size: int):
        self.check_batch_size(batch_size)

        def make(context):
            dataset = of_worker((context.input_pipeline_id, context.num_input_pipelines))
            dataset = dataset.rebatch(batch_size // self.replicas, drop_remainder=True)
            dataset = dataset.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))
            return dataset.prefetch(tf.data.AUTOTUNE)

        return self.strategy.distribute_datasets_from_function(make)

    def any_worker(self, flag: bool) -> bool:
        """Whether `flag` is true on any worker; all workers must call this."""
        return bool(self._sum(float(flag)) > 0)

    def from_chief(self, number: float) -> float:
        """The value of `number` on the chief; all workers must call this."""
        return float(self._sum(number if self.is_chief else 0.0))

    def gather(self, text: str) -> list[str]:
        """The texts of all workers, in the order of the workers; all workers must call this."""
        if self.cluster is None or self.workers == 1:
            return [text]
        # Collectives add arrays of one shape: each worker fills a row of its own, and the others add zeros.
        content, row = np.frombuffer(text.encode(), np.uint8), self.cluster.index
        sizes = np.zeros(self.workers)
        sizes[row] = len(content)
        sizes = self._sum(sizes).astype(int)
        table = np.zeros([self.workers, sizes.max()])
        table[row, : len(content)] = content
        rows = self._sum(table).astype(np.uint8)
        return [row[:size].tobytes().decode() for row, size in zip(rows, sizes, strict=True)]

    def barrier(self) -> None:
        """Returns when all workers have called this."""
        self.any_worker(False)

    def _sum(self, values) -> Any:
        if self.workers == 1:
            return values
        # float64 holds a Python number exactly, and the others add zeros.
        own = np.asarray(values, np.float64)
        local = len(self.strategy.extended.worker_devices)
        parts = self.strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant(
                own if context.replica_id_in_sync_group % local == 0 else np.zeros_like(own)
            )
        )
        return np.asarray(self.strategy.reduce("SUM", parts, axis=None))

    @contextlib.contextmanager
    def report_lost_workers(self) -> Iterator[None]:
        """A context that turns TensorFlow's errors about a lost worker into a `WorkerLost` with a remedy."""
        try:
            yield
        except LOST_WORKER_ERRORS as error:
            if self.cluster is None or self.workers == 1:
                raise
            others = [a for i, a in enumerate(self.cluster.workers) if i != self.cluster.index]
            raise WorkerLost(
                "Another worker of this run was lost, so this one stops too. The others: "
                f"{', '.join(others)}. TensorFlow says: {_reason(error)} Restart all workers to resume from "
                "the last backup."
            ) from error


def _reason(error: tf.errors.OpError) -> str:
    """The line of a long message that says what happened."""
    lines = str(error.message).strip().splitlines() or ["nothing"]
    text = next((line for line in lines if "abort" in line), lines[0]).strip()
    return text if text.endswith(".") else text + "."


def pad_batch(x, y, batch_size: int) -> tuple:
    """`(images, labels, weights)` of `batch_size` rows; the added rows repeat the first, with weight 0."""
    rows = tf.range(batch_size)
    real = rows < tf.shape(x)[0]
    chosen = tf.where(real, rows, 0)
    return tf.gather(x, chosen), tf.gather(y, chosen), tf.cast(real, tf.float32)


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
        try:
            resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect()
        except Exception as error:
            raise InputError(
                f"No TPU answers: {error}. Set TPU_NAME (`local` on a TPU VM), or use another distribution."
            ) from error
        return Distribution(tf.distribute.TPUStrategy(resolver))
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
    """Hides all GPUs but the chosen ones and returns their names; before anything is computed."""
    if settings.deterministic:
        make_deterministic()
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
