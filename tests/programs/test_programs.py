"""The programs as a user meets them: help, typos, impossible numbers, one run from end to end."""

import json
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

from tests.warm_processes import run_program

ROOT = pathlib.Path(__file__).resolve().parents[2]
DIGITS = "--flagfile=configs/digits_trades_he.flags"


def program(name, *flags, cwd=ROOT):
    command = [sys.executable, str(ROOT / "bin" / name), *flags]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=300)


def refused(name, *flags, by=program):
    """Runs a program that must refuse its input: code 2, one message, no traceback."""
    result = by(name, *flags)
    assert result.returncode == 2, result.stdout + result.stderr
    assert "Traceback" not in result.stderr and result.stdout == ""
    return result.stderr


# Nothing here needs TensorFlow: each is answered at once.
@pytest.mark.parametrize(
    "flags, message",
    [
        (["--framework=trade"], "Unknown framework 'trade'. Did you mean 'trades'"),
        (["--epsilom=0.1"], "Unknown flag 'epsilom'. Did you mean 'epsilon'"),
        (["--model=wrn-35-10"], "wrn-35-10.*(34|40)"),
        (["--head=hee"], "Did you mean 'he'"),
        (["--dataset=cifar1O"], "Did you mean 'cifar10'"),
        (["--epsilon=-1"], "--epsilon must be finite and not negative. Received: --epsilon=-1"),
        (["--epsilon=8"], "Did you mean --epsilon=8/255"),
        (["--epsilon=eight"], "Expected a number such as 0.031 or 8/255. Received: 'eight'"),
        (["--steps=0"], "needs at least one attack step"),
        (["--head=linear", "--margin=0.2"], "A margin needs a hypersphere head"),
        (["--learning_rate=0"], "--learning_rate must be a finite number larger than 0"),
        (["--batch_size=0"], "--batch_size must be a finite number larger than 0"),
        (["--lr_schedule=cosin"], "Did you mean 'cosine'"),
        (["--augmentation=flop"], "Did you mean 'flip'"),
        (["--dataset=npz:/nowhere/x.npz"], "nowhere"),
        (["--flagfile=configs/nothing.flags"], "no file and no recipe 'configs/nothing.flags'"),
        (["--epochs=1.5"], "flag --epochs=1.5: Expected a whole number such as 3"),
        ([f"--seed={10**30}"], "Expected a whole number of at most 64 bits"),
        ([f"--seed={2**31}"], re.escape("--seed must lie in [0, 2147483648). Received: --seed=2147483648")),
        (["--nosync_batchnorm"], "Did you mean 'nosync_batch_norm'"),
        (["--initial_model=runs/nothing"], "There is no model at 'runs/nothing'"),
        (["--initial_model="], "a .keras file or from a run. Received: ''"),
        (["--initial_model=README.md"], "Received: 'README.md'. Give the folder of the run"),
        (["epochs=3"], "Unexpected argument 'epochs=3'"),
    ],
)
def test_train_refuses_bad_input_before_tensorflow_starts(flags, message, tmp_path):
    error = refused("train", DIGITS, f"--workdir={tmp_path / 'run'}", *flags)
    assert re.search(message, error, re.DOTALL), error
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "flags, message",
    [
        ([], "Specify which model to evaluate"),
        (["--model=/nowhere/best.keras"], "There is no model at"),
        (["--model=README.md", "--dataset=digits"], "Expected a .keras file"),
        (["--model=x", "--attacks=pgd20"], "Unknown attack 'pgd20'. Did you mean 'pgd-20'"),
        (["--model=x", "--epsilon=8"], "Did you mean --epsilon=8/255"),
        (["--model=nosuchmodule:f", "--dataset=digits"], "Cannot import the model 'nosuchmodule:f'"),
    ],
)
def test_evaluate_refuses_bad_input(flags, message):
    error = refused("evaluate", *flags, by=run_program)
    assert re.search(message, error), error


def test_export_refuses_a_folder_that_exists(tmp_path):
    (tmp_path / "m.keras").write_bytes(b"x")
    error = refused("export", f"--model={tmp_path / 'm.keras'}", f"--output={tmp_path}")
    assert "exists already" in error


@pytest.mark.parametrize("name", ["train", "evaluate", "export"])
def test_helpshort_reads_like_a_manual(name):
    result = program(name, "--helpshort")
    assert result.returncode == 0
    assert result.stdout.startswith(f"bin/{name}: ") and "Examples:" in result.stdout
    assert "  --model\n" in result.stdout


@pytest.mark.parametrize(
    "archive, message",
    [
        ({"x_train": (20, 8, 8, 1)}, "y_train"),
        (
            {"x_train": (20, 8, 8, 1), "y_train": (19,), "x_test": (5, 8, 8, 1), "y_test": (5,)},
            "20.*19|19.*20",
        ),
    ],
)
def test_an_archive_that_does_not_fit_is_refused(archive, message, tmp_path):
    arrays = {
        key: np.zeros(shape, "uint8" if key.startswith("x") else "int64") for key, shape in archive.items()
    }
    np.savez(tmp_path / "d.npz", **arrays)
    flags = [f"--dataset=npz:{tmp_path / 'd.npz'}", f"--workdir={tmp_path / 'run'}"]
    error = refused("train", *flags, by=run_program)
    assert re.search(message, error, re.DOTALL), error


def test_a_data_set_that_is_not_there_says_what_to_do(tmp_path):
    flags = ["--dataset=cifar10", f"--data_dir={tmp_path / 'data'}", f"--workdir={tmp_path / 'run'}"]
    error = refused("train", *flags, by=run_program)
    assert "could not be downloaded" in error and "Give a prepared copy as `data_dir`" in error
    assert not (tmp_path / "run").exists()


def test_the_whole_way_once(tmp_path):
    run, out = tmp_path / "run", tmp_path / "evaluation"
    short = [DIGITS, "--epochs=2", "--lr_drops=1", "--batch_size=128", f"--workdir={run}"]
    trained = program("train", *short)
    assert trained.returncode == 0, trained.stderr
    assert trained.stderr == ""
    lines = [line for line in trained.stdout.splitlines() if line.startswith("epoch ")]
    assert len(lines) == 2 and "robust" in lines[0]
    for name in ("config.json", "flags.txt", "metrics.csv", "best.keras", "final.keras", "saved_model"):
        assert (run / name).exists(), name
    assert not (run / "backup").exists()

    evaluated = run_program("evaluate", f"--model={run}", "--attacks=fgsm,pgd-5", f"--output={out}")
    assert evaluated.returncode == 0, evaluated.stderr
    assert "worst case" in evaluated.stdout and "fgsm" in evaluated.stdout
    report = json.loads((out / "evaluation.json").read_text())
    config = json.loads((run / "config.json").read_text())
    assert report["epsilon"] == "0.2" and config["epsilon"] == 0.2 and report["dataset"].startswith("digits")

    exported = run_program("export", f"--model={run / 'best.keras'}", f"--output={tmp_path / 'export'}")
    assert exported.returncode == 0, exported.stderr
    again = run_program(
        "evaluate",
        f"--model={tmp_path / 'export'}",
        "--dataset=digits",
        f"--epsilon={config['epsilon']}",
        "--attacks=fgsm,pgd-5",
        "--nochecks",
        f"--output={tmp_path / 'again'}",
    )
    assert again.returncode == 0, again.stderr
    flags = json.loads((tmp_path / "again" / "evaluation.json").read_text())["flags"]
    assert flags == report["flags"]

    other = refused("train", *short, "--seed=1", by=run_program)
    assert "contains another run" in other and "--seed=1 (there: 0)" in other

    # The flags that the run wrote down are those of the run, which is finished.
    repeated = run_program("train", f"--flagfile={run / 'flags.txt'}", f"--workdir={run}")
    assert repeated.returncode == 0 and "is finished" in repeated.stdout, repeated.stderr


def test_plan_prints_costs_and_writes_nothing(tmp_path):
    planned = run_program("train", DIGITS, "--plan", f"--workdir={tmp_path / 'run'}")
    assert planned.returncode == 0, planned.stderr
    for word in ("steps:", "passes per step:", "seconds per step:", "total time:", "memory:"):
        assert word in planned.stdout
    assert not (tmp_path / "run").exists()


def test_a_loss_that_is_not_a_number_stops_the_run_and_keeps_the_backup(tmp_path):
    run = tmp_path / "run"
    flags = [DIGITS, "--learning_rate=1e30", "--epochs=3", "--lr_drops=2", "--backup_minutes=0"]
    error = refused_with_output("train", *flags, f"--workdir={run}")
    assert re.search(r"Training stopped at step \d+: .* is not a number", error), error
    with np.load(run / "backup" / "state.npz") as arrays:
        assert all(np.isfinite(arrays[k]).all() for k in arrays.files if k.startswith("v"))


def refused_with_output(name, *flags):
    result = run_program(name, *flags)
    assert result.returncode == 2 and "Traceback" not in result.stderr, result.stderr
    return result.stderr
