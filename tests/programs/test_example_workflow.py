"""The workflow in `examples/`: its commands run, and end with the exit codes that CI needs."""

import json
import pathlib
import shlex
import subprocess
import sys

import keras
import numpy as np

import athe_tf

ROOT = pathlib.Path(__file__).resolve().parents[2]


def commands() -> list[list[str]]:
    """The command lines of athe_tf in the workflow."""
    text = (ROOT / "examples" / "robustness_gate.yml").read_text().replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip().startswith("athe-tf-")]
    return [shlex.split(line) for line in lines]


def run(command, cwd, *more):
    program = ROOT / "bin" / command[0].removeprefix("athe-tf-")
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "TF_CPP_MIN_LOG_LEVEL": "3"}
    return subprocess.run(
        [sys.executable, str(program), *command[1:], *more],
        capture_output=True, text=True, cwd=cwd, timeout=300, env=environment,
    )  # fmt: skip


def test_the_gate_passes_a_robust_model_and_stops_a_fragile_one(tmp_path):
    """The model compares two halves, which differ by far more than 2 epsilon, or by less."""
    (command,) = commands()
    model = keras.Sequential([
        keras.Input((4, 4, 1)), keras.layers.Flatten(),
        keras.layers.Dense(3, kernel_initializer=keras.initializers.Constant(np.array(
            [[1.0, 0.0, -1.0]] * 8 + [[0.0, 1.0, -1.0]] * 8)), bias_initializer="zeros"),
    ])  # fmt: skip
    model.save(tmp_path / "model.keras")
    y = np.arange(40) % 2
    for contrast, expected in ((0.5, 0), (0.02, 3)):
        half = np.where(y[:, None], [0.5, 0.5 + contrast], [0.5 + contrast, 0.5])
        x = np.repeat(half, 8, axis=1).reshape(-1, 4, 4, 1).astype("float32")
        np.savez(tmp_path / "test.npz", x_test=x, y_test=y, x_train=x, y_train=y)
        shipped = athe_tf.evaluate(
            model, x, y, attacks=["pgd-20", "square-200"], checks=False, dataset="npz:test.npz (test)"
        )
        shipped.save(tmp_path / "shipped")
        done = run([one for one in command if one != "--require=checks"], tmp_path, "--nochecks")
        assert done.returncode == expected, done.stderr + done.stdout
        outcome = json.loads((tmp_path / "evaluation" / "requirements.sarif").read_text())
        assert len(outcome["runs"][0]["results"]) == (0 if expected == 0 else 1)
        assert (tmp_path / "evaluation" / "requirements.xml").exists()
