"""Workers, ports and parts of batches, without starting any process."""

import types

import numpy as np
import pytest
import tensorflow as tf

from athe_tf.attacks.engine.driver import even_batches
from athe_tf.data import ImageSet
from athe_tf.distribution.cluster import Cluster, from_slurm, from_tf_config
from athe_tf.distribution.settings import DistributionSettings
from athe_tf.distribution.strategy import Distribution
from athe_tf.utils.errors import InputError


def slurm(job, rank=1):
    return {
        "SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": str(rank), "SLURM_STEP_NODELIST": "gpu[08-09]",
        "SLURM_JOB_ID": str(job),
    }  # fmt: skip


# 10,000 ports from 20,000 on, by the number of the job.
@pytest.mark.parametrize("job, port", [(7, 20007), (9_999, 29_999), (10_000, 20_000), (123_456, 23_456)])
def test_a_job_of_slurm_has_its_own_port(job, port):
    cluster = from_slurm(slurm(job))
    assert cluster == Cluster((f"gpu08:{port}", f"gpu09:{port}"), 1) and not cluster.is_chief
    assert from_slurm(slurm(job, rank=0)).is_chief


def tf_config(index):
    return f'{{"cluster": {{"worker": ["a:1", "b:2"]}}, "task": {{"type": "worker", "index": {index}}}}}'


def test_a_worker_is_one_of_the_named_ones():
    assert [from_tf_config(tf_config(index)).is_chief for index in (0, 1)] == [True, False]
    with pytest.raises(InputError, match="its task is worker 2, and there are 2 of them"):
        from_tf_config(tf_config(2))
    assert from_tf_config(from_tf_config(tf_config(1)).tf_config()) == Cluster(("a:1", "b:2"), 1)


def test_a_cluster_of_one_worker_is_one_machine():
    alone = {"TF_CONFIG": '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}}'}
    assert DistributionSettings("auto").shared_evaluation(alone)[1] is None
    assert DistributionSettings("auto").resolve(alone).kind == "auto"
    settings, cluster = DistributionSettings("multi_worker").shared_evaluation({"TF_CONFIG": tf_config(1)})
    assert settings.kind == "auto" and cluster.index == 1
    assert DistributionSettings("auto").shared_evaluation({"TF_CONFIG": tf_config(1)}, False)[1] is None


def test_what_is_left_out_has_its_documented_value():
    settings = DistributionSettings()
    assert (settings.kind, settings.devices, settings.cpu_replicas, settings.cluster) == ("one", (), 1, None)
    # Five minutes: machines of a cluster do not start at the same time.
    assert settings.worker_timeout == 300.0


def test_gpus_are_left_unused_on_request_only():
    assert not DistributionSettings("auto").uses_cpu
    assert DistributionSettings("auto", devices=("cpu",)).uses_cpu
    assert DistributionSettings("mirrored", cpu_replicas=2).uses_cpu


def test_the_last_batch_of_an_evaluation_is_padded_and_counts_once():
    images = np.arange(10, dtype=np.uint8).reshape(10, 1, 1, 1)
    # TensorFlow's default strategy has one replica, and the interface of the others.
    dataset, steps = Distribution(tf.distribute.get_strategy()).eval_dataset(
        ImageSet(images, np.arange(10)), 4
    )
    assert steps == 3
    batches = [batch for batch, _ in zip(iter(dataset), range(steps), strict=False)]
    labels, weights = (np.concatenate([batch[place] for batch in batches]) for place in (1, 2))
    assert labels[weights > 0].tolist() == list(range(10)) and weights.sum() == 10 and len(weights) == 12


@pytest.mark.parametrize("index, summed", [(0, 5.0), (1, 0.0)])
def test_a_number_of_the_chief_is_that_of_the_first_worker(index, summed, monkeypatch):
    strategy = types.SimpleNamespace(num_replicas_in_sync=2)
    distribution = Distribution(strategy, Cluster(("a:1", "b:2"), index))
    monkeypatch.setattr(distribution, "_sum", lambda number: number)
    assert distribution.from_chief(5.0) == summed and distribution.is_chief == (index == 0)


def test_each_device_of_an_evaluation_gets_full_batches():
    assert [len(batch) for batch in even_batches(np.arange(512), 128, 4)] == [128] * 4
    assert [len(batch) for batch in even_batches(np.arange(513), 128, 4)] == [65] + [64] * 7
