"""The way to ImageNet from end to end, on a few JPEG files and a small network."""

import json

import pytest

from tests.data.jpeg_folder import write_jpeg_folder
from tests.warm_processes import run_program

CONFIG = "--flagfile=configs/imagenet_free_at_he.flags"
SMALL = ("--image_size=48", "--resize_size=56", "--model=small_cnn", "--batch_size=4", "--epochs=1",
         "--replays=2", "--validation_size=2", "--validation_attack=fgsm")  # fmt: skip


@pytest.fixture(scope="module")
def jpegs(tmp_path_factory):
    root = tmp_path_factory.mktemp("jpegs")
    write_jpeg_folder(root, classes=3, train=4, test=2)
    return root


def test_free_at_with_he_trains_on_random_crops_and_is_evaluated_on_central_ones(jpegs, tmp_path):
    bad = jpegs / "train" / "n1" / "0.JPEG"
    content = bad.read_bytes()
    bad.write_bytes(content[:200])
    run, flags = tmp_path / "run", (CONFIG, f"--dataset=folder:{jpegs}", *SMALL)
    found = run_program("train", *flags, f"--workdir={run}", "--skip_corrupt")
    assert found.returncode == 0, found.stderr
    assert "bin/train: Left out 1 files" in found.stderr and str(bad) in found.stderr
    bad.write_bytes(content)
    settings = json.loads((run / "config.json").read_text())
    assert settings["resize_size"] == 56 and settings["augmentation"] == "random_resized_crop_flip"
    out = tmp_path / "out"
    own = (f"--model={run}", "--attacks=fgsm", "--nochecks", f"--output={out}")
    found = run_program("evaluate", *own)
    assert found.returncode == 2 and "and other data there" in found.stderr  # one file is not as it was
    found = run_program("evaluate", *own, f"--dataset=folder:{jpegs}")
    assert found.returncode == 0, found.stderr
    result = json.loads((out / "evaluation.json").read_text())
    assert result["examples"] == 6 and result["attacks"][0]["name"] == "fgsm"
    for classes in (2, 4):
        other = tmp_path / f"of_{classes}"
        write_jpeg_folder(other, classes=classes, train=1, test=1)
        found = run_program("evaluate", f"--model={run}", f"--dataset=folder:{other}")
        assert found.returncode == 2 and "has 3 classes, and " in found.stderr


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--image_size=48", "--resize_size=40"], "Received: --resize_size=40 --image_size=48"),
        (["--resize_size=40"], "Received: --resize_size=40 --image_size=None"),
        (["--skip_corrupt"], "--skip_corrupt is about files in folders"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(flags, message, tmp_path):
    found = run_program("train", "--dataset=digits", f"--workdir={tmp_path / 'run'}", *flags)
    assert found.returncode == 2 and message in found.stderr


def test_a_corrupt_file_ends_the_run_with_its_name(jpegs, tmp_path):
    bad = jpegs / "train" / "n2" / "1.JPEG"
    content = bad.read_bytes()
    bad.write_bytes(content[:200])
    flags = (CONFIG, f"--dataset=folder:{jpegs}", *SMALL, f"--workdir={tmp_path / 'run'}")
    found = run_program("train", *flags)
    bad.write_bytes(content)
    assert found.returncode == 2 and "n2/1.JPEG cannot be read, is not a PNG or JPEG image" in found.stderr
    assert "Traceback" not in found.stderr
