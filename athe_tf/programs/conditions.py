"""What a run depends on beside its settings: all workers must agree on it, and a backup records it."""

import importlib.util
import json
import os
from typing import Any

import tensorflow as tf

from athe_tf.data.splits import Splits
from athe_tf.distribution.strategy import Distribution
from athe_tf.jobs.journal import differences
from athe_tf.programs.config import TrainConfig
from athe_tf.programs.config.serialization import deciding_settings, flag_text
from athe_tf.programs.run_state import ATHE_TF, INITIAL_MODEL, run_identity
from athe_tf.results.result import versions_in_use
from athe_tf.utils.arithmetic import arithmetic
from athe_tf.utils.digests import file_digest, source_digest
from athe_tf.utils.errors import check
from athe_tf.utils.registry import is_import_path


def check_workers(config: TrainConfig, splits: Splits, distribution: Distribution) -> None:
    """Raises `InputError`, on all workers, if one of them would train something else than the first.

    Compares the settings, the versions, athe_tf's source files and the fingerprints of the data.
    """
    if distribution.cluster is None or distribution.workers == 1:
        return
    first, *others = map(json.loads, distribution.gather(json.dumps(worker_facts(config, splits))))
    found = []
    for number, facts in enumerate(others, start=2):
        address = distribution.cluster.workers[number - 1]
        entry = f"{{name}}={{ours}} on worker {number} ({address}), {{stored}} on the first worker"
        # A worker that resumes does not need the initial model any more.
        one_has = {INITIAL_MODEL} if (INITIAL_MODEL in facts) != (INITIAL_MODEL in first) else set()
        ours, stored = ({k: v for k, v in each.items() if k not in one_has} for each in (facts, first))
        found += differences(ours, stored, entry, lambda value: "none" if value is None else str(value))
    check(
        not found,
        f"The workers of this run are not the same. Received: {'; '.join(found)}. Start all of them with the "
        "same flags, data, packages and source files.",
    )


def worker_facts(config: TrainConfig, splits: Splits) -> dict[str, str]:
    """What must be the same on all workers, by names for the user, as texts."""
    settings = deciding_settings(config)
    facts = {f"--{name}": flag_text(value) for name, value in settings.items()} | _versions()
    for name, value in settings.items():
        # `module:Name`, or a call of it, of which every worker imports its own copy.
        if name != "dataset" and is_import_path(str(value).partition("(")[0]):
            spec = importlib.util.find_spec(str(value).partition(":")[0])
            if spec is not None and spec.has_location:
                facts[f"source file of --{name}"] = file_digest(spec.origin)[:16]
    return facts | run_identity(config, splits) | {"source files of athe_tf": source_digest()}


def conditions(distribution: Distribution) -> dict[str, Any]:
    """What decides the bits of a result beside settings and data, on all workers; all must call this."""
    threads = tf.config.threading
    names = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "TF_ENABLE_ONEDNN_OPTS")
    own = {
        **arithmetic(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": [threads.get_intra_op_parallelism_threads(), threads.get_inter_op_parallelism_threads()],
        **{name: os.environ.get(name, "not set") for name in names},
        **_versions(),
    }
    everybody = [json.loads(text) for text in distribution.gather(json.dumps(own))]
    found = {"replicas": distribution.replicas, "workers": distribution.workers, **everybody[0]}
    for number, others in enumerate(everybody[1:], start=2):
        found |= {f"{name} of worker {number}": value for name, value in others.items()}
    return found


def changed_conditions(stored: dict[str, Any], ours: dict[str, Any]) -> str:
    """The recorded conditions that are not as before, as a part of a sentence; empty if all are."""
    comparable = {name: ours.get(name) for name in stored}
    return "; ".join(differences(comparable, stored, "{name} {ours} (before: {stored})", str))


def _versions() -> dict[str, str]:
    versions = versions_in_use()
    return {ATHE_TF: versions["athe_tf"]} | {
        f"version of {name}": versions[name] for name in ("tensorflow", "keras", "numpy")
    }
