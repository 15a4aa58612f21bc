"""Ctrl+C and SIGTERM: the answer is quick, one line, and leaves nothing half written."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

from athe_tf.programs import start
from athe_tf.programs.interruption import INTERRUPTION
from athe_tf.utils.files import replacing
from tests.warm_processes import started

ROOT = pathlib.Path(__file__).resolve().parents[2]


def count_forever(path):
    """One compiled operation that does not end, in the middle of writing a file."""
    import tensorflow as tf

    os.dup2(os.open(path.with_suffix(".log"), os.O_CREAT | os.O_WRONLY), 2)

    @tf.function
    def count():
        with tf.control_dependencies([tf.io.write_file(str(path.with_name("ready")), "")]):
            start = tf.constant(0) + 0
        return tf.while_loop(lambda i: i >= 0, lambda i: [(i + 1) % 1000], [start])

    with INTERRUPTION.handled("bin/evaluate"), replacing(path):
        INTERRUPTION.remark = "The same command resumes the evaluation."
        count()


@pytest.mark.parametrize("number, word", [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")])
def test_a_signal_in_a_compiled_loop_is_answered_within_two_seconds(tmp_path, number, word):
    process = started(count_forever, tmp_path / "a.npz")
    try:
        deadline = time.monotonic() + 120
        while not (tmp_path / "ready").exists():
            assert process.is_alive() and time.monotonic() < deadline
            time.sleep(0.01)
        began = time.monotonic()
        os.kill(process.pid, number)
        process.join(30)
        assert process.exitcode == 128 + number and time.monotonic() - began < 2
    finally:
        process.kill()
    log = (tmp_path / "a.log").read_text()
    assert log == f"bin/evaluate: {word}. The same command resumes the evaluation.\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.log", "ready"]


def python(code, **options):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=ROOT, **options
    )


def test_ctrl_c_while_a_program_is_imported_is_one_line():
    interrupt = "import os, signal, sys; sys.argv = ['bin/train']; sys.path.insert(0, 'bin')\n"
    interrupt += "import _launch; os.kill(os.getpid(), signal.SIGINT)"
    result = python(interrupt)
    assert (result.returncode, result.stderr) == (130, "bin/train: interrupted.\n")


START = """
import sys
sys.path.insert(0, {folder!r})
from athe_tf.programs.interruption import INTERRUPTION
from athe_tf.programs.start_tensorflow import start_tensorflow
with INTERRUPTION.handled("bin/train"):
    start_tensorflow()
"""


def start_with(tensorflow, folder):
    """`start_tensorflow` with a module of that content."""
    (folder / "tensorflow.py").write_text(tensorflow)
    return python(START.format(folder=str(folder)))


def test_ctrl_c_while_tensorflow_is_imported_is_one_line(tmp_path):
    # Its imports catch some exceptions.
    text = "import os, signal\nos.write(2, b'greetings\\n')\n"
    text += "try:\n    os.kill(os.getpid(), signal.SIGINT)\nexcept BaseException: pass"
    result = start_with(text, tmp_path)
    assert (result.returncode, result.stderr) == (130, "bin/train: interrupted.\n")


def test_last_words_of_tensorflow_reach_the_user_if_it_aborts(tmp_path):
    result = start_with("import os\nos.write(2, b'no AVX here\\n')\nos.abort()", tmp_path)
    assert result.returncode == -signal.SIGABRT and result.stderr == "no AVX here\n"


def test_greetings_of_tensorflow_are_not_shown(tmp_path):
    text = "import os\nos.write(2, b'Could not find cuda drivers\\n')\nclass config:\n"
    text += "    def list_physical_devices(): pass"
    result = start_with(text, tmp_path)
    assert (result.returncode, result.stderr) == (0, "")


def test_ctrl_c_while_an_installed_program_is_imported_is_one_line(tmp_path):
    (tmp_path / "absl.py").write_text("raise KeyboardInterrupt")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
    result = python(code + "from athe_tf.programs.start import export; export()")
    assert (result.returncode, result.stderr) == (130, "athe-tf-export: interrupted.\n")


def test_every_installed_program_starts_the_program_of_its_name():
    pairs = re.findall(r"athe-tf-(\w+)=athe_tf.programs.start:(\w+)", (ROOT / "setup.py").read_text())
    assert {"train", "evaluate", "export", "report"} <= {name for name, _ in pairs}
    for name, function in pairs:
        # `import` is no name of a function.
        assert name == function.removesuffix("_model") and hasattr(start, function)
        assert (ROOT / "bin" / name).exists()
