"""Folders are replaced as a whole; what killed processes left is removed."""

import errno
import os
import signal

import pytest

from athe_tf.utils import files
from athe_tf.utils.files import (
    NEW_FOLDER,
    OLD_FOLDER,
    TEMPORARY,
    replacing,
    replacing_folder,
    sweep,
    write_text,
)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def write_folder(path, text):
    with replacing_folder(path) as new:
        (new / "inside").mkdir()
        (new / "inside" / "file").write_text(text)


def content(path):
    return (path / "inside" / "file").read_text()


def test_a_folder_is_replaced_and_nothing_else_is_left(tmp_path):
    for text in ("one", "two"):
        write_folder(tmp_path / "a", text)
        assert content(tmp_path / "a") == text and names(tmp_path) == ["a"]


def test_an_error_leaves_the_old_folder(tmp_path):
    write_folder(tmp_path / "a", "old")
    with pytest.raises(ZeroDivisionError), replacing_folder(tmp_path / "a") as new:
        (new / "file").touch()
        raise ZeroDivisionError
    assert content(tmp_path / "a") == "old" and names(tmp_path) == ["a"]


def die_in_exchange(path, number):
    """Replaces a folder; SIGKILL comes instead of the n-th call that renames or removes something."""
    calls = []

    def counted(function):
        def call(*arguments, **options):
            calls.append(1)
            if len(calls) > number:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **options)

        return call

    os.replace = counted(os.replace)
    files.sync = counted(files.sync)
    files._remove = counted(files._remove)
    write_folder(path, "new")


def exit_code_of_fork(function, *arguments):
    """Calls a function in a copy of this process: its exit code, or minus the signal that ended it."""
    child = os.fork()
    if child == 0:
        function(*arguments)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_kill_at_any_point_of_an_exchange_leaves_the_old_or_the_new_folder(tmp_path):
    found = set()
    for number in range(50):
        path = tmp_path / str(number) / "a"
        write_folder(path, "old")
        code = exit_code_of_fork(die_in_exchange, path, number)
        sweep(path.parent)
        assert names(path.parent) == ["a"] and content(path) in ("old", "new"), number
        found.add(content(path))
        if code == 0:
            break
        assert code == -signal.SIGKILL
    assert code == 0 and number >= 8 and found == {"old", "new"}


def test_sweep_removes_temporaries_only(tmp_path):
    for name in (f"{TEMPORARY}0123.keras", "mine.keras", ".hidden", ".athe_tf.lock"):
        (tmp_path / name).touch()
    (tmp_path / f"{NEW_FOLDER}export" / "variables").mkdir(parents=True)
    (tmp_path / f"{OLD_FOLDER}export").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / f"{TEMPORARY}4567.npz").touch()
    sweep(tmp_path, tmp_path / "missing")
    assert names(tmp_path) == [".athe_tf.lock", ".hidden", "export", "mine.keras", "other"]
    assert names(tmp_path / "other") == [f"{TEMPORARY}4567.npz"]


def test_an_error_names_the_file_that_was_to_be_written(tmp_path):
    with pytest.raises(OSError) as caught, replacing(tmp_path / "state.npz"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert caught.value.filename == str(tmp_path / "state.npz")
    (tmp_path / "file").touch()
    with pytest.raises(OSError) as caught, replacing(tmp_path / "file" / "state.npz"):
        pass
    assert "file" in caught.value.filename and TEMPORARY not in caught.value.filename


def test_the_mode_of_a_new_file_follows_the_umask_which_stays_as_it_is(tmp_path, monkeypatch):
    before = os.umask(0o027)
    try:
        with monkeypatch.context() as patched:
            patched.setattr(os, "umask", None)  # it belongs to all threads of the process
            write_text(tmp_path / "a", "text")
        assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640
    finally:
        os.umask(before)


def test_a_file_is_on_the_disk_before_it_has_its_name_and_its_folder_afterwards(tmp_path, monkeypatch):
    """After a power failure, a name without its content would be worse than the old file."""
    (tmp_path / "a.txt").write_text("old")
    calls = []
    replace, sync = os.replace, files.sync

    def replaced(source, target):
        assert files.pathlib.Path(source).read_text() == "new" and target.read_text() == "old"
        calls.append("replace")
        replace(source, target)

    def synced(path):
        calls.append("folder" if path == tmp_path else "file")
        sync(path)

    monkeypatch.setattr(os, "replace", replaced)
    monkeypatch.setattr(files, "sync", synced)
    write_text(tmp_path / "a.txt", "new")
    assert calls == ["file", "replace", "folder"] and (tmp_path / "a.txt").read_text() == "new"


def test_all_of_a_folder_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    calls, sync, replace = [], files.sync, os.replace
    monkeypatch.setattr(files, "sync", lambda path: calls.append(path.name) or sync(path))
    monkeypatch.setattr(os, "replace", lambda *paths: calls.append("replace") or replace(*paths))
    write_folder(tmp_path / "a", "text")
    assert calls == ["inside", "file", f"{NEW_FOLDER}a", "replace", tmp_path.name]
