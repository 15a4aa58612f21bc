"""A run that is killed and started again ends as if nothing had happened."""

import csv
import dataclasses
import json
import os
import shutil
import signal

import keras
import numpy as np
import pytest

from athe_tf.data import ImageSet, MixedSet, load, with_extra
from athe_tf.distribution import Distribution
from athe_tf.jobs.locks import LOCK, lock_name, locked
from athe_tf.programs import run
from athe_tf.programs.callbacks import BestKeeper, OverfittingGuard
from athe_tf.programs.conditions import worker_facts
from athe_tf.programs.config import TrainConfig
from athe_tf.programs.interruption import INTERRUPTION
from athe_tf.programs.run import train
from athe_tf.programs.run_state import RunProgress, check_identity, load_state, run_identity, save_state
from athe_tf.programs.train import action
from athe_tf.programs.workdir import Workdir, flagfile
from athe_tf.training.options import FRAMEWORKS
from athe_tf.training.pgd_at import Standard
from athe_tf.utils.errors import InputError
from athe_tf.version import __version__
from tests.small_runs import (
    ADAMW,
    BY_ADAM,
    CYCLE,
    RISING,
    after_step,
    assert_equal_weights,
    get_weights,
    photographed,
    small_cnn_of_one_layer,
    tiny_batch,
    tiny_net,
    tiny_splits,
)
from tests.warm_processes import exit_code_of
from tests.worker_processes import Processes, wait_for

# Every framework, and beside it what else must survive a kill. Four steps an epoch, three epochs.
CASES: dict[str, dict] = {
    "standard": {"framework": "standard"},
    "pgd_at": {"framework": "pgd_at", "steps": 2},
    "alp, one cycle in parts": {"framework": "alp", "steps": 2, **CYCLE},
    "trades": {"framework": "trades", "steps": 2},
    "trades, mixed, attack by Adam": {
        "framework": "trades", "steps": 2, "cutmix": 1.0, "attack_from": "label", **BY_ADAM,
    },
    "free_at, one cycle in parts": {"framework": "free_at", "replays": 2, **CYCLE},
    "fast_at, rising step": {"framework": "fast_at", **RISING},
    "n_fgsm, extra data, mixed": {
        "framework": "n_fgsm", "extra_fraction": 0.25, "mixup": 0.8, "cutmix": 1.0, "attack_smoothing": 0.1,
    },
    "liet": {"framework": "liet", "refresh": 3, "guard_drop": 0.0},
    "mart, perturbed weights, average over epochs": {
        "framework": "mart", "steps": 1, "awp_gamma": 0.01, "awp_start": 1.0, "swa_start": 1,
    },
    "llr, rising epsilon, resets": {
        "framework": "llr", "steps": 1, "epsilon_schedule": "cosine", "lr_resets": (2.0,),
    },
    "cure, warm-up, adamw": {
        "framework": "cure", "epsilon_schedule": "linear", "epsilon_warmup": 1.5, **ADAMW,
    },
    "gradalign, extra data, average over steps": {
        "framework": "gradalign", "guard_drop": 0.0, "ema": 0.9, "extra_fraction": 0.25,
    },
}  # fmt: skip


def quiet(*args, **kwargs):
    pass


@pytest.fixture(autouse=True)
def no_export(monkeypatch):
    """The export at the end of a run is tested elsewhere, and would be a fifth of the time here."""
    monkeypatch.setattr(run, "export", quiet)


def settings(case, workdir, **changes):
    base = {
        "epsilon": 0.1, "epochs": 3, "batch_size": 16, "learning_rate": 0.05, "lr_drops": (1.5,),
        "validation_attack": "pgd-1", "augmentation": "pad_crop", "backup_minutes": 0.0, "head": "he",
    }  # fmt: skip
    if "extra_fraction" in CASES[case]:
        base["extra_data"] = str(workdir.parent / "extra.npz")
        images, labels = tiny_batch(20, seed=1)
        np.savez(base["extra_data"], image=images, label=labels)
    return TrainConfig.from_flags(**base | CASES[case] | changes, workdir=str(workdir))


def train_tiny(config):
    """A run of the programs, without their output."""
    splits = tiny_splits()
    if config.extra_data is not None:
        splits = with_extra(splits, config.extra_data, config.extra_fraction)
    with small_cnn_of_one_layer():
        return train(config, splits, Workdir(config.workdir), write=quiet)


def die_in_step(number, config):
    """Trains until SIGKILL ends this process, right after a step."""
    run.export = quiet
    with after_step(number, lambda: os.kill(os.getpid(), signal.SIGKILL)):
        train_tiny(config)


def kill_in_step(number, config):
    assert exit_code_of(die_in_step, number, config) == -signal.SIGKILL


def assert_same_run(straight, resumed, folders):
    assert_equal_weights(get_weights(straight.net), get_weights(resumed.net))
    assert_equal_weights(get_weights(straight.shipped), get_weights(resumed.shipped))
    for folder in folders:
        final = keras.models.load_model(Workdir(folder).final, compile=False)
        assert_equal_weights(get_weights(straight.shipped), get_weights(final))
    rows = [Workdir(folder).metrics.read_text().splitlines() for folder in folders]
    for one, other in zip(*rows, strict=True):  # all but the seconds
        assert one.rsplit(",", 1)[0] == other.rsplit(",", 1)[0]
    assert len(rows[0]) == 1 + 3


def test_every_framework_is_killed_here():
    assert {options["framework"] for options in CASES.values()} == set(FRAMEWORKS)


@pytest.mark.parametrize("case", CASES)
def test_a_killed_run_resumes_and_ends_with_the_same_weights_bit_for_bit(case, tmp_path):
    killed = settings(case, tmp_path / "killed")
    kill_in_step(6, killed)  # the second of the second epoch
    workdir = Workdir(killed.workdir)
    assert workdir.backup.exists() and not workdir.finished
    resumed = train_tiny(killed)
    straight = train_tiny(settings(case, tmp_path / "straight"))
    assert int(resumed.optimizer.iterations) == 12 * CASES[case].get("replays", 1)
    assert_same_run(straight, resumed, [tmp_path / "straight", tmp_path / "killed"])


def stop_in_step(number, config, signal_number):
    """Trains until a signal arrives after a step; exits as the program does."""
    run.export = quiet
    with INTERRUPTION.handled("bin/train"):
        try:
            with after_step(number, lambda: os.kill(os.getpid(), signal_number)):
                train_tiny(config)
        except KeyboardInterrupt as error:
            os._exit(INTERRUPTION.end(error))


# The step after the signal is the last that is made: in the middle of an epoch, or the last of one.
@pytest.mark.parametrize("number, step, reached", [(signal.SIGINT, 5, (1, 2)), (signal.SIGTERM, 7, (2, 0))])
def test_a_signal_ends_a_run_with_a_backup_of_its_last_step(number, step, reached, tmp_path, straight_run):
    config = settings("trades", tmp_path / "stopped", backup_minutes=10.0)
    assert exit_code_of(stop_in_step, step, config, number) == 128 + number
    workdir = Workdir(config.workdir)
    with np.load(workdir.backup) as arrays:
        progress = json.loads(str(arrays["progress"]))
    assert (progress["epoch"], progress["step"]) == reached
    resumed = train_tiny(config)
    expected, folder = straight_run
    assert_same_run(expected, resumed, [folder, tmp_path / "stopped"])


@pytest.fixture(scope="module")
def straight_run(tmp_path_factory):
    """A run of TRADES without interruption, and its folder."""
    folder = tmp_path_factory.mktemp("straight") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "export", quiet)
        return train_tiny(settings("trades", folder)), folder


def test_a_run_can_be_interrupted_at_any_step(tmp_path):
    straight = settings("trades", tmp_path / "straight")
    # The first step, the last of an epoch, the first of the next.
    copies = {step: tmp_path / f"stopped_{step}" for step in (1, 4, 5)}
    with photographed(straight.workdir, copies):
        expected = train_tiny(straight)
    for folder in copies.values():
        resumed = train_tiny(settings("trades", folder))
        assert_same_run(expected, resumed, [tmp_path / "straight", folder])


@pytest.mark.parametrize("lr_schedule, epochs", [("piecewise", 2), ("constant", 1)])
def test_a_run_that_is_lengthened_is_the_run_that_had_all_epochs_from_the_start(
    lr_schedule, epochs, tmp_path
):
    """From a backup of the shorter run's last step; the rate drops again in an epoch that is added."""
    changes = {"lr_schedule": lr_schedule, "lr_drops": (0.5, 2.5) if lr_schedule == "piecewise" else ()}
    copies = {4 * epochs: tmp_path / "longer"}
    with photographed(tmp_path / "short", copies):
        train_tiny(settings("trades", tmp_path / "short", epochs=epochs, **changes))
    straight, resumed = (
        train_tiny(settings("trades", tmp_path / name, **changes)) for name in ("straight", "longer")
    )
    assert_same_run(straight, resumed, [tmp_path / "straight", tmp_path / "longer"])


@pytest.mark.parametrize(
    "case, changes, reason",
    [
        (
            "trades",
            {"lr_schedule": "cosine", "lr_drops": ()},
            "--lr_schedule=cosine ends with the last epoch",
        ),
        ("trades", {"epsilon_schedule": "linear"}, "--epsilon_schedule=linear depends on"),
    ],
)
def test_a_run_that_cannot_be_lengthened_says_why(case, changes, reason, tmp_path):
    workdir = Workdir(tmp_path / "run")
    workdir.claim(settings(case, workdir.folder, **changes))
    with pytest.raises(InputError, match=f"cannot be lengthened: {reason}"):
        workdir.check_free(settings(case, workdir.folder, epochs=4, **changes))
    with pytest.raises(InputError, match="contains another run. Different settings: --epochs=2"):
        workdir.check_free(settings(case, workdir.folder, epochs=2, **changes))


def test_a_finished_run_is_not_lengthened(tmp_path):
    workdir = Workdir(tmp_path / "run")
    workdir.claim(settings("standard", workdir.folder))
    workdir.final.touch()
    with pytest.raises(InputError, match="it is finished, and the state of its optimizer was removed"):
        workdir.check_free(settings("standard", workdir.folder, epochs=4))


def test_the_program_can_be_killed_at_any_moment(tmp_path):
    """Not after a step, but whenever the signal comes; and the same command goes on."""
    config = TrainConfig.from_flags(
        dataset="digits", head="he", framework="trades", steps=2, epsilon=0.1, epochs=2, batch_size=256,
        learning_rate=0.05, lr_drops=(1.0,), validation_attack="pgd-2", backup_minutes=0.0,
        workdir=str(tmp_path / "killed"),
    )  # fmt: skip
    workdir, flags = Workdir(config.workdir), flagfile(config).split()
    command = ("tests.tiny_train", *flags, f"--workdir={config.workdir}")
    with Processes([command], tmp_path / "first") as first:
        wait_for(workdir.backup, first)
        first.kill(0)
    assert not workdir.finished
    with Processes([command], tmp_path / "second") as second:
        second.succeed()
        assert "Resuming" in second.text(0)
    straight = dataclasses.replace(config, workdir=str(tmp_path / "straight"))
    with small_cnn_of_one_layer():
        trainer = train(straight, load("digits"), Workdir(straight.workdir), write=quiet)
    assert_equal_weights(get_weights(trainer.net), final_weights(config.workdir))


def final_weights(workdir):
    return get_weights(keras.models.load_model(Workdir(workdir).final, compile=False))


def test_the_backup_is_gone_when_the_run_is_finished_and_a_second_call_does_nothing(tmp_path, capsys):
    config = settings("standard", tmp_path / "run", epochs=1)
    train_tiny(config)
    workdir = Workdir(config.workdir)
    assert workdir.finished and not workdir.backup.exists()
    before = workdir.final.stat().st_mtime_ns

    action(config, {"plan": False})
    assert "is finished" in capsys.readouterr().out
    assert workdir.final.stat().st_mtime_ns == before


def test_a_second_call_removes_what_a_failing_disk_kept_at_the_end(tmp_path, capsys):
    config = settings("standard", tmp_path / "run", epochs=1)
    train_tiny(config)
    workdir = Workdir(config.workdir)
    complete = {path: path.read_bytes() for path in workdir.folder.rglob("*") if path.is_file()}
    workdir.previous_epoch.parent.mkdir()
    locks = (workdir.folder / LOCK, workdir.folder / lock_name("saved_model"))
    np.savez(workdir.previous_epoch, v00000=np.zeros(1))
    for path in locks:
        path.touch()

    action(config, {"plan": False})
    assert "is finished" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in workdir.folder.rglob("*") if path.is_file()} == complete
    assert not workdir.previous_epoch.parent.exists()

    # While somebody else holds the folder, it is left alone.
    workdir.previous_epoch.parent.mkdir()
    with locked(workdir.folder):
        action(config, {"plan": False})
    assert "is finished" in capsys.readouterr().out and workdir.previous_epoch.parent.exists()


def test_files_of_the_user_beside_the_backup_survive_the_end_of_a_run_and_a_second_call(tmp_path, capsys):
    config = settings("standard", tmp_path / "run", epochs=1)
    mine = Workdir(config.workdir).backup.parent / "thesis.tex"
    others = mine.with_name("old") / "state.npz"
    Workdir(config.workdir).claim(config)
    listing = Workdir(config.workdir).files
    for path in (mine, others, listing):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("my only copy")
    train_tiny(config)
    assert sorted(mine.parent.rglob("*")) == [others.parent, others, mine]
    # Also if it has the name of one of ours.
    namesake = Workdir(config.workdir).previous_epoch
    np.savez(namesake, x=np.zeros(1))
    action(config, {"plan": False})
    assert "is finished" in capsys.readouterr().out
    assert sorted(mine.parent.rglob("*")) == [others.parent, others, namesake, mine]
    with pytest.raises(InputError, match="exists, and athe_tf did not write it"):
        OverfittingGuard((None, None), None, 0.2, namesake, RunProgress())
    assert mine.read_text() == others.read_text() == listing.read_text() == "my only copy"


def test_the_best_model_is_never_overwritten_by_a_worse_one(tmp_path):
    path = tmp_path / "best.keras"
    keeper = BestKeeper(path, RunProgress())
    keeper.set_model(tiny_net())
    keeper.on_epoch_end(0, {"val_robust_accuracy": 0.5})
    kept = path.read_bytes()
    # A new process that lost its backup knows nothing but the files.
    restarted = BestKeeper(path, RunProgress())
    restarted.set_model(tiny_net(seed=1))
    restarted.on_train_begin()
    restarted.on_epoch_end(0, {"val_robust_accuracy": 0.4})
    assert path.read_bytes() == kept
    restarted.on_epoch_end(1, {"val_robust_accuracy": 0.6})
    assert path.read_bytes() != kept
    assert json.loads(path.with_suffix(".json").read_text()) == {"value": 0.6, "epoch": 2, "ties": "last"}


@pytest.mark.parametrize(("images", "noted"), [(30, True), (199, True), (200, False), (None, False)])
def test_an_epoch_that_was_chosen_on_few_images_has_a_note(tmp_path, images, noted):
    keeper = BestKeeper(tmp_path / "best.keras", RunProgress(), images=images)
    keeper.set_model(tiny_net())
    keeper.on_epoch_end(0, {"val_robust_accuracy": 0.5})
    note = json.loads((tmp_path / "best.json").read_text()).get("note", "")
    assert bool(note) == noted and (not noted or f"Chosen on {images} validation images only" in note)


def test_the_later_of_equal_epochs_is_kept(tmp_path):
    path = tmp_path / "best.keras"
    keeper = BestKeeper(path, RunProgress())
    keeper.set_model(tiny_net())
    keeper.on_epoch_end(0, {"val_robust_accuracy": 0.5})
    first = path.read_bytes()
    keeper.set_model(tiny_net(seed=1))
    keeper.on_epoch_end(1, {"val_robust_accuracy": 0.5})
    assert path.read_bytes() != first
    assert (keeper.progress.best, keeper.progress.best_epoch) == (0.5, 2)
    assert json.loads(path.with_suffix(".json").read_text()) == {"value": 0.5, "epoch": 2, "ties": "last"}
    # A backup from before the tie knows the first of the two only; the file has the later one.
    restarted = BestKeeper(path, RunProgress(best=0.5, best_epoch=1))
    restarted.on_train_begin()
    assert restarted.progress.best_epoch == 2
    # A file that is older than the backup does not take the epoch back.
    later = BestKeeper(path, RunProgress(best=0.5, best_epoch=3))
    later.on_train_begin()
    assert later.progress.best_epoch == 3


@pytest.mark.parametrize(
    "text", ["", "[]", "5", "null", "{}", '{"value": 0.5}', '{"value": "a", "epoch": 1}']
)
def test_a_malformed_file_beside_the_best_model_is_named(tmp_path, text):
    (tmp_path / "best.keras").touch()
    (tmp_path / "best.json").write_text(text)
    with pytest.raises(InputError, match="best.json' cannot be read: .*Remove it; the backup contains both"):
        BestKeeper(tmp_path / "best.keras", RunProgress()).on_train_begin()


@pytest.mark.parametrize("case, chosen_by", [("standard", "clean"), ("pgd_at", "robust")])
def test_the_best_epoch_is_by_robust_accuracy_or_by_clean_accuracy_where_nothing_is_attacked(
    case, chosen_by, tmp_path
):
    config = settings(case, tmp_path / "run", epochs=2, batch_size=64, epsilon=0.2, seed=1)
    with small_cnn_of_one_layer():
        train(config, load("digits"), Workdir(config.workdir), write=quiet)
    rows = np.genfromtxt(Workdir(config.workdir).metrics, delimiter=",", names=True)
    clean, robust = rows["val_clean_accuracy"], rows["val_robust_accuracy"]
    assert clean.max() > robust.max()
    best = json.loads((tmp_path / "run" / "best.json").read_text())["value"]
    np.testing.assert_allclose(best, (clean if chosen_by == "clean" else robust).max(), atol=1e-6)


def test_state_round_trips_every_variable(tmp_path):
    trainer = train_tiny(settings("trades", tmp_path / "run", epochs=1))
    save_state(tmp_path / "s.npz", trainer, RunProgress(epoch=3, step=2, best=0.5, history=[{"loss": 1.0}]))
    metrics = [variable for metric in trainer.metrics for variable in metric.variables]
    everything = {id(v): v for v in (*trainer.variables, *trainer.optimizer.variables, *metrics)}.values()
    kept = [np.asarray(v).copy() for v in everything]
    for variable in everything:
        variable.assign(np.asarray(variable) + np.ones([], np.asarray(variable).dtype))
    progress = load_state(tmp_path / "s.npz", trainer)
    assert (progress.epoch, progress.step, progress.best) == (3, 2, 0.5)
    assert_equal_weights(kept, [np.asarray(v) for v in everything])


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory):
    """A run that was stopped after its second step."""
    folder = tmp_path_factory.mktemp("identity")
    config = settings("standard", folder / "straight")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "export", quiet)
        with photographed(config.workdir, {2: folder / "stopped"}):
            train_tiny(config)
    return folder / "stopped"


def other_image(part):
    images = part.images.copy()
    images[0, 0, 0, 0] ^= 1
    return ImageSet(images, part.labels)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            lambda s: {"train": other_image(s.train)},
            r"training images: 64 images.*in the backup: 64",
        ),
        (
            lambda s: {"train": ImageSet(s.train.images[:40], s.train.labels[:40])},
            "training images: 40 images",
        ),
        (lambda s: {"train": ImageSet(s.train.images, s.train.labels[::-1])}, "training images"),
        (lambda s: {"train": MixedSet(s.train, s.test, 0.25)}, "0.25 extra of 64 images"),
        (lambda s: {"validation": other_image(s.validation)}, "validation images"),
        (lambda s: {"validation": None}, "validation images: none"),
    ],
)
def test_a_run_is_not_resumed_on_other_data(interrupted, changes, message, tmp_path):
    shutil.copytree(interrupted, tmp_path / "run")
    config, splits = settings("standard", tmp_path / "run"), tiny_splits()
    with pytest.raises(InputError, match=message), small_cnn_of_one_layer():
        splits = dataclasses.replace(splits, **changes(splits))
        train(config, splits, Workdir(config.workdir), write=quiet)


def resumed_with(interrupted, folder, monkeypatch, change, **flags):
    """Resumes the run under other conditions; returns what was said, and the content of its config.json."""
    shutil.copytree(interrupted, folder)
    original, said = run.conditions, []
    monkeypatch.setattr(run, "conditions", lambda distribution: original(distribution) | change)
    config = settings("standard", folder, **flags)
    with small_cnn_of_one_layer():
        train(config, tiny_splits(), Workdir(folder), write=lambda text, **_: said.append(text))
    return said, json.loads((folder / "config.json").read_text())


NOT_EXACT = "The weights will not be bit-identical to those of an uninterrupted run."


@pytest.mark.parametrize(
    "change",
    [
        {"cores": 77},
        {"TF_NUM_INTRAOP_THREADS": "3"},
        {"TF_ENABLE_ONEDNN_OPTS": "0"},
        {"device": "Abacus"},
        {"version of tensorflow": "99.0"},
        {"version of athe_tf": "99.0"},
    ],
)
def test_a_run_that_is_resumed_elsewhere_goes_on_and_says_what_differs(
    interrupted, change, tmp_path, monkeypatch
):
    said, config = resumed_with(interrupted, tmp_path / "run", monkeypatch, change)
    ((name, value),) = change.items()
    (line,) = [text for text in said if NOT_EXACT in text]
    assert line.startswith(f"Resumed after epoch 0, step 2, under other conditions: {name} {value} (before: ")
    assert config["notes"] == [line]
    rows = list(csv.DictReader((tmp_path / "run" / "metrics.csv").open(newline="")))
    assert [row["notes"] for row in rows] == [line] * 3
    # The config is still that of the same run.
    Workdir(tmp_path / "run").check_free(settings("standard", tmp_path / "run"))


def test_exact_resume_refuses_other_conditions_and_unknown_ones(interrupted, tmp_path, monkeypatch):
    with pytest.raises(
        InputError, match=r"--exact_resume; cores 77 \(before: \d+\)\. Restore what has changed"
    ):
        resumed_with(interrupted, tmp_path / "run", monkeypatch, {"cores": 77}, exact_resume=True)
    assert "notes" not in json.loads((tmp_path / "run" / "config.json").read_text())
    forget_conditions(tmp_path / "run", {})
    with pytest.raises(InputError, match="the backup does not say on how many cores"):
        resumed_with(tmp_path / "run", tmp_path / "other", monkeypatch, {}, exact_resume=True)


def forget_conditions(folder, identity):
    """Makes a backup as older versions wrote it."""
    path = Workdir(folder).backup
    arrays = dict(np.load(path))
    progress = json.loads(str(arrays["progress"]))
    del progress["conditions"], progress["remarks"], arrays["format"]
    progress["identity"] |= identity
    np.savez(path, **arrays | {"progress": np.array(json.dumps(progress))})


@pytest.mark.parametrize("version, remarks", [(__version__, 0), ("0.0.1", 1)])
def test_a_backup_without_conditions_is_resumed_and_only_another_version_is_noted(
    interrupted, version, remarks, tmp_path, monkeypatch
):
    shutil.copytree(interrupted, tmp_path / "old")
    forget_conditions(tmp_path / "old", {"version of athe_tf": version})
    said, config = resumed_with(tmp_path / "old", tmp_path / "run", monkeypatch, {"cores": 77})
    assert len(config.get("notes", ())) == remarks == sum(NOT_EXACT in text for text in said)


def test_the_same_conditions_say_nothing_and_are_enough_for_an_exact_resume(
    interrupted, tmp_path, monkeypatch
):
    said, config = resumed_with(interrupted, tmp_path / "run", monkeypatch, {}, exact_resume=True)
    assert "notes" not in config and not any(NOT_EXACT in text for text in said)
    assert "notes" not in (tmp_path / "run" / "metrics.csv").read_text()


def test_a_backup_records_cores_threads_onednn_device_and_versions(interrupted, monkeypatch):
    stored = json.loads(str(np.load(Workdir(interrupted).backup)["progress"]))["conditions"]
    assert stored["cores"] == len(os.sched_getaffinity(0)) and stored["replicas"] == stored["workers"] == 1
    assert stored["TF_ENABLE_ONEDNN_OPTS"] == os.environ["TF_ENABLE_ONEDNN_OPTS"]
    assert stored["version of keras"] == keras.__version__ and stored["version of numpy"] == np.__version__
    assert {"device", "threads", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"} < stored.keys()
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "7")
    assert run.conditions(Distribution())["TF_NUM_INTRAOP_THREADS"] == "7"


def test_a_backup_of_another_format_is_refused(interrupted, tmp_path, monkeypatch):
    shutil.copytree(interrupted, tmp_path / "run")
    path = Workdir(tmp_path / "run").backup
    np.savez(path, **dict(np.load(path)) | {"format": np.array(99)})
    with pytest.raises(InputError, match="it has format 99, and this version of athe_tf reads 1"):
        train_tiny(settings("standard", tmp_path / "run"))


def test_an_initial_model_that_was_replaced_is_noticed(tmp_path):
    file = tmp_path / "first.keras"
    net = tiny_net()
    net.save(file)
    config = settings("standard", tmp_path / "run", initial_model=str(file))
    before = run_identity(config, tiny_splits())
    net.layers[-1].kernel.assign(2 * net.layers[-1].kernel)
    net.save(file)
    after = run_identity(config, tiny_splits())
    assert {name for name in before if before[name] != after[name]} == {"initial model"}


STORED = {"training images": "64", "initial model": "abc"}


def test_a_backup_is_resumed_only_with_what_it_was_made_with():
    check_identity(STORED, dict(STORED), "run")
    # The initial model is not needed any more; another one would be a mistake.
    check_identity(STORED, {name: STORED[name] for name in STORED if name != "initial model"}, "run")
    changes = ({"training images": "63"}, {"initial model": "abd"})
    for change in (*changes, {"validation images": "8"}):
        ((name, value),) = change.items()
        message = rf"{name}: {value} \(in the backup: {STORED.get(name, 'none')}\)"
        with pytest.raises(InputError, match=message):
            check_identity(STORED, STORED | change, "run")
    with pytest.raises(InputError, match="differences on another worker"):
        check_identity(STORED, dict(STORED), "run", stop=lambda changed: True)


def test_a_backup_with_variables_of_other_names_or_types_is_refused(tmp_path):
    trainer, other = tiny_trainer("sgd"), tiny_trainer("sgd")
    save_state(tmp_path / "s.npz", trainer, RunProgress())
    load_state(tmp_path / "s.npz", other)
    renamed = tiny_trainer("sgd", head="linear")
    with pytest.raises(InputError, match=r"Received: head/bias .*\(in the backup: "):
        load_state(tmp_path / "s.npz", renamed)
    with pytest.raises(InputError, match=r"another model, optimizer or version"):
        load_state(tmp_path / "s.npz", tiny_trainer("adam"))


def tiny_trainer(optimizer, head="he"):
    trainer = Standard(tiny_net(head))
    trainer.compile(optimizer)
    trainer.optimizer.build(trainer.net.trainable_variables)
    return trainer


def test_workers_compare_every_module_that_a_setting_names(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("my_framework_file", "my_attack_file"):
        (tmp_path / f"{name}.py").write_text(
            "from athe_tf.attacks import PGD\nfrom athe_tf.training import PGDAT\n"
        )
    settings = {"framework": "my_framework_file:PGDAT", "validation_attack": "my_attack_file:PGD(steps=2)"}
    config, splits = TrainConfig(**settings, dataset="digits"), tiny_splits()
    before = worker_facts(config, splits)
    (tmp_path / "my_attack_file.py").write_text("from athe_tf.attacks import BIM as PGD\n")
    after = worker_facts(config, splits)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"source file of --validation_attack"} and "source file of --framework" in before
