"""What TensorFlow writes to stderr when it is imported after this library."""

import importlib
import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

from athe_tf.utils.keras_registration import AtImport

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="The lines are filtered on Linux only.")
FAKE = """
import importlib
import importlib.util
import os
os.write(2, b"WARNING: All log messages before absl::InitializeLog() is called\\nI0000 00:00 oneDNN\\n")
os.write(2, b"E0000 00:00 no such instruction\\nlast words\\n")
END
"""


def stderr_of(tmp_path, end, **environment):
    (tmp_path / "tensorflow.py").write_text(FAKE.replace("END", end))
    program = "import athe_tf, os, tensorflow; os.write(2, b'after\\n')"
    path = f"{tmp_path}{os.pathsep}{pathlib.Path(__file__).parents[2]}"
    kept = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60,
        env=kept | {"PYTHONPATH": path} | environment,
    )  # fmt: skip
    return done.stderr


def test_only_the_lines_of_every_start_are_left_out(tmp_path):
    assert stderr_of(tmp_path, "") == "E0000 00:00 no such instruction\nlast words\nafter\n"


def test_the_last_words_of_a_process_that_is_aborted_are_shown(tmp_path):
    assert "last words" in stderr_of(tmp_path, "os.abort()")


def test_an_import_error_stays_one(tmp_path):
    text = stderr_of(tmp_path, "raise ImportError('broken wheel')")
    assert "ImportError: broken wheel" in text and "I0000" not in text


def test_all_lines_are_shown_on_request(tmp_path):
    assert "I0000" in stderr_of(tmp_path, "", TF_CPP_MIN_LOG_LEVEL="0")


def test_a_module_that_is_looked_for_first_is_still_met_at_its_import(tmp_path, monkeypatch):
    (tmp_path / "met_at_import.py").write_text("value = 1")
    monkeypatch.syspath_prepend(tmp_path)
    met = []
    finder = AtImport("met_at_import", lambda execute, module: (execute(module), met.append(module.value)))
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    assert importlib.util.find_spec("met_at_import") is not None and not met
    importlib.import_module("met_at_import")
    assert met == [1] and finder not in sys.meta_path
