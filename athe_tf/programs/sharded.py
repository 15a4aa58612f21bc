"""An evaluation whose images are divided among several processes, which share nothing but a folder.

Each of them attacks its share and keeps what it found in a folder of its own, such as `OUT/shard-3-of-8`.
Whoever merges them, the first of several workers or `bin/report --merge`, reads the results of all attacks
from there and measures the rest.

| file | content |
|---|---|
| `shard.json` | the settings of the evaluation, and whether the shard is finished |
| `state/` | what its attacks found, for each image |
| `alive` | a number that grows while a process works on the shard |
"""

import contextlib
import dataclasses
import itertools
import json
import os
import pathlib
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from athe_tf.distribution.cluster import Cluster, find_pod
from athe_tf.jobs.locks import locked_folder
from athe_tf.jobs.ownership import STATE, check_ours, check_state_folder, remove_files, remove_state
from athe_tf.jobs.shard import Shard
from athe_tf.programs.command_line import print_line, warn_user, with_program_names
from athe_tf.programs.config import EvaluateConfig
from athe_tf.programs.config.serialization import check_types, differences, with_tuples
from athe_tf.programs.evaluation_job import EvaluationJob, open_output
from athe_tf.programs.heartbeat import Heartbeat
from athe_tf.programs.interruption import RESTART_ALL
from athe_tf.programs.workdir import is_imported
from athe_tf.utils.errors import InputError, check
from athe_tf.utils.files import write_text
from athe_tf.utils.registry import is_import_path
from athe_tf.version import __version__

RECORD = "shard.json"
SIGN = "alive"
# Seconds between two signs of life, and between two looks at the other workers.
SIGN_INTERVAL, LOOK_INTERVAL = 2.0, 0.5


class ShardLost(RuntimeError):
    """Another worker has no heartbeat any more; what it found is kept."""


class ShardFolder:
    """The folder of one shard, inside that of the evaluation."""

    def __init__(self, output, shard: Shard):
        self.output = pathlib.Path(output)
        self.shard = shard
        self.folder = self.output / f"shard-{shard.number}-of-{shard.count}"
        self.record = self.folder / RECORD
        self.state = self.folder / STATE
        self.sign = self.folder / SIGN

    @contextlib.contextmanager
    def held(self, config: EvaluateConfig) -> Iterator[None]:
        """A context in which this process alone works on the shard, and gives signs of life."""
        for other in found_shards(self.output):
            check(
                other.shard.count == self.shard.count,
                f"'{self.output}' contains a shard of another division: {other.folder.name}. Expected shards "
                f"of {self.shard.count}. Remove it, or use another --output.",
            )
            # Another shard, or an earlier start of this one.
            changed = differences(other.config(config), config) if other.record.exists() else []
            check(
                not changed,
                f"Shard {other.shard} in '{other.folder}' was started with other settings: "
                f"{', '.join(changed)}. Give all shards the same flags, or use another --output.",
            )
        check_ours(self.record)
        check_state_folder(self.state)
        with locked_folder(self.folder, STATE):
            self.write(config, self.finished)
            with self._alive():
                yield

    @contextlib.contextmanager
    def _alive(self) -> Iterator[None]:
        def give(count: str) -> None:
            with contextlib.suppress(OSError):  # a sign that is late does no harm
                self.sign.write_text(count)

        self.sign.write_text("1")
        counts = itertools.count(2)
        try:
            with Heartbeat(give, lambda: str(next(counts)), SIGN_INTERVAL):
                yield
        finally:
            self.sign.unlink(missing_ok=True)

    def write(self, config: EvaluateConfig, finished: bool) -> None:
        """Records the settings, and whether all attacks of the shard are over."""
        record = {"athe_tf": __version__, "shard": str(self.shard), "finished": finished}
        record["config"] = dataclasses.asdict(config)
        write_text(self.record, json.dumps(record, indent=2) + "\n")

    def read(self) -> dict[str, Any]:
        """The content of `shard.json`; raises `InputError` if it is none."""
        remedy = "Remove the folder, and run the shard again."
        try:
            found = json.loads(self.record.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise InputError(
                f"'{self.folder}' is not a shard of an evaluation: it has no {RECORD}. {remedy}"
            ) from error
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(f"'{self.record}' cannot be read: {error}. {remedy}") from error
        kinds = {"athe_tf": str, "shard": str, "finished": bool, "config": dict}
        valid = isinstance(found, dict) and all(isinstance(found.get(key), kinds[key]) for key in kinds)
        check(
            valid and found["shard"] == str(self.shard),
            f"'{self.record}' is not the record of shard {self.shard}. {remedy}",
        )
        check(
            found["athe_tf"] == __version__,
            f"Shard {self.shard} in '{self.folder}' was run by another version of athe_tf. Expected: "
            f"{__version__}. Received: {found['athe_tf']}. Use one version for all shards.",
        )
        return found

    @property
    def finished(self) -> bool:
        """Whether all attacks of the shard are over."""
        return self.record.exists() and self.read()["finished"]

    def config(self, given: EvaluateConfig | None = None) -> EvaluateConfig:
        """The settings that the shard was started with.

        Args:
            given: The settings of this process. A module is imported only if the user named it, never because
                the file does. Defaults to `None`: the user named none.
        """
        values = with_tuples(self.read()["config"])
        try:
            check_types(EvaluateConfig, values)
            modules = _modules(values) - (set() if given is None else _modules(dataclasses.asdict(given)))
            check(not modules, f"they name modules, which are not imported from a file: {sorted(modules)}")
            return EvaluateConfig(**values)
        except InputError as error:
            raise InputError(
                f"The settings in '{self.record}' cannot be used: {str(error).rstrip('.')}. Run the shards "
                "as workers of one evaluation; the first worker merges them."
            ) from error

    def remove(self) -> None:
        """Removes what this library wrote to the folder, and the folder if nothing else is in it."""
        remove_state(self.state)
        remove_files(self.folder, RECORD, SIGN)


def _modules(values: dict[str, Any]) -> set[str]:
    """The settings that mean `module:Name`."""
    names = (values.get("model"), values.get("parent"), *values.get("substitutes", ()))
    return {name for name in names if name and is_imported(name)} | {
        name for name in values.get("attacks", ()) if is_import_path(name)
    }


def found_shards(output) -> list[ShardFolder]:
    """The shards in a folder, by their names."""
    found = []
    for path in sorted(pathlib.Path(output).glob("shard-*-of-*")):
        match = re.fullmatch(r"shard-(\d{1,6})-of-(\d{1,6})", path.name)
        if match and path.is_dir() and 1 <= int(match[1]) <= int(match[2]):
            found.append(ShardFolder(output, Shard(int(match[1]), int(match[2]))))
    return found


def all_shards(output) -> list[ShardFolder]:
    """All shards of the evaluation in a folder, finished; raises `InputError` if one is missing."""
    found = found_shards(output)
    inside = re.fullmatch(r"shard-\d+-of-\d+", pathlib.Path(output).resolve().name)
    check(
        len(found) > 0,
        f"There are no shards in '{output}'. Expected folders such as shard-1-of-8. "
        + ("Name the folder that contains this shard." if inside else "Name the --output of the shards."),
    )
    counts = {one.shard.count for one in found}
    check(
        len(counts) == 1,
        f"'{output}' contains shards of several divisions: {', '.join(one.folder.name for one in found)}. "
        "Expected shards of one. Remove the others.",
    )
    expected = [ShardFolder(output, shard) for shard in found[0].shard.all()]
    missing = [one.folder.name for one in expected if not one.folder.is_dir()]
    check(
        not missing,
        f"Shards are missing in '{output}': {', '.join(missing)}. Run them with the flags of the others, or "
        "copy their folders there.",
    )
    first = expected[0].config()
    for one in expected:
        changed = differences(one.config(), first)
        check(
            not changed,
            f"Shard {first.shard or expected[0].shard} and shard {one.shard} are of different evaluations: "
            f"{', '.join(changed)}. Run one of them again with the settings of the other.",
        )
        check(
            one.finished,
            f"Shard {one.shard} in '{one.folder}' is not finished. Give its command again: it resumes.",
        )
    return expected


def own_shard(config: EvaluateConfig, environment: Mapping[str, str] = os.environ) -> Shard | None:
    """The share of this process: that of `--shard`, or of a pod of an Indexed Job; `None` for all images."""
    if config.shard is not None:
        return Shard.parse(config.shard, "--shard")
    pod = find_pod(environment) if config.distribution == "auto" else None
    if pod is None or pod[1] == 1:
        return None
    check(
        config.output is not None,
        "The pods of an Indexed Job exchange their results through a folder. Received: no --output. Name one "
        "that all pods share, or use --distribution=one.",
    )
    return Shard(*pod)


def run_shard(job: EvaluationJob, config: EvaluateConfig, shard: Shard) -> int:
    """Attacks one share of the images, for a merge by `bin/report`; returns the exit code."""
    own = ShardFolder(config.output, shard)
    attack_shard(job, config, own)
    print_line(f"\nShard {shard} is written to {own.folder}.")
    print_line(with_program_names(f"When all {shard.count} are there: bin/report --merge {config.output}"))
    return 0


def attack_shard(job: EvaluationJob, config: EvaluateConfig, own: ShardFolder) -> None:
    """Runs the attacks on a share of the images, or resumes them, and prints what they found."""
    with own.held(config):
        job.open()
        result = job.evaluate(own.state, shard=own.shard)
        own.write(config, finished=True)
    print_line(result)


def run_worker(job: EvaluationJob, config: EvaluateConfig, cluster: Cluster) -> int:
    """Attacks the share of one worker; the first one waits for the others, and merges."""
    check(
        config.output is not None,
        "Several workers exchange their results through a folder. Received: no --output. Name one that all "
        "workers share, or use --distribution=one.",
    )
    folders = [ShardFolder(config.output, shard) for shard in Shard(1, len(cluster.workers)).all()]
    own = folders[cluster.index]
    print_line(f"Worker {own.shard.number} of {own.shard.count} at {cluster.workers[cluster.index]}.")
    if not cluster.is_chief:
        attack_shard(job, config, own)
        print_line(f"\nShard {own.shard} is written to {own.folder}. The first worker merges all of them.")
        return 0
    with open_output(config.output) as output:
        attack_shard(job, config, own)
        try:
            wait_for_shards(folders, cluster.workers, config)
        except ShardLost as error:
            warn_user("bin/evaluate", error)
            return RESTART_ALL
        code = job.show(job.evaluate(output / STATE, shards=[one.state for one in folders]), output)
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
    """Returns when all shards are finished; one without a heartbeat for `worker_timeout` seconds is lost.

    The addresses are those of the workers, for messages.
    """
    signs: dict[str, str] = {}
    last = {folder.folder.name: clock() for folder in folders}
    told = False
    while unfinished := [folder for folder in folders if not folder.finished]:
        if not told:
            told = print_line(f"Waiting for {', '.join(f'shard {folder.shard}' for folder in unfinished)}.")
        for folder in unfinished:
            name = folder.folder.name
            with contextlib.suppress(OSError):
                if (sign := folder.sign.read_text()) != signs.get(name):
                    signs[name], last[name] = sign, clock()
            if clock() - last[name] > config.worker_timeout:
                raise _lost(folder, addresses[folder.shard.number - 1], name in signs, config.worker_timeout)
        sleep(LOOK_INTERVAL)


def _lost(folder: ShardFolder, address: str, seen: bool, seconds: float) -> Exception:
    worker = f"shard {folder.shard} (worker {address})"
    if seen:
        return ShardLost(
            f"No heartbeat from {worker} for {seconds:g} s. What it found is kept in '{folder.folder}'. "
            "Restart all workers to resume."
        )
    return InputError(
        f"Waited {seconds:g} s for {worker}, but there is no heartbeat in '{folder.folder}'. Start the "
        "same command there, with an --output that all workers share; what is finished is kept."
    )
