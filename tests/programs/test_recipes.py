"""Recipes by name, and what an installed program calls itself."""

import pathlib
import subprocess
import sys

import pytest

from athe_tf.programs import command_line, start
from athe_tf.programs.recipes import recipes, with_recipes
from athe_tf.programs.train import PROGRAM
from athe_tf.utils.errors import InputError

ROOT = pathlib.Path(__file__).parents[2]
DIGITS = str(ROOT / "configs" / "digits_trades_he.flags")


def test_every_config_is_a_recipe():
    assert {path.name for path in ROOT.glob("configs/*.flags")} == {path.name for path in recipes().values()}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--flagfile=digits_trades_he"],
        ["--flagfile=digits_trades_he.flags"],
        ["-flagfile=digits_trades_he"],
        ["--flagfile", "digits_trades_he"],
    ],
)
def test_a_name_stands_for_the_file_of_the_recipe(arguments):
    config, _ = PROGRAM.read(with_recipes(["bin/train", *arguments, "--beta=3"]))
    assert (config.framework, config.dataset, config.framework_options.beta) == ("trades", "digits", 3.0)


def test_a_file_of_that_name_wins(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits_trades_he").write_text("--epochs=2\n")
    assert with_recipes(["x", "--flagfile=digits_trades_he"]) == ["x", "--epochs=2"]
    assert with_recipes(["x", "flagfile=a", "--", "--flagfile=b"]) == [
        "x",
        "flagfile=a",
        "--",
        "--flagfile=b",
    ]


def test_a_file_may_include_others_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "mine.flags").write_text(
        "# Mine.\n--flagfile=parts/rate.flags\n--flagfile=digits_trades_he\n"
        "--flagfile=elsewhere\n--epochs=3\n"
    )
    (tmp_path / "here" / "parts").mkdir()
    (tmp_path / "here" / "parts" / "rate.flags").write_text("// Mine.\n--learning_rate=0.3\n\n")
    (tmp_path / "elsewhere").write_text("--momentum=0.5")
    found = with_recipes(["x", "--flagfile=here/mine.flags", "--beta=3"])
    assert found[:2] == ["x", "--learning_rate=0.3"] and found[-3:] == [
        "--momentum=0.5",
        "--epochs=3",
        "--beta=3",
    ]
    assert {"--framework=trades", "--head=he"} <= set(found) and not any("flagfile" in flag for flag in found)


@pytest.mark.parametrize(
    "text, message",
    [
        ("--flagfile=a.flags", "includes itself. Received: '.*a.flags'"),
        ("--flagfile=digits_trade_he", "no recipe 'digits_trade_he'.*such as digits_trades_he, "),
        ("--flagfile=.", "cannot be opened: Is a directory: '.'"),
    ],
)
def test_a_file_that_cannot_be_included_is_refused(text, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.flags").write_text(text)
    with pytest.raises(InputError, match=message):
        with_recipes(["bin/train", "--flagfile=a.flags"])


@pytest.mark.parametrize(
    "name, message",
    [
        ("digits_trade_he", "no recipe 'digits_trade_he'.*such as digits_trades_he, "),
        ("configs/digits_trades_he.flags", "Use the recipe of that name: --flagfile=digits_trades_he"),
        ("no/such.file", "no file and no recipe 'no/such.file'"),
    ],
)
def test_another_name_is_refused_with_the_nearest(name, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        with_recipes(["bin/train", f"--flagfile={name}"])


@pytest.mark.parametrize("started, expected", [("/opt/bin/athe-tf-train", "athe-tf-"), ("bin/train", "bin/")])
def test_programs_have_the_names_they_were_started_with(started, expected, monkeypatch):
    monkeypatch.setattr(sys, "argv", [started])
    text = "bin/train: it is for bin/evaluate. '/opt/bin/train' and --model=bin/train are files."
    found = command_line.with_program_names(text)
    assert found == (
        f"{expected}train: it is for {expected}evaluate. '/opt/bin/train' and --model=bin/train are files."
    )


# `import` is a word of Python, so its module has a longer name.
@pytest.mark.parametrize(
    "program",
    [name.removesuffix("_model") for name in vars(start) if callable(vars(start)[name]) and name[0] != "_"],
)
def test_every_installed_program_has_its_installed_name(program, monkeypatch):
    monkeypatch.setattr(sys, "argv", [f"/opt/bin/athe-tf-{program}"])
    assert command_line.with_program_names(f"bin/{program}: a message") == f"athe-tf-{program}: a message"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The package as `pip install` puts it somewhere."""
    folder = tmp_path_factory.mktemp("installed")
    base, lib = f"--egg-base={folder}", f"--build-lib={folder}"
    command = [sys.executable, "setup.py", "-q", "egg_info", base, "build_py", lib]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


def run_installed(folder, *arguments):
    code = (
        f"import sys; sys.path.insert(0, {str(folder)!r}); "
        f"sys.argv = ['athe-tf-train', *{list(arguments)!r}]; "
        "from athe_tf.programs import start; start.train()"
    )
    return subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)


def test_an_installed_package_has_the_recipes_and_names_itself(installed):
    recipes_there = installed / "athe_tf" / "recipes"
    have = {path.relative_to(recipes_there) for path in recipes_there.rglob("*")}
    assert have == {path.relative_to(ROOT / "configs") for path in ROOT.glob("configs/**/*")}
    shown = run_installed(installed, "--helpshort").stdout
    assert "athe-tf-train --flagfile=digits_trades_he --workdir" in shown and "bin/" not in shown
    assert run_installed(installed, "--version").stdout.startswith("athe-tf-train: athe_tf ")
    refused = run_installed(installed, "--flagfile=digits_trades_he", "--epochs=0")
    assert refused.returncode == 2 and refused.stderr.startswith("athe-tf-train: --epochs must be")
