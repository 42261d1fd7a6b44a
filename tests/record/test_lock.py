"""A folder has one writer; who comes second learns who the first is; a lock dies with its holder."""

import fcntl
import os
import re
import signal
import subprocess
import sys
import time
from errno import EACCES, EBADF, EINVAL, EIO, ENOLCK, ESTALE
from pathlib import Path

import pytest

from rlexp.core.errors import ConfigError
from rlexp.launch.checks import acquire_lock
from rlexp.record import lock

HOLD = """
import sys, time
from pathlib import Path
from rlexp.record.lock import locked
with locked(Path(sys.argv[1])):
    print("holds", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def other(tmp_path):
    """Return a process that holds the lock of tmp_path."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "holds\n"
    yield process
    process.kill()
    process.wait()


def test_a_second_writer_is_refused_in_a_line_that_names_the_first(tmp_path, other):
    with pytest.raises(lock.Locked) as refused, lock.locked(tmp_path):
        pass
    when = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
    expected = rf"{tmp_path} is being written by process {other.pid} on \S+ since {when}: wait until it has ended, .*"
    assert re.fullmatch(expected, str(refused.value))
    assert lock.is_held(tmp_path)


def test_a_lock_dies_with_its_holder(tmp_path, other):
    other.send_signal(signal.SIGKILL)
    other.wait()
    assert not lock.is_held(tmp_path) and (tmp_path / lock.LOCK_FILE).exists()
    with lock.locked(tmp_path):
        assert f" {os.getpid()} " in lock.text(tmp_path)
    assert [*tmp_path.iterdir()] == []


def test_who_waits_gets_the_lock_when_it_is_given_back(tmp_path, other):
    other.stdin.close()
    with lock.locked(tmp_path, seconds=30.0):
        assert lock.is_held(tmp_path)


def test_a_process_may_lock_what_it_holds_and_gives_back_at_the_end_what_it_kept(tmp_path):
    with lock.released_at_the_end():
        lock.keep(tmp_path / "x")
        with lock.locked(tmp_path / "x" / ".." / "x"):
            pass
        assert lock.is_held(tmp_path / "x")
    assert not lock.is_held(tmp_path / "x")


def test_a_lock_of_which_the_file_was_removed_meanwhile_is_none(tmp_path, monkeypatch):
    """Another process opens the file, waits, and gets the lock of a file that is no longer there."""
    real, place = fcntl.flock, tmp_path / lock.LOCK_FILE

    def removed_first(descriptor, kind):
        if place.exists():
            place.unlink()
            monkeypatch.setattr(fcntl, "flock", real)
        real(descriptor, kind)

    monkeypatch.setattr(fcntl, "flock", removed_first)
    with lock.locked(tmp_path):
        assert lock.is_held(tmp_path) and lock.text(tmp_path)


def test_a_file_system_without_locks_is_said_once(tmp_path, monkeypatch, caplog):
    def refuse(descriptor, kind):
        raise OSError(ENOLCK, os.strerror(ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    lock.warn_of_no_locks.cache_clear()
    for name in ("x", "y"):
        with lock.locked(tmp_path / name):
            assert not lock.is_held(tmp_path / name) and lock.is_held(tmp_path / name, unsure=True)
    assert caplog.messages == ["this file system has no locks: start nothing twice in the same folder"]


@pytest.mark.parametrize("number", [EBADF, EINVAL, EIO, EACCES, ESTALE])
def test_a_file_system_that_fails_at_locks_is_named_with_what_to_do(tmp_path, monkeypatch, number):
    def fail(descriptor, kind):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", fail)
    line = (
        f"{tmp_path / '.lock'} cannot be locked ({os.strerror(number)}): its file system fails at locks; "
        "mount it with locks, or name one elsewhere (hydra.sweep.dir, hydra.run.dir)"
    )
    with pytest.raises(lock.Unlockable) as failed, lock.locked(tmp_path):
        pass
    with pytest.raises(ConfigError) as refused:
        acquire_lock(tmp_path)
    assert str(failed.value) == str(refused.value) == line
    assert not lock.is_held(tmp_path) and lock.is_held(tmp_path, unsure=True)
    opened = [os.path.realpath(path) for path in Path("/proc/self/fd").iterdir()]
    assert str(tmp_path / ".lock") not in opened


@pytest.mark.parametrize("text", ["", "\x1b[31mred 1 2026-01-01 00:00:00\n", "x" * 10_000])
def test_what_a_lock_says_is_printed_only_if_it_is_what_we_write(tmp_path, text):
    (tmp_path / lock.LOCK_FILE).write_text(text)
    assert lock.holder(tmp_path) == "another process"


def test_a_pipe_or_a_link_in_place_of_the_lock_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / lock.LOCK_FILE)
    started = time.monotonic()
    assert lock.text(tmp_path) == "" and time.monotonic() - started < 5
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / lock.LOCK_FILE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError), lock.locked(tmp_path / "link"):
        pass
    assert not (tmp_path / "elsewhere").exists()
