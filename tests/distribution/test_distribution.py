"""Two replicas compute what one computes on the same global batch."""

import dataclasses
import json

import numpy as np
import pytest

from athe_tf.distribution import cluster, strategy
from athe_tf.distribution.cluster import Cluster, expand_hosts, find_cluster, wait_for_workers
from athe_tf.distribution.settings import DistributionSettings
from athe_tf.distribution.strategy import Distribution, initialize, pad_batch
from athe_tf.programs import callbacks
from athe_tf.programs.config import TrainConfig
from athe_tf.programs.run_state import RunProgress
from athe_tf.utils.errors import InputError
from tests.small_runs import tiny_splits
from tests.worker_processes import Processes, free_ports, tf_config


@pytest.fixture(scope="module")
def replicas(tmp_path_factory):
    """What `tests/replica_run.py` found out, in a process whose CPU is divided into two devices."""
    folder = tmp_path_factory.mktemp("replicas")
    with Processes([("tests.replica_run", folder / "found.npz")], folder) as processes:
        processes.succeed()
    with np.load(folder / "found.npz") as file:
        return {name: file[name] for name in file.files}


@pytest.mark.parametrize(
    "step",
    [
        "pgd_at-eval", "alp-eval", "trades-eval", "fast_at-eval", "free_at-train", "llr-frozen_clean",
        "fast_at-train", "pgd_at-batch_no_update",
    ],
)  # fmt: skip
def test_one_step_on_two_replicas_equals_the_step_on_one(step, replicas):
    names = [name for name in replicas if name.startswith(f"{step}/one/")]
    assert len(names) == 8  # kernel, gamma, beta, two moving statistics, class weights, loss, accuracy
    moved = 0.0
    for name in names:
        one, two = replicas[name], replicas[name.replace("/one/", "/two/")]
        np.testing.assert_allclose(one, two, atol=1e-5, rtol=0, err_msg=name)
        moved = max(moved, np.abs(one - replicas.get(name.replace(step, "start"), one)).max())
    assert moved > 1e-3


@pytest.mark.parametrize("which", ["two", "four"])
def test_the_noise_of_free_at_stays_on_its_replica_and_equals_that_of_one(which, replicas):
    one, several = replicas["free_at/one"], replicas[f"free_at/{which}"]
    noise = 16 * 8 * 8
    assert np.abs(one[-noise:]).max() == 0.1
    np.testing.assert_allclose(several, one, atol=1e-12, rtol=0)
    assert replicas[f"free_at/{which}/rows"] == 16 // {"two": 2, "four": 4}[which]
    for other in {"one", "two", "four"} - {which}:
        np.testing.assert_array_equal(replicas[f"free_at/{which} for {other}"], several[-noise:])


def test_replicas_of_free_at_exchange_no_images(replicas):
    # In the graph of a step: statistics of 4 channels, both moving ones of them, all gradients at once.
    assert set(replicas["free_at/exchanged"].tolist()) == {4, 8, int(replicas["free_at/trained"])}


@pytest.mark.parametrize("number", [0, 1])
def test_pieces_of_recipes_do_not_depend_on_the_number_of_replicas(number, replicas):
    one, two = (replicas[f"pieces/{number}/{which}"] for which in ("one", "two"))
    np.testing.assert_allclose(one, two, atol=1e-9, rtol=0)


def test_moving_statistics_are_equal_on_all_replicas_without_synchronisation(replicas):
    first, second = replicas["unsynchronised/0"], replicas["unsynchronised/1"]
    np.testing.assert_array_equal(first, second)


def test_replicas_draw_different_numbers_in_random_layers_and_add_up_their_counts(replicas):
    first, second = replicas["random_front/0"], replicas["random_front/1"]
    assert np.abs(first - second).mean() > 0.01  # of the same images
    # 16 images, none of which had a gradient that was zero or not finite.
    np.testing.assert_array_equal(replicas["random_front/counts"], [16, 0, 0, 0])


def test_a_run_on_two_replicas_resumes_and_exports_as_on_one(replicas):
    np.testing.assert_allclose(replicas["run/interrupted"], replicas["run/one"], atol=1e-5)
    np.testing.assert_allclose(replicas["run/val_loss"], replicas["run/one_val_loss"], rtol=1e-4)


def test_validation_that_keras_splits_unevenly_is_right(replicas):
    np.testing.assert_allclose(replicas["uneven/two"], replicas["uneven/one"], rtol=1e-5)


def test_crafting_that_xla_compiles_on_two_replicas_equals_the_plain_one(replicas):
    np.testing.assert_allclose(replicas["xla/True"], replicas["xla/False"], atol=5e-5, rtol=0)
    np.testing.assert_array_equal(replicas["xla/counts"], [16, 0, 0, 0])  # of gradients
    assert replicas["xla/compiled"].tolist() == [True, False]  # crafting, and not the step
    assert "FreeAT on 2 replicas, bn_mode='train'" in str(replicas["xla/refused"])


def test_the_selftest_finds_a_replica_without_reduction(replicas):
    assert replicas["selftest/as_it_is"].tolist() == [True]
    assert replicas["selftest/without_reduction"].tolist() == [False]
    assert replicas["selftest/deterministic"].tolist() == [True, False]  # and TF32 is off


def test_replicas_need_batches_of_one_size(replicas):
    assert "drop_remainder=True" in str(replicas["refused"])


@pytest.mark.parametrize("method", ["fit", "evaluate"])
def test_images_of_255_on_one_replica_are_refused(method, replicas):
    assert "Images must lie in [0, 1]" in str(replicas[f"wrong_values/{method}"])


def test_the_images_are_in_memory_once_whatever_the_number_of_replicas(replicas):
    held, grown = replicas["memory"]
    assert grown < 0.5 * held


def test_evaluation_spreads_over_devices_with_the_same_flags(replicas):
    np.testing.assert_array_equal(replicas["evaluation/one"], replicas["evaluation/two"])
    np.testing.assert_array_equal(replicas["evaluation/queries_one"], replicas["evaluation/queries_two"])
    # Batches of at most 20, in halves that differ by one image at most.
    sizes = replicas["evaluation/sizes"].reshape([-1, 2])
    assert sizes.max() == 10 and np.abs(np.diff(sizes)).max() <= 1
    assert set(replicas["evaluation/devices"].tolist()) == {"CPU:0", "CPU:1"}


@pytest.mark.parametrize(
    ("workers", "minutes", "questions"), [(2, 10.0, 12), (2, 0.0, 400), (2, 0.5 / 60, 22), (1, 10.0, 400)]
)
def test_workers_ask_each_other_once_a_second_and_after_the_same_steps(
    workers, minutes, questions, monkeypatch, tmp_path
):
    """400 steps of 25 ms: ten seconds. With a backup after every step, they ask after every step."""
    clock, asked = [0.0], []
    monkeypatch.setattr(callbacks.time, "monotonic", lambda: clock[0])

    class Workers:
        is_chief = True

        def any_worker(self, flag):
            asked.append(flag)
            return False

        def from_chief(self, number):
            return number

    Workers.workers = workers
    backup = callbacks.Backup(tmp_path / "b.npz", RunProgress(), minutes, Workers())
    backup.set_params({"steps": 401})
    backup.on_epoch_begin(0)
    for batch in range(401):
        clock[0] += 0.025
        backup.on_train_batch_end(batch)
    assert abs(len(asked) - questions) <= 1
    assert any(asked) == (minutes < 1)  # a backup was due


# -- flags and environment ----------------------------------------------------------------------------------

WORKERS = ["10.0.0.1:2222", "10.0.0.2:2222"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"distribution": "mirored"}, "Did you mean 'mirrored'"),
        ({"devices": ("gpu0",)}, r"Received: devices=\('gpu0',\)"),
        ({"devices": ("0", "0")}, "twice"),
        ({"cpu_replicas": 0}, "at least 1"),
        ({"cpu_replicas": 2, "distribution": "one"}, "needs the distribution 'mirrored'"),
        ({"cpu_replicas": 2, "devices": ("0",)}, "Leave one of them out"),
        ({"worker_timeout": 0.0}, "larger than 0"),
    ],
)
def test_flags_that_make_no_sense_are_refused(flags, message):
    with pytest.raises(InputError, match=message):
        TrainConfig.from_flags(**flags)


def test_where_a_run_is_spread_is_no_part_of_what_it_is():
    fields = {field.name: field for field in dataclasses.fields(TrainConfig)}
    for name in ("distribution", "devices", "cpu_replicas", "worker_timeout"):
        assert fields[name].metadata["runtime"]
    assert not fields["sync_batch_norm"].metadata.get("runtime")


@pytest.mark.parametrize(
    ("environment", "kind"),
    [
        ({}, "auto"),
        ({"TF_CONFIG": ""}, "auto"),
        ({"TF_CONFIG": tf_config(WORKERS, 1)}, "multi_worker"),
        ({"TF_CONFIG": tf_config(WORKERS[:1], 0)}, "auto"),
        ({"TPU_NAME": "local"}, "tpu"),
    ],
)
def test_auto_follows_the_environment(environment, kind):
    settings = DistributionSettings("auto").resolve(environment)
    assert settings.kind == kind
    assert settings.cluster == (Cluster(tuple(WORKERS), 1) if kind == "multi_worker" else None)


def test_a_chief_is_the_first_worker():
    text = json.dumps({"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, "task": {"type": "worker"}})
    assert find_cluster({"TF_CONFIG": text}) == Cluster(("a:1", "b:1"), 1)
    assert find_cluster({"TF_CONFIG": Cluster(("a:1", "b:1"), 1).tf_config()}) == Cluster(("a:1", "b:1"), 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "TF_CONFIG is invalid: Expecting property name"),
        ("[]", "it is not a JSON object"),
        ("[" * 100_000, "nested too deeply"),
        ('{"cluster": 5}', "its cluster is not an object with lists"),
        ('{"cluster": {"worker": "a:1"}}', "its cluster is not an object with lists"),
        ('{"cluster": {"worker": ["a:1"]}, "task": [1]}', "its task is not an object"),
        ('{"cluster": {"worker": ["a:1"]}, "task": {"type": ["worker"]}}', "not a text and a whole number"),
        ('{"cluster": {"worker": ["a:1"]}, "task": {"index": 0.5}}', "not a text and a whole number"),
        ('{"cluster": {"worker": [["a:1"]]}}', "is not host:port"),
        (tf_config(WORKERS, 2), "its task is worker 2, and there are 2"),
        (tf_config(["10.0.0.1"], 0), "'10.0.0.1' is not host:port"),
        (tf_config([WORKERS[0]] * 2, 0), "same address"),
        (json.dumps({"cluster": {"ps": ["a:1"]}}), "job 'ps'"),
        (json.dumps({"cluster": {"worker": WORKERS}, "task": {"type": "chief"}}), "type 'chief'"),
    ],
)
def test_a_malformed_tf_config_is_refused_with_an_example(text, message):
    with pytest.raises(InputError, match=message) as caught:
        DistributionSettings("multi_worker").resolve({"TF_CONFIG": text})
    assert '"10.0.0.1:2222"' in str(caught.value) and text[:500] in str(caught.value)


@pytest.mark.parametrize("deterministic", [True, False])
def test_a_deterministic_run_is_so_before_it_computes_anything(deterministic, monkeypatch):
    settings = TrainConfig(deterministic=deterministic, distribution="one").distribution_settings()
    calls = []
    monkeypatch.setattr(strategy, "make_deterministic", lambda: calls.append("deterministic"))
    monkeypatch.setattr(strategy.tf.config, "set_visible_devices", lambda *_: calls.append("devices"))
    initialize(settings)
    assert calls == ["deterministic"] * deterministic + ["devices"]


def test_workers_have_one_cpu_replica_each():
    with pytest.raises(InputError, match="cpu_replicas=2 with 'multi_worker'"):
        DistributionSettings("auto", cpu_replicas=2).resolve({"TF_CONFIG": tf_config(WORKERS, 0)})


def test_several_workers_need_a_cluster():
    with pytest.raises(InputError, match="Set TF_CONFIG"):
        DistributionSettings("multi_worker").resolve({})


SLURM = {
    "SLURM_STEP_NUM_TASKS": "3",
    "SLURM_PROCID": "2",
    "SLURM_STEP_NODELIST": "gpu[08-09],login",
    "SLURM_JOB_ID": "1234567",
}


def test_a_slurm_step_is_a_cluster():
    assert find_cluster(SLURM) == Cluster(("gpu08:24567", "gpu09:24567", "login:24567"), 2)
    assert find_cluster(SLURM | {"SLURM_STEP_NUM_TASKS": "1"}) is None
    with pytest.raises(InputError, match="--ntasks-per-node=1"):
        find_cluster(SLURM | {"SLURM_STEP_NUM_TASKS": "6"})
    with pytest.raises(InputError, match="SLURM_PROCID"):
        find_cluster({name: value for name, value in SLURM.items() if name != "SLURM_PROCID"})


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("node1", ["node1"]),
        ("a,b", ["a", "b"]),
        ("n[1-2,05]", ["n1", "n2", "n05"]),
        ("r[1-2]n[3,4]-ib", ["r1n3-ib", "r1n4-ib", "r2n3-ib", "r2n4-ib"]),
    ],
)
def test_short_host_lists_are_written_out(text, hosts):
    assert expand_hosts(text) == hosts


def test_a_worker_that_never_appears_is_named():
    mine, nobody = (f"127.0.0.1:{port}" for port in free_ports(2))
    with pytest.raises(InputError, match=f"there is no answer at {nobody}"):
        wait_for_workers(Cluster((mine, nobody), 0), seconds=0.2)


def test_an_address_in_use_is_named():
    import socket

    with socket.create_server(("", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(InputError, match=f"cannot listen at its own address {address}"):
            wait_for_workers(Cluster((address, "127.0.0.1:1"), 0), seconds=0.2)


def test_a_worker_listens_at_its_own_address_only():
    (port,) = free_ports(1)
    with cluster._answering(f"127.0.0.1:{port}"):
        assert cluster._answers(f"127.0.0.1:{port}")
        # Another address of this machine: all of 127.0.0.0/8 is the loopback interface.
        assert not cluster._answers(f"127.0.0.2:{port}")
    with cluster._answering(f"localhost:{port}"):
        assert cluster._answers(f"127.0.0.2:{port}")


def test_mirrored_with_one_device_works_and_says_so():
    told = []
    spread = initialize(DistributionSettings("mirrored", devices=("cpu",)), write=told.append)
    assert (spread.replicas, spread.workers, spread.is_chief, spread.strategy) == (1, 1, True, None)
    assert told == ["Only one device was found, so the distribution 'mirrored' is the same as 'one'."]


def test_a_gpu_that_is_not_there_is_refused():
    with pytest.raises(InputError, match="There is no GPU number 99"):
        initialize(DistributionSettings("auto", devices=("99",)))


def test_the_cpu_is_divided_before_tensorflow_computes():
    np.asarray(pad_batch(np.zeros([1, 1], "float32"), np.zeros([1], "int32"), 1)[0])
    with pytest.raises(InputError, match="only before TensorFlow has computed"):
        initialize(DistributionSettings("auto", devices=("cpu",), cpu_replicas=2))


def test_a_batch_that_the_replicas_do_not_divide_is_refused():
    class Three:
        num_replicas_in_sync = 3

    with pytest.raises(InputError, match="3 replicas cannot share a batch of 128 .* Use 126 or 129"):
        Distribution(Three()).check_batch_size(128)
    Distribution(Three()).check_batch_size(126)


def test_parts_of_a_stream_make_up_its_batches():
    source = tiny_splits(24).train
    options = {"seed": 3, "augmentation": "pad_crop_flip", "start_step": 2}
    whole = next(iter(source.stream(8, **options)))
    parts = [next(iter(source.stream(8, **options, part=(i, 4)))) for i in range(4)]
    for i in range(2):
        np.testing.assert_array_equal(whole[i], np.concatenate([part[i] for part in parts]))


def test_a_short_batch_is_filled_up_with_images_of_no_weight():
    x, y, weights = pad_batch(np.arange(3.0)[:, np.newaxis], np.array([5, 6, 7]), 5)
    assert x[:, 0].numpy().tolist() == [0, 1, 2, 0, 0]
    assert (y.numpy().tolist(), weights.numpy().tolist()) == ([5, 6, 7, 5, 5], [1, 1, 1, 0, 0])


def test_an_evaluation_uses_the_devices_of_each_worker_and_no_tpu():
    with pytest.raises(InputError, match="one machine, or in shares on several workers"):
        DistributionSettings("tpu").shared_evaluation({})
    with pytest.raises(InputError, match="needs the addresses of the workers"):
        DistributionSettings("multi_worker").shared_evaluation({})
    two = {"TF_CONFIG": Cluster(("a:1", "b:1"), 1).tf_config()}
    for kind in ("auto", "multi_worker"):
        local, cluster = DistributionSettings(kind, ("0",)).shared_evaluation(two)
        assert cluster == Cluster(("a:1", "b:1"), 1) and local == DistributionSettings("auto", ("0",))
    for kind in ("one", "mirrored"):
        assert DistributionSettings(kind).shared_evaluation(two) == (DistributionSettings(kind), None)
    one = {"TF_CONFIG": Cluster(("a:1",), 0).tf_config(), "TPU_NAME": "local"}
    assert DistributionSettings("auto").shared_evaluation(one) == (DistributionSettings("auto"), None)
    shard = DistributionSettings("auto").shared_evaluation(two, look_for_workers=False)
    assert shard == (DistributionSettings("auto"), None)


def test_the_statistics_pass_of_swa_uses_all_devices_and_finds_what_one_finds(replicas):
    assert replicas["swa/one/images"] == 16 and replicas["swa/two/images"] == 8
    np.testing.assert_allclose(replicas["swa/two"], replicas["swa/one"], rtol=1e-5, atol=1e-7)
    assert np.ptp(replicas["swa/one"]) > 0
