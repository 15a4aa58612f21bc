"""A framework with options of its own, in one file outside the package."""

import contextlib
import json
import re
import sys

import pytest

from athe_tf import report
from athe_tf.programs.config import TrainConfig
from athe_tf.programs.train import PROGRAM
from athe_tf.programs.workdir import Workdir
from athe_tf.utils.errors import InputError
from tests.report_case import small_evaluation, write_evaluation
from tests.warm_processes import run_program

MODULE = """
import dataclasses

from athe_tf import training
from athe_tf.utils.options import option


@dataclasses.dataclass(frozen=True)
class MyOptions(training.FrameworkOptions):
    name = "mine"
    my_option: float = option(1.0, "How much of it.", gt=0)
    flavor: str = option("sweet", "Which one.", choices=("sweet", "sour"))


class MyFramework(training.AdversarialModel):
    options_class = MyOptions

    def training_loss(self, x, x_adv, y):
        logits = self.net(x_adv, training=True)
        losses = self.options.my_option * self.crossentropy(y, logits)
        return training.Terms(losses, adversarial_logits=logits)

    def loss_passes(self):
        return training.Cost(1, 1, 1)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "my_module.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("my_module", None)


def test_it_trains_from_the_command_line(folder):
    flags = ["--framework=my_module:MyFramework", "--my_option=2", "--steps=1", "--epochs=1", "--workdir=run"]
    done = run_program("train", *flags, "--lr_drops=", "--validation_attack=pgd-1", folder=folder)
    assert done.returncode == 0, done.stderr
    config = json.loads((folder / "run" / "config.json").read_text())
    assert config["options"] == {"my_option": 2.0, "flavor": "sweet"}
    assert "--my_option=2\n" in (folder / "run" / "flags.txt").read_text()
    again = run_program("train", "--flagfile=run/flags.txt", "--workdir=run", folder=folder)
    assert again.returncode == 0 and "is finished" in again.stdout


def test_its_options_are_in_the_help(folder):
    text = PROGRAM.manual(["bin/train", "--framework=my_module:MyFramework", "--help"])
    assert re.search(r"--my_option\n +Option of my_module:MyFramework. How much of it. \[1\]", text)
    assert "--flavor" in text and "--beta" in text


@pytest.mark.parametrize("option, value", [("my_option", -2.0), ("flavor", "bitter")])
def test_a_bad_value_is_refused_with_the_same_words_in_python(folder, option, value):
    with pytest.raises(InputError) as by_flag:
        PROGRAM.read(["bin/train", "--framework=my_module:MyFramework", f"--{option}={value}"])
    from my_module import MyFramework

    from tests.small_runs import tiny_net

    with pytest.raises(InputError) as in_python:
        MyFramework(tiny_net(), **{option: value})
    assert str(by_flag.value) == str(in_python.value) and option in str(by_flag.value)


def test_a_module_that_is_not_there_is_named(folder):
    with pytest.raises(InputError, match="Cannot import the framework 'nowhere:Mine'"):
        PROGRAM.read(["bin/train", "--framework=nowhere:Mine"])


def test_a_module_that_only_a_file_names_is_not_imported(folder):
    (folder / "evil.py").write_text("open('executed', 'w').close()")
    run = Workdir(folder / "run")
    run.claim(TrainConfig())
    stored = json.loads(run.config.read_text()) | {"framework": "evil:Evil", "options": {}}
    run.config.write_text(json.dumps(stored))
    with pytest.raises(InputError, match="'evil:Evil', which is imported only if --framework names it"):
        run.check_free(TrainConfig())
    assert run.recorded_settings()[0]["dataset"] == "digits"
    assert not (folder / "executed").exists()


def test_no_reader_imports_a_module_that_only_a_file_names(folder):
    (folder / "evil.py").write_text("open('executed', 'w').close()")
    run = Workdir(folder / "run")
    run.claim(TrainConfig())
    harmful = dict.fromkeys(("model", "augmentation", "validation_attack"), "evil:Evil")
    run.config.write_text(json.dumps(json.loads(run.config.read_text()) | harmful))
    run.recorded_settings()
    with contextlib.suppress(InputError):
        run.check_free(TrainConfig())
    evaluation = small_evaluation(model="evil:Evil")
    evaluation["attacks"][0]["name"] = "evil:Evil"
    shown = json.loads(run.config.read_text()) | {"framework": "evil:Evil"}
    write_evaluation(folder / "one", evaluation, config=shown)
    write_evaluation(folder / "two", small_evaluation(), config=shown)
    report.write(folder / "one")
    report.write_comparison([folder / "one", folder / "two"], folder / "both.html")
    assert "evil:Evil" in (folder / "one" / "evaluation" / "report.html").read_text()
    assert "evil" not in sys.modules and not (folder / "executed").exists()
