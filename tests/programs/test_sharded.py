"""`bin/evaluate --shard`, several workers, and `bin/report --merge`: one evaluation on many machines."""

import dataclasses
import json
import re
import shutil
import sys

import numpy as np
import pytest

from athe_tf.evaluation.progress import ProgressDisplay
from athe_tf.jobs.shard import Shard
from athe_tf.programs import evaluate as program
from athe_tf.programs import report as report_program
from athe_tf.programs.config import EvaluateConfig
from athe_tf.programs.report import ReportConfig
from athe_tf.programs.sharded import ShardFolder, ShardLost, wait_for_shards
from athe_tf.utils.errors import InputError
from tests.small_runs import tiny_batch, tiny_net
from tests.worker_processes import wait_for, workers

X, _ = tiny_batch(40)


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """A folder with a model and its data, and the flags of an evaluation of them."""
    folder = tmp_path_factory.mktemp("sharded")
    net = tiny_net("he", seed=2)
    net.save(folder / "net.keras")
    tiny_net("he", seed=3).save(folder / "other.keras")
    labels = np.asarray(net(X)).argmax(1)
    np.savez(folder / "data.npz", x_train=X, y_train=labels, x_test=X, y_test=labels)
    flags = [f"--model={folder / 'net.keras'}", f"--dataset=npz:{folder / 'data.npz'}", "--epsilon=0.06"]
    return folder, [*flags, "--attacks=fgsm,pgd-3x3", "--batch_size=8", "--worker_timeout=60"]


def call(monkeypatch, module, *flags):
    """The exit code of a program."""
    monkeypatch.setattr(sys, "argv", ["bin/program", *map(str, flags)])
    with pytest.raises(SystemExit) as stopped:
        module.main()
    return stopped.value.code


@pytest.fixture(scope="module")
def whole(case):
    """What one process writes."""
    out = case[0] / "whole"
    with pytest.MonkeyPatch.context() as patch:
        assert call(patch, program, *case[1], f"--output={out}") == 0
    return json.loads((out / "evaluation.json").read_text())


@pytest.fixture(scope="module")
def shards(case):
    """The folder of three finished shards, the second of which was interrupted and started again."""
    out = case[0] / "shards"
    flags = [*case[1], f"--output={out}"]
    with pytest.MonkeyPatch.context() as patch:
        for number in (1, 3):
            assert call(patch, program, *flags, f"--shard={number}/3") == 0
        calls = []

        def stop(self, progress):
            calls.append(progress)
            if len(calls) == 4:  # in the second attack
                raise KeyboardInterrupt

        with pytest.MonkeyPatch.context() as stopping:
            stopping.setattr(ProgressDisplay, "update", stop)
            assert call(stopping, program, *flags, "--shard=2/3") == 130
        assert not ShardFolder(out, Shard(2, 3)).finished
        assert call(patch, report_program, "--merge", out) == 2
        assert call(patch, program, *flags, "--shard=2/3") == 0
    return out


def comparable(stored):
    """Without times, without the command, which names the output, and without rounding errors.

    Clean images are in other batches of a shard, so the last digits of confidences and logits may differ.
    """

    def strip(value):
        if isinstance(value, dict):
            return {key: strip(item) for key, item in value.items() if key not in ("seconds", "command")}
        if isinstance(value, float):
            return round(value, 5)
        return [strip(item) for item in value] if isinstance(value, list) else value

    return strip(stored)


def test_three_shards_one_of_them_interrupted_are_one_evaluation(case, shards, whole, monkeypatch, capsys):
    assert not (shards / "evaluation.json").exists()
    assert call(monkeypatch, report_program, "--merge", shards) == 0
    merged = json.loads((shards / "evaluation.json").read_text())
    assert comparable(merged) == comparable(whole)
    assert merged["command"] == whole["command"].replace(str(case[0] / "whole"), str(shards))
    assert (shards / "report.html").exists() and "worst case" in capsys.readouterr().out
    assert all(ShardFolder(shards, shard).finished for shard in Shard(1, 3).all())  # they are kept


def test_two_workers_one_of_them_killed_are_one_evaluation(case, whole, tmp_path):
    """The first time, the second worker is killed, and the chief is not left waiting."""
    out = tmp_path / "out"
    flags = [*case[1][:-1], f"--output={out}", "--nochecks"]
    command = ("athe_tf.programs.evaluate", *flags, "--worker_timeout=3")
    second = ShardFolder(out, Shard(2, 2))
    with workers(command, tmp_path / "first") as processes:
        wait_for(second.sign, processes)
        processes.kill(1)
        code, told = processes.wait(0), processes.text(0)
    assert code == (138 if "No heartbeat from shard 2/2 (worker 127.0.0.1:" in told else 2), told
    assert "Traceback" not in told and not (out / "evaluation.json").exists()
    with workers((*command[:-1], "--worker_timeout=60"), tmp_path / "second") as processes:
        processes.succeed()
        assert "The first worker merges" in processes.text(1)
    merged = json.loads((out / "evaluation.json").read_text())
    for part in ("flags", "worst_case_accuracy", "worst_case_interval", "warnings", "per_class"):
        assert merged[part] == whole[part], part
    assert comparable(merged["attacks"]) == comparable(whole["attacks"])
    assert not list(out.glob("shard-*"))


def test_workers_wait_for_heartbeats(case, tmp_path):
    config = EvaluateConfig(model="m", output=str(tmp_path), worker_timeout=10.0)
    folders = [ShardFolder(tmp_path, shard) for shard in Shard(1, 2).all()]
    now = [0.0]

    def wait(each):
        def sleep(seconds):
            now[0] += 4.0
            each()

        wait_for_shards(folders, ("a:1", "b:1"), config, clock=lambda: now[0], sleep=sleep)

    with folders[0].held(config):
        folders[0].write(config, finished=True)
    with pytest.raises(InputError, match="Waited 10 s for shard 2/2 .worker b:1., but there is no heartbeat"):
        wait(lambda: None)
    assert now[0] < 20
    with folders[1].held(config):
        with pytest.raises(ShardLost, match="No heartbeat from shard 2/2 .worker b:1. for 10 s"):
            wait(lambda: None)
        lives = iter("abcdefgh")

        def live():
            folders[1].sign.write_text(next(lives, ""))
            if next(lives, None) is None:
                folders[1].write(config, finished=True)

        now[0] = 0.0
        wait(live)
        assert now[0] > 15  # longer than the timeout, since there were signs


@pytest.mark.parametrize("shard", ["9/8", "0/4", "x", "1", ""])
def test_a_shard_that_does_not_exist_ends_with_code_2(shard, case, tmp_path, monkeypatch, capsys):
    assert call(monkeypatch, program, *case[1], f"--output={tmp_path}", f"--shard={shard}") == 2
    assert "--shard must be the number of a shard, from 1" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"shard": "1/2"}, "without --output. Name the same --output for all shards"),
        ({"shard": "1/2", "output": "o", "distribution": "multi_worker"}, "Leave one of them out"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        EvaluateConfig(model="m", **settings)


def test_workers_without_a_shared_folder_are_refused(case, monkeypatch, capsys):
    both = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(both))
    assert call(monkeypatch, program, *case[1]) == 2
    assert "Name one that all workers share" in capsys.readouterr().err


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--seed=1", "--shard=2/3"], "Shard 1/3 in .* other settings: --seed=1 .there: 0.*Give all shards"),
        (["--attacks=fgsm", "--shard=2/3"], "--attacks=fgsm .there: fgsm,pgd-3x3"),
        (["--shard=2/4"], "shard of another division: shard-1-of-3. Expected shards of 4"),
    ],
)
def test_a_shard_of_another_evaluation_is_refused_at_once(flags, message, case, shards, monkeypatch, capsys):
    assert call(monkeypatch, program, *case[1], f"--output={shards}", *flags) == 2
    assert re.search(message, capsys.readouterr().err)


def edited(record, **changes):
    values = json.loads(record.read_text())
    values["config"] |= changes.pop("config", {})
    record.write_text(json.dumps(values | changes))


def spoil(kind, folder):
    """Makes shards that cannot be merged; returns what the message must say."""
    second = ShardFolder(folder, Shard(2, 3))
    if kind == "missing":
        shutil.rmtree(second.folder)
        return "Shards are missing in .*: shard-2-of-3. Run them"
    if kind == "unfinished":
        edited(second.record, finished=False)
        return "Shard 2/3 in .* is not finished. Give its command again"
    if kind == "settings":
        edited(second.record, config={"seed": 1})
        return "Shard 1/3 and shard 2/3 are of different evaluations: --seed=0 .there: 1"
    if kind == "version":
        edited(second.record, athe_tf="0.0.0")
        return "another version of athe_tf. Expected: .* Received: 0.0.0. Use one version"
    if kind == "model":
        other = folder.parent / "other.keras"
        for number in (1, 2, 3):
            edited(ShardFolder(folder, Shard(number, 3)).record, config={"model": str(other)})
        return "belongs to another evaluation. Received: model='[0-9a-f]+' .in the file"
    if kind == "module":
        edited(ShardFolder(folder, Shard(1, 3)).record, config={"attacks": ["os:system"]})
        return "they name modules, which are not imported from a file: .'os:system'"
    if kind == "not a shard":
        second.record.unlink()
        return "shard-2-of-3' is not a shard of an evaluation: it has no shard.json"
    if kind == "divisions":
        (folder / "shard-1-of-2").mkdir()
        return "shards of several divisions: shard-1-of-2, shard-1-of-3"
    if kind == "swapped":
        for path in ShardFolder(folder, Shard(1, 3)).state.iterdir():
            shutil.copy(path, second.state / path.name)
        return "shard='2/3' .in the file: '1/3'"
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return "There are no shards in .* Expected folders such as shard-1-of-8"


@pytest.mark.parametrize(
    "kind",
    [
        *("missing", "unfinished", "settings", "version", "model"),
        *("module", "swapped", "divisions", "empty", "not a shard"),
    ],
)
def test_shards_that_do_not_belong_together_are_not_merged(kind, case, shards, monkeypatch, capsys):
    folder = case[0] / "spoiled"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(shards, folder)
    message = spoil(kind, folder)
    (folder / "evaluation.json").unlink(missing_ok=True)
    assert call(monkeypatch, report_program, "--merge", folder) == 2
    told = capsys.readouterr().err
    assert re.search(message, told), told
    assert not (folder / "evaluation.json").exists()


def test_a_merge_is_told_the_folder_of_the_shards(shards, monkeypatch, capsys):
    assert call(monkeypatch, report_program, "--merge", shards / "shard-1-of-3") == 2
    assert "Name the folder that contains this shard" in capsys.readouterr().err
    with pytest.raises(InputError, match="--merge takes one folder"):
        ReportConfig(folders=("a", "b"), merge=True)


def test_a_shard_is_attacked_by_one_process_at_a_time(tmp_path):
    config = EvaluateConfig(model="m", output=str(tmp_path), shard="1/2")
    one = ShardFolder(tmp_path, Shard(1, 2))
    with one.held(config), pytest.raises(InputError, match="in use by another process"), one.held(config):
        pass
    with one.held(dataclasses.replace(config, devices=("0",))):  # where it runs does not matter
        assert not one.finished
    assert not one.sign.exists()
