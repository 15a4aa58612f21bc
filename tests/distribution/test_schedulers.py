"""What schedulers put into the environment, and the ready files of examples/."""

import json
import os
import re
import socket
import subprocess

import pytest

from athe_tf.distribution.cluster import Cluster, find_cluster, find_pod, host_and_port, wait_for_workers
from athe_tf.distribution.settings import DistributionSettings
from athe_tf.jobs.shard import Shard
from athe_tf.programs import evaluate, train
from athe_tf.programs.config import EvaluateConfig
from athe_tf.programs.interruption import RESTART_ALL
from athe_tf.programs.sharded import own_shard
from athe_tf.utils.errors import InputError
from benchmarks.results_tables import ROOT
from benchmarks.workers import free_ports

EXAMPLES = ROOT / "examples"


def tf_config(cluster, kind="worker", index=0, **more):
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}} | more)}


def test_the_master_of_an_older_tfjob_or_of_sagemaker_is_the_chief():
    groups = {"master": ["m:1"], "worker": ["a:1", "b:1"]}
    workers = ("m:1", "a:1", "b:1")
    assert find_cluster(tf_config(groups, "master", environment="cloud")) == Cluster(workers, 0)
    assert find_cluster(tf_config(groups, index=1)) == Cluster(workers, 2)
    with pytest.raises(InputError, match="job 'master'"):
        find_cluster(tf_config(groups | {"chief": ["c:1"]}))


def test_addresses_may_be_ipv6():
    cluster = find_cluster(tf_config({"worker": ["[fd00::1]:2222", "[fd00::2]:2222"]}, index=1))
    assert cluster == Cluster(("[fd00::1]:2222", "[fd00::2]:2222"), 1)
    assert host_and_port("[fd00::1]:2222") == ("fd00::1", 2222) and host_and_port("a:1") == ("a", 1)
    for address in ("fd00::1:2222", "[fd00::1]", "[fd00::1:2222", "[x]:1"):
        with pytest.raises(InputError, match="is not host:port, or .IPv6.:port"):
            find_cluster(tf_config({"worker": [address]}))


def test_workers_with_ipv6_addresses_find_each_other():
    one, two = free_ports(2)
    cluster = Cluster((f"[::1]:{one}", f"[::1]:{two}"), 0)
    with socket.create_server(("::1", two), family=socket.AF_INET6):
        wait_for_workers(cluster, seconds=60)
    with pytest.raises(InputError, match=rf"no answer at \[::1\]:{two}"):
        wait_for_workers(cluster, seconds=0)


def test_a_worker_that_knows_only_itself_is_refused():
    sparse = {"sparseCluster": {"worker": {"1": "a:1"}}, "task": {"type": "worker", "index": 1}}
    with pytest.raises(InputError, match="set enableDynamicWorker to false"):
        find_cluster({"TF_CONFIG": json.dumps(sparse)})


@pytest.mark.parametrize(
    ("environment", "launcher"),
    [
        ({"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "0"}, "mpirun"),
        ({"PMI_SIZE": "2", "PMI_RANK": "1"}, "mpiexec"),
        ({"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "a", "MASTER_PORT": "1"}, "torchrun"),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2"}, "a Slurm job without srun"),
        ({"JOB_COMPLETION_INDEX": "0", "JOB_COMPLETION_COUNT": "4"}, "an Indexed Job"),
        ({"JOB_COMPLETION_INDEX": "0"}, "pod of an Indexed Job"),
    ],
)
def test_one_of_several_processes_does_not_train_alone(environment, launcher):
    with pytest.raises(InputError, match=launcher) as caught:
        DistributionSettings("auto").resolve(environment)
    assert "the distribution 'one'" in str(caught.value)
    assert DistributionSettings("one").resolve(environment).cluster is None
    assert DistributionSettings("mirrored").resolve(environment).cluster is None
    # Whoever sets TF_CONFIG has said where the others are.
    assert find_cluster(environment | tf_config({"worker": ["a:1", "b:1"]})).workers == ("a:1", "b:1")


@pytest.mark.parametrize(
    "environment",
    [
        {"OMPI_COMM_WORLD_SIZE": "1"},
        {"WORLD_SIZE": ""},
        {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "1"},
        {"JOB_COMPLETION_INDEX": "0", "JOB_COMPLETION_COUNT": "1"},
    ],
)
def test_a_single_process_of_a_launcher_trains(environment):
    assert DistributionSettings("auto").resolve(environment).cluster is None


def test_steps_of_a_slurm_job_have_ports_of_their_own():
    step = {
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_PROCID": "0",
        "SLURM_STEP_NODELIST": "a,b",
        "SLURM_JOB_ID": "10",
    }
    assert find_cluster(step | {"SLURM_STEP_ID": "0"}).workers == ("a:20010", "b:20010")
    assert find_cluster(step | {"SLURM_STEP_ID": "3"}).workers == ("a:20013", "b:20013")


def config(**settings):
    return EvaluateConfig(model="m", **settings)


def test_a_pod_of_an_indexed_job_evaluates_its_shard():
    pod = {"JOB_COMPLETION_INDEX": "2", "JOB_COMPLETION_COUNT": "8"}
    assert find_pod(pod) == (3, 8) and find_pod({}) is None
    assert own_shard(config(output="o"), pod) == Shard(3, 8)
    assert own_shard(config(output="o", shard="1/2"), pod) == Shard(1, 2)
    assert own_shard(config(output="o", distribution="one"), pod) is None
    assert own_shard(config(output="o"), {"JOB_COMPLETION_INDEX": "0", "JOB_COMPLETION_COUNT": "1"}) is None
    assert own_shard(config(output="o"), pod | tf_config({"worker": ["a:1"]})) is None


@pytest.mark.parametrize(
    ("pod", "message"),
    [
        ({"JOB_COMPLETION_INDEX": "2"}, "Set JOB_COMPLETION_COUNT to the number of completions"),
        (
            {"JOB_COMPLETION_INDEX": "8", "JOB_COMPLETION_COUNT": "8"},
            "from 0 to JOB_COMPLETION_COUNT minus 1",
        ),
        ({"JOB_COMPLETION_INDEX": "x", "JOB_COMPLETION_COUNT": "8"}, "Received: JOB_COMPLETION_INDEX=x"),
        ({"JOB_COMPLETION_INDEX": "0", "JOB_COMPLETION_COUNT": ""}, "JOB_COMPLETION_COUNT=."),
    ],
)
def test_a_pod_whose_share_is_unknown_is_refused(pod, message):
    with pytest.raises(InputError, match=message):
        own_shard(config(output="o"), pod)


def test_pods_need_a_folder_to_exchange_results():
    with pytest.raises(InputError, match="Name one that all pods share"):
        own_shard(config(), {"JOB_COMPLETION_INDEX": "0", "JOB_COMPLETION_COUNT": "2"})


def command_in(text):
    """The program of a container, and its flags."""
    block = re.search(r"command:\n((?:\s+- .+\n)+)", text)[1]
    name, *flags = (line.split("- ", 1)[1].split(" #")[0].strip() for line in block.splitlines())
    return name, flags


def test_the_indexed_job_divides_the_images_among_its_pods():
    text = (EXAMPLES / "kubernetes_evaluate.yaml").read_text()
    completions = re.search(r"completions: (\d+)", text)[1]
    count = re.search(r'name: JOB_COMPLETION_COUNT.*\n\s+value: "(\d+)"', text)[1]
    assert count == completions and "completionMode: Indexed" in text
    name, flags = command_in(text)
    assert name == "athe-tf-evaluate"
    settings, _ = evaluate.PROGRAM.read(["bin/evaluate", *flags])
    shares = {
        own_shard(settings, {"JOB_COMPLETION_INDEX": str(index), "JOB_COMPLETION_COUNT": count})
        for index in range(int(count))
    }
    assert shares == set(Shard(1, int(count)).all())


def test_the_replicas_of_the_tfjob_are_one_cluster():
    text = (EXAMPLES / "kubeflow_train.yaml").read_text()
    assert "enableDynamicWorker: false" in text and text.count("restartPolicy: ExitCode") == 2
    name, flags = command_in(text)
    assert name == "athe-tf-train"
    settings, _ = train.PROGRAM.read(["bin/train", *flags])
    assert settings.framework == "trades" and settings.worker_timeout == 1800
    # As the operator of Kubeflow sets it.
    groups = {
        "chief": ["trades-he-chief-0.default.svc:2222"],
        "worker": ["trades-he-worker-0.default.svc:2222"],
    }
    for kind, position in (("chief", 0), ("worker", 1)):
        given = tf_config(groups, kind, environment="cloud")
        cluster = settings.distribution_settings().resolve(given).cluster
        assert cluster.index == position and len(cluster.workers) == 2
    # Kubeflow starts a replica again if its exit code is above 127.
    assert RESTART_ALL > 127 and f"ends with {RESTART_ALL}" in text


@pytest.mark.parametrize(("code", "again"), [(0, False), (1, False), (2, False), (137, True), (138, True)])
def test_the_slurm_script_requeues_when_a_worker_was_lost(code, again, tmp_path):
    text = (EXAMPLES / "slurm_train.sbatch").read_text()
    assert f"# {RESTART_ALL}: a worker ended" in text and "#SBATCH --ntasks-per-node=1" in text
    for name, body in (("srun", f'echo "$@" > srun.txt; exit {code}'), ("scontrol", 'echo "$@" > again.txt')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": "77"}
    script = [EXAMPLES / "slurm_train.sbatch"]
    assert subprocess.run(["bash", *script], cwd=tmp_path, env=environment).returncode == code
    called = (tmp_path / "srun.txt").read_text().split()
    settings, _ = train.PROGRAM.read(
        [called[0], f"--flagfile={ROOT / called[1].partition('=')[2]}", *called[2:]]
    )
    assert settings.workdir == "/shared/runs/trades_he"
    assert (tmp_path / "again.txt").exists() == again
    assert not again or (tmp_path / "again.txt").read_text() == "requeue 77\n"
