"""One process at a time writes to a folder."""

import errno
import fcntl
import os
import pathlib
import signal
import socket
import time

import pytest

from athe_tf.jobs.locks import LOCK, lock_name, locked
from athe_tf.utils.errors import InputError
from tests.warm_processes import started


def hold(folder):
    with locked(folder):
        pathlib.Path(folder, "held").touch()
        time.sleep(60)


@pytest.fixture
def holder(tmp_path):
    """A process that holds the lock of a folder."""
    process = started(hold, tmp_path / "a")
    deadline = time.monotonic() + 60
    while not (tmp_path / "a" / "held").exists():
        assert process.is_alive() and time.monotonic() < deadline
        time.sleep(0.01)
    yield process
    process.kill()
    process.join()


def test_a_second_process_is_refused_with_host_and_process_of_the_first(tmp_path, holder):
    expected = f"is in use by another process: host {socket.gethostname()}, process {holder.pid}. Wait"
    with pytest.raises(InputError, match=expected), locked(tmp_path / "a"):
        pass
    with locked(tmp_path / "a", lock_name("another part")):
        pass


def test_the_lock_of_a_killed_process_is_free(tmp_path, holder):
    os.kill(holder.pid, signal.SIGKILL)
    holder.join()
    assert (tmp_path / "a" / LOCK).exists()
    with locked(tmp_path / "a"):
        assert (tmp_path / "a" / LOCK).read_text().split()[1] == str(os.getpid())
    assert not (tmp_path / "a" / LOCK).exists()


def test_a_lock_file_that_was_removed_meanwhile_is_not_taken(tmp_path, monkeypatch):
    """Between opening and locking, the last holder removes the file: another process can make its own."""
    flock, calls = fcntl.flock, []

    def after_removal(descriptor, flags):
        if not calls:
            (tmp_path / LOCK).unlink()
        calls.append(1)
        flock(descriptor, flags)

    monkeypatch.setattr(fcntl, "flock", after_removal)
    with locked(tmp_path), pytest.raises(InputError, match=f"process {os.getpid()}"), locked(tmp_path):
        pass


def test_folders_made_for_the_lock_are_removed_if_nothing_was_written(tmp_path):
    with pytest.raises(ZeroDivisionError), locked(tmp_path / "a" / "b"):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
    with locked(tmp_path / "a" / "b"):
        (tmp_path / "a" / "mine").touch()
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["mine"]


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOTSUP])
def test_a_file_system_without_locks_is_used_with_a_warning(tmp_path, monkeypatch, code):
    def refuse(descriptor, flags):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.warns(UserWarning, match="has no locks"), locked(tmp_path):
        assert list(tmp_path.iterdir()) == []


def test_the_lock_file_is_removed_while_the_lock_is_still_held(tmp_path, monkeypatch):
    """Whoever waits for the file would otherwise lock one that is about to be removed."""
    close, seen = os.close, []

    def closed(descriptor):
        seen.append((tmp_path / LOCK).exists())
        close(descriptor)

    with locked(tmp_path):
        assert (tmp_path / LOCK).exists()
        monkeypatch.setattr(os, "close", closed)
    assert seen == [False]
