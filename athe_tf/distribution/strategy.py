"""A run over its devices: the strategy, each worker's share of the data, who may write."""

import contextlib
import os
import signal
from typing import Any

import tensorflow as tf

from athe_tf.data.source import part_of
from athe_tf.distribution.cluster import Cluster, wait_for_workers
from athe_tf.distribution.keras_patches import repair_fit
from athe_tf.distribution.settings import Settings
from athe_tf.utils.errors import InputError, check

# How the loss of a worker shows on the others: the collective operation that waits for it is aborted.
LOSSES = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
)


class WorkerLost(RuntimeError):
    """Another worker of the run went away; nothing is wrong with this one."""


class Spread:
    """What a run is spread over; without arguments, one device.

    Example:

        spread = athe_tf.distribution.start(Settings("mirrored", cpu_replicas=2))
        with spread.scope():
            trainer = ...                       # its variables are on every device
        trainer.fit(spread.training(train, batch_size, seed=0), steps_per_epoch=...)

    Args:
        strategy: A `tf.distribute.Strategy`, or `None` for one device.
        cluster: The workers, where there are several.
    """

    def __init__(self, strategy=None, cluster: Cluster | None = None):
        self.strategy: Any = strategy
        self.cluster = cluster

    @property
    def replicas(self) -> int:
        """How many devices share a batch."""
        return 1 if self.strategy is None else self.strategy.num_replicas_in_sync

    @property
    def workers(self) -> int:
        return 1 if self.cluster is None else len(self.cluster.workers)

    @property
    def is_chief(self) -> bool:
        """Whether this process is the one that writes."""
        return self.cluster is None or self.cluster.is_chief

    def scope(self):
        """Models, optimisers and metrics are made inside."""
        return contextlib.nullcontext() if self.strategy is None else self.strategy.scope()

    def check_batch_size(self, batch_size: int) -> None:
        """Refuses a batch that the replicas cannot share evenly."""
        lower = batch_size // self.replicas * self.replicas
        check(
            batch_size % self.replicas == 0,
            f"{self.replicas} replicas cannot share a batch of {batch_size} images evenly. "
            f"Received: --batch_size={batch_size}. Use {lower or self.replicas} or {lower + self.replicas}.",
        )

    # -- data -------------------------------------------------------------------------------------------

    def training(self, source, batch_size: int, **options):
        """The batches of `source.stream(batch_size, **options)`, of which each replica gets its part.

        A worker reads the images of its own part and no others. Which image stands where in the global batch
        does not depend on the number of workers or replicas.
        """
        if self.strategy is None:
            return source.stream(batch_size, **options)
        # Endless: on a dataset with an end, workers would ask each other before each step if it is there.
        options["epochs"] = None
        return self._distributed(lambda part: source.stream(batch_size, **options, part=part), batch_size)

    def measuring(self, source, batch_size: int):
        """The batches of `source.batches(batch_size)`, and how many there are, or `None` where they end.

        On several replicas the last batch is filled up with images whose weight is zero.
        """
        if self.strategy is None:
            return source.batches(batch_size), None

        def of_worker(part):
            def filled_part(x, y):
                return tuple(part_of(values, part) for values in fill(x, y, batch_size))

            return source.batches(batch_size).map(filled_part).repeat()

        return self._distributed(of_worker, batch_size), -(-len(source) // batch_size)

    def _distributed(self, of_worker, batch_size: int):
        self.check_batch_size(batch_size)

        def make(context):
            dataset = of_worker((context.input_pipeline_id, context.num_input_pipelines))
            dataset = dataset.rebatch(batch_size // self.replicas, drop_remainder=True)
            dataset = dataset.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))
            return dataset.prefetch(tf.data.AUTOTUNE)

        return self.strategy.distribute_datasets_from_function(make)

    # -- workers ----------------------------------------------------------------------------------------

    def any(self, flag: bool) -> bool:
        """Whether a flag is set on any worker; all have to ask."""
        return self._sum(float(flag)) > 0

    def from_chief(self, number: float) -> float:
        """The chief's number; all have to ask."""
        return self._sum(number if self.is_chief else 0.0)

    def barrier(self) -> None:
        """Returns when all workers have come here."""
        self.any(False)

    def _sum(self, number: float) -> float:
        if self.workers == 1:
            return number
        # float64 holds a Python number exactly, and the others add zeros.
        local = len(self.strategy.extended.worker_devices)
        values = self.strategy.experimental_distribute_values_from_function(
            lambda context: tf.identity(
                tf.constant(number if context.replica_id_in_sync_group % local == 0 else 0.0, tf.float64)
            )
        )
        return float(self.strategy.reduce("SUM", values, axis=None))

    @contextlib.contextmanager
    def naming_lost_workers(self):
        """Turns what TensorFlow raises when a worker goes away into a `WorkerLost` that says what to do."""
        try:
            yield
        except LOSSES as error:
            if self.cluster is None or self.workers == 1:
                raise
            others = [a for i, a in enumerate(self.cluster.workers) if i != self.cluster.index]
            raise WorkerLost(
                "Another worker of this run went away, so this one stops too. The others: "
                f"{', '.join(others)}. TensorFlow says: {_reason(error)} Start the same command on all "
                "workers again: the run goes on from its last backup."
            ) from error


def _reason(error: tf.errors.OpError) -> str:
    """The line of a long message that says what happened."""
    lines = str(error.message).strip().splitlines() or ["nothing"]
    text = next((line for line in lines if "abort" in line), lines[0]).strip()
    return text if text.endswith(".") else text + "."


def fill(x, y, batch_size: int):
    """`(images, labels, weights)` of `batch_size` rows; those added repeat the first, with weight 0."""
    rows = tf.range(batch_size)
    real = rows < tf.shape(x)[0]
    chosen = tf.where(real, rows, 0)
    return tf.gather(x, chosen), tf.gather(y, chosen), tf.cast(real, tf.float32)


# -- starting -----------------------------------------------------------------------------------------------


def start(settings: Settings, write=print) -> Spread:
    """Looks at the devices and makes the strategy; to be called before TensorFlow has computed anything.

    Args:
        settings: What is asked for.
        write: Takes lines for the user.
    """
    if settings.kind == "tpu":
        return Spread(_tpu_strategy())
    if settings.kind == "multi_worker" and settings.cluster is not None:
        _choose_gpus(settings)
        return _start_worker(settings, settings.cluster, write)
    devices = local_devices(settings, write)
    return Spread(tf.distribute.MirroredStrategy(devices)) if len(devices) > 1 else Spread()


def local_devices(settings: Settings, write=print) -> list[str]:
    """The names of the devices of this machine that the settings ask for; to be called first, as `start`."""
    devices = _choose_gpus(settings) or _logical_cpus(settings.cpu_replicas)
    if len(devices) > 1:
        write(f"Spread over {len(devices)} devices: {', '.join(devices)}.")
    elif settings.kind == "mirrored":
        write("There is one device, so --distribution=mirrored does the same as --distribution=one.")
    return devices


def _choose_gpus(settings: Settings) -> list[str]:
    """Hides all GPUs but the chosen ones and returns their names."""
    found = tf.config.list_physical_devices("GPU")
    chosen = found
    if settings.devices == ("cpu",):
        chosen = []
    elif settings.devices:
        numbers = [int(device) for device in settings.devices]
        check(
            max(numbers) < len(found),
            f"There is no GPU number {max(numbers)}: TensorFlow finds {len(found)}. "
            f"Received: --devices={','.join(settings.devices)}. Leave it out, or use --devices=cpu.",
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
                "Start the distribution first."
            ) from error
    return [f"CPU:{i}" for i in range(count)]


def _start_worker(settings: Settings, cluster: Cluster, write) -> Spread:
    if len(cluster.workers) > 1:
        wait_for_workers(cluster, settings.worker_timeout)
    os.environ["TF_CONFIG"] = cluster.tf_config()
    repair_fit()
    ends = signal.getsignal(signal.SIGTERM)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    # TensorFlow takes note of the signal and does nothing: a scheduler could not end the worker politely.
    signal.signal(signal.SIGTERM, ends or signal.SIG_DFL)
    write(
        f"Worker {cluster.index + 1} of {len(cluster.workers)} at {cluster.workers[cluster.index]}; "
        f"{strategy.num_replicas_in_sync} replicas in all."
    )
    return Spread(strategy, cluster)


def _tpu_strategy():
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect()
    except Exception as error:
        raise InputError(
            f"No TPU answers: {error}. Set TPU_NAME (`local` on a TPU VM), or use another --distribution."
        ) from error
    return tf.distribute.TPUStrategy(resolver)
