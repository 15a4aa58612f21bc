"""Defaults, identities and arithmetic of the programs, from files and numbers written down by hand.

Nothing here needs TensorFlow.
"""

import dataclasses
import types

import numpy as np
import pytest

from athe_tf.jobs.shard import Shard
from athe_tf.programs import evaluate
from athe_tf.programs.config import AnalyzeConfig, EvaluateConfig, TrainConfig
from athe_tf.programs.config.serialization import differences, flag_text
from athe_tf.programs.reproduce import minutes
from athe_tf.programs.reproduce_plan import PRESETS, ReproduceConfig, shortened
from athe_tf.programs.sharded import ShardFolder, found_shards
from athe_tf.programs.workdir import Workdir, default_workdir, flagfile, run_of
from athe_tf.results.intervals import mean_interval
from athe_tf.saving.names import find_model
from athe_tf.utils.errors import InputError
from benchmarks.results_tables import paired_interval

# The documented defaults; whoever changes one changes every command that leaves it out.
TRAINING = {
    "dataset": "digits", "augmentation": "pad_crop_flip", "extra_fraction": 0.7, "model": "small_cnn",
    "head": "linear", "scale": 15.0, "weight_norm": "differentiable", "framework": "pgd_at",
    "norm": "linf", "epsilon": 8 / 255, "restarts": 1, "logit_scale": "model", "optimizer": "sgd",
    "learning_rate": 0.1, "lr_schedule": "piecewise", "lr_drops": (75.0, 90.0), "lr_drop_factor": 0.1,
    "lr_resets": (), "momentum": 0.9, "nesterov": False, "weight_decay": 2e-4, "decay_variables": "all",
    "precision": "float32", "epochs": 100, "batch_size": 128, "ema": 0.0, "awp_gamma": 0.0,
    "label_smoothing": 0.0, "validation_attack": "pgd-10", "seed": 0, "backup_minutes": 10.0,
    "sync_batch_norm": True, "standardize": True, "ensemble": False, "epsilon_schedule": "constant",
}  # fmt: skip
EVALUATION = {
    "split": "test", "batch_size": 128, "seed": 0, "checks": True, "logit_scale": "model",
    "probabilities": False, "distribution": "auto", "cpu_replicas": 1, "worker_timeout": 300.0,
    "epsilon": None, "norm": None, "protocol": None, "attacks": (), "max_examples": None, "max_passes": None,
}  # fmt: skip
ANALYSIS = {
    "split": "test", "steps": 10, "max_examples": 256, "batch_size": 128, "seed": 0, "space": "weights",
    "index": 0, "top": 3, "output": "analysis",
}  # fmt: skip


@pytest.mark.parametrize(
    "config, expected",
    [
        (TrainConfig(), TRAINING),
        (EvaluateConfig(model="m"), EVALUATION),
        (AnalyzeConfig(model="m", what=("linearity",)), ANALYSIS),
        (ReproduceConfig(table="2"), {"preset": "mini", "seeds": (), "max_examples": None}),
    ],
    ids=["train", "evaluate", "analyze", "reproduce"],
)
def test_what_is_left_out_has_its_documented_value(config, expected):
    assert {name: getattr(config, name) for name in expected} == expected


def test_an_evaluation_without_a_run_is_within_8_of_255_in_linf():
    filled = evaluate.complete(EvaluateConfig(model="m:f", dataset="digits"), None)
    assert (filled.norm, filled.epsilon) == ("linf", 8 / 255)


def write_run(folder, **settings):
    folder.mkdir(parents=True, exist_ok=True)
    config = TrainConfig.from_flags(**settings)
    Workdir(folder).claim(config)
    return Workdir(folder)


def test_an_evaluation_takes_what_is_left_out_from_the_run(tmp_path):
    run = write_run(tmp_path / "run", norm="l2", epsilon=0.5, head="he", dataset="digits")
    filled = evaluate.complete(EvaluateConfig(model=str(run.folder)), run)
    assert (filled.dataset, filled.norm, filled.epsilon) == ("digits", "l2", 0.5)
    own = evaluate.complete(EvaluateConfig(model=str(run.folder), epsilon=0.25, norm="linf"), run)
    assert (own.norm, own.epsilon) == ("linf", 0.25)


def test_the_margin_of_a_run_is_its_own_or_that_of_its_head(tmp_path):
    # 0.2 for HE and 0.1 for m-HE, as in the HE paper.
    for head, margin in (("he", 0.2), ("mhe", 0.1), ("linear", 0.0)):
        run = write_run(tmp_path / head, head=head)
        assert run.recorded_settings()[0]["margin"] == margin
    assert write_run(tmp_path / "own", head="he", margin=0.05).recorded_settings()[0]["margin"] == 0.05


def test_a_run_is_finished_when_its_backup_is_gone(tmp_path):
    run = write_run(tmp_path / "run")
    assert not run.finished
    run.final.touch()
    assert run.finished
    run.backup.parent.mkdir()
    run.backup.touch()
    assert not run.finished


def test_the_model_of_a_run_is_that_of_its_best_epoch(tmp_path):
    run = write_run(tmp_path / "run")
    with pytest.raises(InputError, match="has no model yet"):
        find_model(run.folder)
    run.final.touch()
    assert find_model(run.folder) == run.final
    run.best.touch()
    assert find_model(run.folder) == run.best
    assert (run.best.name, run.final.name) == ("best.keras", "final.keras")
    assert run_of(run.best).folder == run_of(run.folder).folder == run.folder and run_of(tmp_path) is None


def test_only_settings_that_change_the_result_make_another_run():
    one = TrainConfig.from_flags(framework="trades", head="he")
    same = TrainConfig.from_flags(
        framework="trades", head="he", workdir="x", data_dir="y", backup_minutes=1.0, worker_timeout=1.0,
        distribution="one",
    )  # fmt: skip
    assert differences(one, same) == []
    changes = {
        "seed": 1, "epsilon": 0.1, "head": "mhe", "beta": 3.0, "batch_size": 64, "epochs": 3,
        "learning_rate": 0.2, "validation_attack": "fgsm", "weight_decay": 0.0, "scale": 10.0,
    }  # fmt: skip
    for name, value in changes.items():
        other = TrainConfig.from_flags(**{"framework": "trades", "head": "he", name: value})
        assert any(text.startswith(f"--{name}=") for text in differences(one, other)), name


def test_the_flags_of_a_run_repeat_it_elsewhere():
    config = TrainConfig.from_flags(workdir="runs/a", epsilon=8 / 255, lr_drops=(0.1 + 0.2, 7.0))
    lines = flagfile(config).splitlines()
    assert "--epsilon=8/255" in lines and "--lr_drops=0.30000000000000004,7" in lines
    assert not [line for line in lines if line.startswith("--workdir")]
    assert default_workdir(config) == "runs/digits_small-cnn_pgd-at_linear_seed0"


@pytest.mark.parametrize("value", [0.1 + 0.2, 1 / 3, 8 / 255, 1e-7, 0.05, 2.0])
def test_a_number_in_a_file_is_read_as_the_same_number(value):
    assert TrainConfig.from_flags(learning_rate=value).learning_rate == value
    numerator, _, denominator = flag_text(value).partition("/")
    assert float(numerator) / float(denominator or 1) == value
    assert flag_text((value, True)) == f"{flag_text(value)},true"


def test_a_mean_over_seeds_has_the_interval_of_student():
    # Mean 2, deviation 1 with n - 1, and 4.3027 is the 97.5% quantile of t with 2 degrees of freedom.
    half = 4.302652729911275 / 3**0.5
    assert mean_interval([1.0, 2.0, 3.0]) == pytest.approx((2 - half, 2 + half))
    with pytest.raises(InputError, match="needs at least two. Received: 1"):
        mean_interval([1.0])


def bits(text):
    return np.array([letter == "1" for letter in text])


def test_a_difference_on_the_same_images_has_a_paired_interval():
    one, other = bits("11110000"), bits("11000001")
    # Differences 0, 0, 1, 1, 0, 0, 0, -1: mean 1/8, sum of squares 3 - 8/64, over 7.
    half = 1.959963984540054 * ((3 - 1 / 8) / 7) ** 0.5 / 8**0.5
    assert paired_interval(one, other) == pytest.approx((1 / 8 - half, 1 / 8 + half))
    assert paired_interval(other, one) == pytest.approx((-1 / 8 - half, -1 / 8 + half))
    with pytest.raises(InputError, match="Expected the same images. Received: 8 and 7 flags"):
        paired_interval(one, other[:7])


def test_training_times_are_minutes_of_all_epochs_or_of_one(tmp_path):
    (tmp_path / "metrics.csv").write_text("epoch,seconds\n1,60\n2,180\n3,120\n")
    run = types.SimpleNamespace(folder=str(tmp_path))
    assert minutes(run, "minutes").value == 6.0 and minutes(run, "minutes_per_epoch").value == 2.0


def test_a_budget_shortens_everything_that_counts_epochs():
    recipe = TrainConfig.from_flags(epochs=200, lr_drops=(100.0, 150.0), lr_resets=(50.0,))
    assert shortened(recipe, 10) == {"lr_drops": (5.0, 7.5), "lr_resets": (2.0,)}
    averaged = TrainConfig.from_flags(epochs=200, early_stopping=30, lr_drops=(100.0,))
    assert shortened(averaged, 10)["lr_drops"] == (5.0,)
    mini = PRESETS["mini"]
    assert (mini.seeds, mini.max_examples, mini.batch_size, mini.epochs["cifar10"]) == (
        (0, 1, 2),
        500,
        128,
        10,
    )


def test_shards_are_told_by_the_names_of_their_folders(tmp_path):
    for name in (
        "shard-2-of-3",
        "shard-1-of-3",
        "shard-0-of-3",
        "shard-4-of-3",
        "shard-x-of-3",
        "shard-1-of-3x",
    ):
        (tmp_path / name).mkdir()
    (tmp_path / "shard-3-of-3").touch()
    assert [str(one.shard) for one in found_shards(tmp_path)] == ["1/3", "2/3"]


def test_a_shard_that_was_finished_stays_finished_when_its_command_is_given_again(tmp_path):
    config = EvaluateConfig(model="m", output=str(tmp_path))
    one = ShardFolder(tmp_path, Shard(1, 2))
    with one.held(config):
        assert not one.finished and one.sign.exists()
        one.write(config, True)
    assert one.finished and not one.sign.exists()
    with one.held(config):
        assert one.finished
    for changes in ({"seed": 1}, {"epsilon": 0.1}, {"attacks": ("fgsm",)}):
        with (
            pytest.raises(InputError, match="was started with other settings"),
            one.held(dataclasses.replace(config, **changes)),
        ):
            pass
    with (
        pytest.raises(InputError, match="a shard of another division"),
        ShardFolder(tmp_path, Shard(1, 3)).held(config),
    ):
        pass


def test_the_command_of_an_evaluation_names_every_setting_that_was_given():
    changed = {
        "model": "m", "split": "train", "attacks": ("fgsm",), "epsilon": 0.5, "norm": "l2", "seed": 3,
        "max_examples": 7, "max_passes": 9, "batch_size": 5, "checks": False, "margin": 0.1,
        "epsilons": (0.25,), "image_size": 8, "logit_scale": "2", "probabilities": True, "output": "out",
    }  # fmt: skip
    words = evaluate.repeat_command(EvaluateConfig(**changed)).split()
    given = dict(word.removeprefix("--").split("=") for word in words[1:])
    assert given == {name: flag_text(value) for name, value in changed.items()}
