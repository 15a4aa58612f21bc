"""`import athe_tf` is instant, and its names are there when they are asked for."""

import subprocess
import sys

import pytest

import athe_tf
from athe_tf.utils.number_format import format_number, parse_number


def test_importing_does_not_start_tensorflow():
    code = (
        "import athe_tf.programs.config, sys; sys.exit(not {'tensorflow', 'keras'}.isdisjoint(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_onednn_is_on_unless_the_user_decided():
    code = "import athe_tf, os; print(os.environ['TF_ENABLE_ONEDNN_OPTS'])"
    for env, expected in (({}, "1"), ({"TF_ENABLE_ONEDNN_OPTS": "0"}, "0")):
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
        assert out.stdout.strip() == expected


@pytest.mark.parametrize("name", list(athe_tf.__all__))
def test_every_public_name_loads(name):
    assert getattr(athe_tf, name) is not None


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'CosinDense'"):
        athe_tf.CosinDense  # noqa: B018


@pytest.mark.parametrize(
    "value, text", [(8 / 255, "8/255"), (0.031, "0.031"), (0.2, "0.2"), (0.0, "0"), (2e-4, "0.0002")]
)
def test_numbers_are_written_as_people_write_them(value, text):
    assert format_number(value) == text
    assert parse_number(text) == value
