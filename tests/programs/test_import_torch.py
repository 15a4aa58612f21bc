"""`bin/import` of checkpoints: to a .keras file, or to a message and exit code 2."""

import json
import re

import numpy as np
import pytest

import athe_tf
from athe_tf.conversion.torch_checkpoint import write_safetensors
from tests.models.torch_networks import FILE, images, seeded_state
from tests.warm_processes import run_program

SHAPES = {key: stored["tensors"] for key, stored in json.loads(FILE.read_text()).items()}


@pytest.fixture
def checkpoint(tmp_path):
    write_safetensors(tmp_path / "at_he.safetensors", seeded_state(SHAPES["AT_HE"]))
    return tmp_path / "at_he.safetensors"


def import_torch(checkpoint, arch, *flags, program="import_model"):
    output = checkpoint.parent / "net.keras"
    flags = [f"--checkpoint={checkpoint}", f"--arch={arch}", f"--output={output}", *flags]
    return run_program(program, *flags), output


def test_a_release_with_raw_cosines_is_imported_and_the_scale_is_asked_for(checkpoint):
    result, output = import_torch(checkpoint, "wrn-10-2")
    assert result.returncode == 0, result.stderr
    assert "Head: he, 10 classes." in result.stdout and "mean 0.4914, 0.4822, 0.4465" in result.stdout
    assert "plain cosines" in result.stderr and "--scale=15" in result.stderr
    logits = athe_tf.load_model(output)(images((32, 32, 3)))
    expected = json.loads(FILE.read_text())["AT_HE"]["logits"]
    np.testing.assert_allclose(logits, expected, atol=1e-4)


def test_the_scale_mends_the_remark(checkpoint):
    result, output = import_torch(checkpoint, "wrn-10-2", "--scale=15", program="import_torch")
    assert result.returncode == 0 and result.stderr == "" and "is bin/import now" in result.stdout
    assert athe_tf.load_model(output).get_layer("head").scale == 15


@pytest.mark.parametrize(
    ("arch", "flags", "message"),
    [
        ("wrn-16-2", [], "does not fit 'wrn-16-2'.*fit 'wrn-10-2'"),
        ("wrn-10", [], "Unknown model 'wrn-10'"),
        ("wrn-10-2", ["--head=linear"], "no 'fc.bias'"),
        ("wrn-10-2", ["--mean=0.5"], "--mean and --std go together"),
        ("wrn-10-2", ["--output=net.h5"], "must end with .keras"),
        ("wrn-10-2", ["--checkpoint=nothing.pt"], "There is no file 'nothing.pt'"),
        ("wrn-10-2", ["--scale=0"], "--scale must be a finite number larger than 0"),
    ],
)
def test_bad_input_is_refused(arch, flags, message, checkpoint):
    result, output = import_torch(checkpoint, arch, *flags)
    assert result.returncode == 2 and "Traceback" not in result.stderr
    assert re.search(message, result.stderr), result.stderr
    assert not output.exists()
