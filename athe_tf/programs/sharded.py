"""An evaluation whose images are divided among several processes, which share nothing but a folder.

Each of them attacks its share and keeps what it found in a folder of its own. Whoever merges them, the first
of several workers or `bin/report --merge`, reads the results of all attacks from there and measures the rest.
"""

import dataclasses
import time
from collections.abc import Callable, Sequence

from athe_tf.distribution.cluster import Cluster
from athe_tf.jobs.shard import Shard
from athe_tf.programs.command_line import say, warn
from athe_tf.programs.config import EvaluateConfig
from athe_tf.programs.evaluation_job import EvaluationJob, show
from athe_tf.programs.output_folder import STATE, prepared
from athe_tf.programs.program_name import as_started
from athe_tf.programs.shard_folder import ShardFolder
from athe_tf.utils.errors import InputError, check

# Seconds between two looks at the other workers.
INTERVAL = 0.5


class ShardLost(RuntimeError):
    """Another worker gives no sign of life any more; what it found is kept."""


def run_shard(job: EvaluationJob, config: EvaluateConfig, shard: Shard) -> int:
    """Attacks one share of the images, for a merge by `bin/report`; returns the exit code."""
    own = ShardFolder(config.output, shard)
    attack_shard(job, config, own)
    say(f"\nShard {shard} is written to {own.folder}.")
    say(as_started(f"When all {shard.count} are there: bin/report --merge {config.output}"))
    return 0


def attack_shard(job: EvaluationJob, config: EvaluateConfig, own: ShardFolder) -> None:
    """Runs the attacks on a share of the images, or resumes them, and prints what they found."""
    with own.held(config):
        job.open()
        result = job.evaluate(own.state, shard=own.shard)
        own.finish(config)
    say(result)


def run_worker(job: EvaluationJob, config: EvaluateConfig, cluster: Cluster) -> int:
    """Attacks the share of one worker; the first one waits for the others, and merges."""
    check(
        config.output is not None,
        "Several workers exchange their results through a folder. Received: no --output. Name one that all "
        "workers share, or use --distribution=one.",
    )
    shards = Shard(1, len(cluster.workers)).all()
    folders = [ShardFolder(config.output, shard) for shard in shards]
    own = folders[cluster.index]
    say(f"Worker {own.shard.number} of {own.shard.count} at {cluster.workers[cluster.index]}.")
    if not cluster.is_chief:
        attack_shard(job, config, own)
        say(f"\nShard {own.shard} is written to {own.folder}. The first worker merges all of them.")
        return 0
    with prepared(config.output) as output:
        attack_shard(job, config, own)
        try:
            wait_for_shards(folders, cluster.workers, config)
        except ShardLost as error:
            warn(as_started(f"bin/evaluate: {error}"))
            return 1
        code = show(job.evaluate(output / STATE, shards=[one.state for one in folders]), output)
        for folder in folders:
            folder.remove()
    return code


def wait_for_shards(
    folders: Sequence[ShardFolder],
    addresses: Sequence[str],
    config: EvaluateConfig,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Returns when all shards are finished.

    Args:
        folders: The shards.
        addresses: Of their workers, for messages.
        config: The settings; a shard that gives no sign of life for `worker_timeout` seconds is lost.
        clock: Returns the time in seconds.
        sleep: Waits for some seconds.
    """
    signs: dict[str, str | None] = {}
    last = {folder.folder.name: clock() for folder in folders}
    told = False
    while unfinished := [folder for folder in folders if not folder.finished]:
        if not told:
            told = say(f"Waiting for {', '.join(f'shard {folder.shard}' for folder in unfinished)}.")
        for folder in unfinished:
            name, sign = folder.folder.name, _sign_of(folder)
            if sign is not None and sign != signs.get(name):
                signs[name], last[name] = sign, clock()
            if clock() - last[name] > config.worker_timeout:
                raise _lost(folder, addresses[folder.shard.number - 1], name in signs, config.worker_timeout)
        sleep(INTERVAL)


def _sign_of(folder: ShardFolder) -> str | None:
    try:
        return folder.sign.read_text()
    except OSError:
        return None


def _lost(folder: ShardFolder, address: str, seen: bool, seconds: float) -> Exception:
    worker = f"shard {folder.shard} (worker {address})"
    if seen:
        return ShardLost(
            f"There is no sign of life of {worker} since {seconds:g} s. What it found is kept in "
            f"'{folder.folder}'. Start all workers again: they go on where they were."
        )
    return InputError(
        f"Waited {seconds:g} s for {worker}, but there is no sign of life in '{folder.folder}'. Start the "
        "same command there, with an --output that all workers share; what is finished is kept."
    )


def merge(folders: Sequence[ShardFolder], make_job: Callable[[EvaluateConfig], EvaluationJob]) -> int:
    """Makes one evaluation of finished shards, on the devices of this machine; returns the exit code.

    Args:
        folders: All shards.
        make_job: From the settings of the evaluation to its job.
    """
    config = folders[0].config()
    output = str(folders[0].output)
    here = dataclasses.replace(config, distribution="auto", devices=(), cpu_replicas=1)
    job = make_job(dataclasses.replace(here, shard=None, output=output))
    with prepared(output) as folder:
        job.open()
        return show(job.evaluate(folder / STATE, shards=[one.state for one in folders]), folder)
