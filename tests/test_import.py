"""`import athe_tf` is instant, and the public names are visible."""

import importlib
import os
import pathlib
import subprocess
import sys

import pytest

import athe_tf
from athe_tf.utils.number_format import format_number, parse_number
from tests.public_packages import PACKAGES

NAMES = [(package, name) for package in PACKAGES for name in importlib.import_module(package).__all__]


def test_importing_does_not_start_tensorflow():
    code = (
        "import athe_tf.programs.config, sys; sys.exit(not {'tensorflow', 'keras'}.isdisjoint(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_importing_is_instant():
    """Prints the time; the machine may be busy, so what is checked is that few modules are loaded."""
    command = [sys.executable, "-X", "importtime", "-c", "import athe_tf"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stderr.splitlines()
    ours = [line for line in lines if line.rpartition("|")[2].strip() == "athe_tf"]
    print(f"import athe_tf: {int(ours[0].split('|')[1]) / 1e6:.3f} s")
    assert len(lines) < 300


def test_no_module_computes_with_tensorflow_when_it_is_imported():
    """Devices are chosen before the first computation; a process that is forked after it would hang."""
    code = (
        "import importlib, pathlib, tensorflow as tf\n"
        "for path in sorted(pathlib.Path('athe_tf').rglob('*.py')):\n"
        "    importlib.import_module('.'.join(path.with_suffix('').parts).removesuffix('.__init__'))\n"
        "cpu, = tf.config.list_physical_devices('CPU')\n"
        "tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)\n"
    )
    root = pathlib.Path(athe_tf.__file__).parents[1]
    ended = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-500:]


@pytest.mark.parametrize(
    "module",
    [
        "athe_tf.analysis.registry",
        "athe_tf.data.names",
        "athe_tf.data.corruptions.names",
        "athe_tf.distribution.settings",
        "athe_tf.jobs.journal",
        "athe_tf.jobs.locks",
        "athe_tf.jobs.shard",
        "athe_tf.utils.choices",
        "athe_tf.models.names",
    ],
)
def test_names_can_be_checked_where_tensorflow_is_not_installed(module):
    code = f"import sys; sys.modules['tensorflow'] = sys.modules['keras'] = None; import {module}"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_onednn_is_on_unless_the_user_decided():
    code = "import athe_tf, os; print(os.environ['TF_ENABLE_ONEDNN_OPTS'])"
    for env, expected in (({}, "1"), ({"TF_ENABLE_ONEDNN_OPTS": "0"}, "0")):
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
        assert out.stdout.strip() == expected


@pytest.mark.parametrize("package, name", NAMES)
def test_every_public_name_loads(package, name):
    assert getattr(importlib.import_module(package), name) is not None


@pytest.mark.parametrize("package", PACKAGES)
def test_dir_lists_the_public_names_and_no_others(package):
    module = importlib.import_module(package)
    assert sorted(dir(module)) == sorted(module.__all__)
    assert list(module.__all__) == sorted(set(module.__all__))


def test_the_list_of_packages_is_complete():
    root = os.path.dirname(athe_tf.__file__)
    found = {
        os.path.relpath(folder, os.path.dirname(root)).replace(os.sep, ".")
        for folder, _, files in os.walk(root)
        if "__init__.pyi" in files
    }
    assert found == set(PACKAGES)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="CosinDense"):
        athe_tf.CosinDense  # noqa: B018


@pytest.mark.parametrize(
    "value, text", [(8 / 255, "8/255"), (0.031, "0.031"), (0.2, "0.2"), (0.0, "0"), (2e-4, "0.0002")]
)
def test_numbers_are_written_as_people_write_them(value, text):
    assert format_number(value) == text
    assert parse_number(text) == value
