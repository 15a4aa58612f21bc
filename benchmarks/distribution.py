"""The cost of a distributed training step: two replicas, two workers, the bytes they exchange, a projection.

    python -m benchmarks.distribution                                  # WRN-10-1, global batch 128, PGD-10
    python -m benchmarks.distribution --rounds=0 --project             # what 8 and 64 GPUs would do

Every row is PGD-AT with hypersphere embedding at the same global batch, in processes of its own, all on the
cores of this machine: what a row takes longer than the first is overhead, because the work is the same. Rows
take turns, and the best step of all turns counts. The projection is arithmetic, not a measurement.
"""

import argparse
import contextlib
import json
import math
import os
import sys
import tempfile
import time

import athe_tf
from athe_tf.distribution import Distribution, DistributionSettings, initialize
from athe_tf.distribution.cluster import find_cluster
from benchmarks.convolution_peak import network_flops
from benchmarks.timing import table
from benchmarks.workers import run_workers

import numpy as np  # isort: skip
import tensorflow as tf  # isort: skip

from athe_tf import attacks, training
from athe_tf.data import ImageSet
from athe_tf.layers.batch_norm import synchronize

ROWS = {"one process": 1, "one process again (A/A)": 1, "2 logical replicas": 1, "2 loopback workers": 2}


# -- one turn, in a process of its own ----------------------------------------------------------------------


def distribution_of(row: str) -> Distribution:
    """The devices of a row, all on the CPU."""
    cluster = find_cluster(os.environ)
    if cluster is not None:
        return initialize(DistributionSettings("multi_worker", ("cpu",), cluster=cluster))
    if row == "2 logical replicas":
        return initialize(DistributionSettings("mirrored", ("cpu",), cpu_replicas=2))
    return Distribution()


def measure(row: str, arguments) -> dict:
    """Seconds of the best step, and what the replicas exchange in one."""
    distribution = distribution_of(row)
    with distribution.scope(), counted_traffic() as traffic:
        net = athe_tf.models.build(arguments.model, 10, head="he")
        synchronize(net)
        trainer = training.PGDAT(net, attacks.PGD(8 / 255, steps=arguments.attack_steps), margin=0.2)
        trainer.compile(training.TorchSGD(0.01, weight_decay=5e-4))
        trainer.optimizer.build(net.trainable_variables)
        rng = np.random.default_rng(0)
        images = ImageSet(rng.integers(0, 256, [512, 32, 32, 3], "uint8"), np.arange(512) % 10)
        batches = iter(distribution.train_dataset(images, arguments.batch_size, seed=0))
        trainer.make_train_function()
        times = []
        for _ in range(1 + arguments.steps):
            began = time.perf_counter()
            float(trainer.train_function(batches)["loss"])
            times.append(time.perf_counter() - began)
    return {"seconds": min(times[1:]), **traffic, "expected": expected_traffic(net)}


@contextlib.contextmanager
def counted_traffic():
    """Counts what replicas give to each other while a step is traced, replica by replica."""
    original = tf.distribute.ReplicaContext.all_reduce
    traffic = {"collectives": 0, "bytes": 0}

    def all_reduce(self, reduce_op, value, options=None):
        replica = tf.get_static_value(self.replica_id_in_sync_group)
        if replica in (0, None) and self.num_replicas_in_sync > 1:
            values = tf.nest.flatten(value)
            traffic["collectives"] += 1
            traffic["bytes"] += sum(v.dtype.size * math.prod(v.shape) for v in values)
        return original(self, reduce_op, value, options)

    tf.distribute.ReplicaContext.all_reduce = all_reduce
    try:
        yield traffic
    finally:
        tf.distribute.ReplicaContext.all_reduce = original


def expected_traffic(net, passes: int = 1) -> dict:
    """What one step should exchange: gradients, moving statistics, and batch statistics there and back."""
    weights = sum(math.prod(v.shape) for v in net.trainable_variables)
    moving = sum(math.prod(v.shape) for v in net.non_trainable_variables)
    layers = [layer for layer in net._flatten_layers() if isinstance(layer, athe_tf.BatchNorm)]
    return {
        "collectives": 2 + passes * 4 * len(layers),
        "bytes": 4 * (weights + moving + passes * 2 * moving),
    }


# -- all turns ----------------------------------------------------------------------------------------------


def turn(row: str, arguments) -> dict:
    """Measures a row in new processes; of several workers, what the first says."""
    options = [
        f"--{name}={getattr(arguments, name)}" for name in ("model", "batch_size", "attack_steps", "steps")
    ]
    program = [sys.executable, "-m", "benchmarks.distribution", f"--row={row}"]
    with tempfile.NamedTemporaryFile() as result:
        outputs = [result.name, os.devnull][: ROWS[row]]
        run_workers([[*program, f"--output={output}", *options] for output in outputs])
        return json.load(result)


def measured(arguments) -> str:
    """Lets the rows take turns, and returns their table."""
    found: dict = {}
    for _ in range(arguments.rounds):
        for row in ROWS:
            result = turn(row, arguments)
            if row not in found or result["seconds"] < found[row]["seconds"]:
                found[row] = result
    title = f"{arguments.model}, global batch {arguments.batch_size}, PGD-{arguments.attack_steps}, CPU"
    turns = f"best of {arguments.rounds} turns of {arguments.steps} steps"
    expected = f"Expected from the layers: {found['one process']['expected']}"
    return f"{title}\n{turns}\n\n{report(found)}\n\n{expected}"


def report(found: dict) -> str:
    """The table of what was measured."""
    base = found["one process"]["seconds"]
    rows = [("row", "ms a step", "of one process", "collectives a step", "MB all-reduced a step")]
    for row, result in found.items():
        seconds, exchanged = result["seconds"], result["bytes"] / 1e6
        cells = (result["collectives"], f"{exchanged:.3f}") if result["bytes"] else ("", "")
        rows.append((row, f"{1e3 * seconds:.1f}", f"{seconds / base:.3f}", *cells))
    return table(rows)


# -- the projection -----------------------------------------------------------------------------------------


def projection(arguments) -> str:
    """Step times on GPUs by a model: compute shared evenly, then all-reduce by a ring, nothing overlapped."""
    net = athe_tf.models.build(arguments.project_model, 10, head="he")
    traffic = expected_traffic(net)
    passes = 2 * arguments.attack_steps + 3
    flops = passes * network_flops(net)
    rate = 1e12 * arguments.teraflops * arguments.efficiency
    rows = [("GPUs", "global batch", "compute ms", "all-reduce ms", "images/s", "of linear scaling")]
    for batch in (128, 1024):
        for gpus in (1, 8, 64):
            compute = flops * batch / gpus / rate
            exchange = exchange_seconds(traffic, gpus, arguments)
            whole = compute + exchange
            share = flops * batch / rate / gpus / whole
            cells = (
                f"{1e3 * compute:.1f}",
                f"{1e3 * exchange:.1f}",
                f"{batch / whole:.0f}",
                f"{100 * share:.0f}%",
            )
            rows.append((gpus, batch, *cells))
    return table(rows)


def exchange_seconds(traffic: dict, gpus: int, arguments) -> float:
    """A ring moves 2 (n - 1) / n of the bytes through the slowest link, and each collective has a latency."""
    if gpus == 1:
        return 0.0
    between = gpus > arguments.gpus_a_machine
    bandwidth = 1e9 * (arguments.network_gb_s if between else arguments.machine_gb_s)
    latency = 1e-6 * (arguments.network_us if between else arguments.machine_us)
    return 2 * (gpus - 1) / gpus * traffic["bytes"] / bandwidth + traffic["collectives"] * latency


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="wrn-10-1")
    parser.add_argument("--batch_size", type=int, default=128)
    parser.add_argument("--attack_steps", type=int, default=10)
    parser.add_argument("--steps", type=int, default=10, help="steps of a turn, after one that compiles")
    parser.add_argument("--rounds", type=int, default=2, help="turns of each row")
    parser.add_argument("--project", action="store_true", help="the projection too")
    parser.add_argument("--project_model", default="wrn-34-10")
    parser.add_argument("--teraflops", type=float, default=156.0, help="peak of a GPU: TF32 of an A100")
    parser.add_argument("--efficiency", type=float, default=0.3, help="share of the peak that is reached")
    parser.add_argument("--gpus_a_machine", type=int, default=8)
    parser.add_argument("--machine_gb_s", type=float, default=200.0, help="all-reduce bandwidth in a machine")
    parser.add_argument("--network_gb_s", type=float, default=20.0, help="and between machines")
    parser.add_argument("--machine_us", type=float, default=30.0, help="latency of a collective in a machine")
    parser.add_argument("--network_us", type=float, default=100.0, help="and between machines")
    parser.add_argument("--row", choices=list(ROWS), help="measure this row only, in this process")
    parser.add_argument("--output", help="where --row writes its JSON")
    arguments = parser.parse_args()
    if arguments.row:
        text = json.dumps(measure(arguments.row, arguments))
        if arguments.output is None:
            print(text)
            return
        with open(arguments.output, "w") as file:
            file.write(text)
        return
    if arguments.rounds:
        print(measured(arguments))
    if arguments.project:
        print(f"\nProjection for {arguments.project_model}:\n\n{projection(arguments)}")


if __name__ == "__main__":
    main()
