"""Every failure is an exit code and one message: 2 for what the user can mend, 1 for the rest."""

import errno
import os
import pathlib
import subprocess
import sys
import warnings

import pytest
import tensorflow as tf

from athe_tf.programs.command_line import Program, explain
from athe_tf.programs.report import ReportConfig
from athe_tf.report import writing
from athe_tf.utils.errors import InputError

ROOT = pathlib.Path(__file__).resolve().parents[2]


def system_error(code, *place):
    return OSError(code, os.strerror(code), *place)


@pytest.mark.parametrize(
    "error, code, message",
    [
        (InputError("Expected this. Received: that."), 2, "Expected this. Received: that."),
        (
            system_error(errno.EACCES, "a/b"),
            2,
            "Permission denied: 'a/b'. Check the path",
        ),
        (system_error(errno.ENAMETOOLONG, "aa"), 2, "File name too long: 'aa'. Check"),
        (system_error(errno.EROFS, "a"), 2, "Read-only file system: 'a'. Check"),
        (
            system_error(errno.ENOSPC, "a"),
            1,
            "No space left on device: 'a'. Free some space",
        ),
        (system_error(errno.ENOSPC), 1, "No space left on device. Free some space"),
        (
            system_error(errno.EIO),
            1,
            "operating system: Input/output error. --debug",
        ),
        (
            MemoryError("Unable to allocate 3 PiB"),
            1,
            "Out of memory: Unable to allocate 3 PiB. Use",
        ),
        (
            tf.errors.ResourceExhaustedError(None, None, "OOM when\nallocating"),
            1,
            "Out of memory: OOM when. Use",
        ),
        (
            tf.errors.ResourceExhaustedError(None, None, "{{node a}} x; No space left on device [Op:Save]"),
            1,
            "No space left on device: x; No space left on device. Free",
        ),
        (tf.errors.InternalError(None, None, "a\nb"), 1, "TensorFlow failed with InternalError: a. --debug"),
        (KeyError("x"), 1, "Failed with KeyError: 'x'. --debug shows where."),
        (RecursionError(), 1, "Failed with RecursionError. --debug"),
    ],
)
def test_each_kind_of_error_has_its_code_and_its_remedy(error, code, message):
    found, text = explain(error)
    assert found == code and message in text and "\n" not in text


@pytest.mark.parametrize("flags, traced", [([], False), (["--debug"], True)])
def test_a_traceback_is_shown_only_on_request(monkeypatch, capsys, flags, traced):
    def fail(config, extra):
        raise system_error(errno.ENOSPC, "backup")

    monkeypatch.setattr(sys, "argv", ["bin/report", "folder", *flags])
    program = Program("bin/report", "fails.", "", ReportConfig, fail)
    with pytest.raises(SystemExit) as stopped:
        program.run()
    error = capsys.readouterr().err
    assert stopped.value.code == 1 and ("Traceback" in error) == traced
    assert error.splitlines()[-1].startswith("bin/report: No space left on device: 'backup'.")
    assert "  --debug\n" in program.manual([])


@pytest.mark.parametrize("redirection, code", [("2>&-", 2), ("2>/dev/full", 2), ("0<&- 1>&- 2>&-", 2)])
def test_streams_that_are_closed_or_full_change_no_exit_code(redirection, code, tmp_path):
    flags = f"--epsilom=1 --workdir={tmp_path / 'run'}"
    command = f"'{sys.executable}' bin/train {flags} {redirection}"
    result = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout, result.stderr) == (code, "", "")


def test_a_flagfile_that_is_not_utf8_is_refused(tmp_path):
    (tmp_path / "a.flags").write_bytes(b"--epochs=3\n\xff\xfe")
    command = [sys.executable, "bin/train", f"--flagfile={tmp_path / 'a.flags'}"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert result.returncode == 2 and "is not a text in UTF-8" in result.stderr


@pytest.mark.parametrize("category", [DeprecationWarning, UserWarning, FutureWarning, ResourceWarning])
def test_warnings_of_other_libraries_do_not_end_a_program_under_w_error(category, monkeypatch):
    def warns(config, extra):
        warnings.warn("of another library", category, stacklevel=1)
        return 0

    monkeypatch.setattr(sys, "argv", ["bin/report", "folder"])
    monkeypatch.setattr(sys, "warnoptions", ["error"])
    with warnings.catch_warnings(), pytest.raises(SystemExit) as stopped:
        warnings.simplefilter("error")
        Program("bin/report", "warns.", "", ReportConfig, warns).run()
    assert stopped.value.code == 0


@pytest.mark.parametrize("number, kind", [(errno.EFBIG, OSError), (errno.EACCES, InputError)])
def test_a_full_disk_is_not_the_users_mistake_when_a_report_is_written(number, kind, monkeypatch, tmp_path):
    def fails(*_, **__):
        raise system_error(number, "report.html")

    monkeypatch.setattr(writing, "write_text", fails)
    with pytest.raises(kind) as raised:
        writing._write(tmp_path / "report.html", "")
    assert explain(raised.value)[0] == (1 if number == errno.EFBIG else 2)
