"""Who comes second is refused, whoever is left behind ends, and a process knows itself what has failed."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from clusters import until
from command import CONF, command, no_comparison  # noqa: F401 (fixtures)
from engine_double import engine_of  # noqa: F401 (a fixture)
from executors import TINY, assert_saved, endless, writers
from sweep_files import rows, untimed

from rlexp.core.errors import ConfigError
from rlexp.core.exits import RunFailed
from rlexp.launch import checks, worker
from rlexp.launch.worker import is_orphan
from rlexp.record import lock
from rlexp.sweep.engine import train_jobs
from rlexp.sweep.job import Batch

pytestmark = pytest.mark.slow  # processes


def start(folder, *arguments):
    """Start a command as a terminal would."""
    return subprocess.Popen(
        [sys.executable, "-m", "rlexp.train", "--config-dir", str(CONF), *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@pytest.mark.rare  # waits for locks
@pytest.mark.parametrize("place", ["hydra.sweep.dir=x", "hydra.run.dir=x"])
def test_the_second_of_two_is_refused_in_a_line_and_the_first_is_whole(tmp_path, place):
    mode = ["-m", "seed=0,1"] if "sweep" in place else []
    arguments = [*mode, "preset=tiny", "steps=300", "checkpoint_every=1", place]
    first = start(tmp_path, *arguments)
    until(lambda: [*tmp_path.glob("x/**/metrics.jsonl")] or first.poll() is not None, "training")
    second = start(tmp_path, *arguments)
    out, err = second.communicate(timeout=60)
    assert (second.returncode, out) == (2, "") and f" is being written by process {first.pid} on " in err
    assert len(err.splitlines()) == 1
    assert first.wait(60) == 0, first.stderr.read()
    for path in tmp_path.glob("x/**/metrics.jsonl"):
        assert [row["step"] for row in untimed(path)] == [*range(301)]
    assert not [*tmp_path.glob("x/**/.lock")] and not [*tmp_path.glob("x/**/*.tmp")]


@pytest.mark.rare  # waits for locks
def test_a_start_waits_for_the_workers_of_one_that_was_killed(tmp_path, command, no_comparison):
    parent, metrics = endless(tmp_path, "hydra.launcher.workers=2")
    parent.kill()
    parent.wait()
    again = start(tmp_path, *TINY, "steps=10000000", "seed=0,1", "hydra.sweep.dir=x", "hydra.launcher.workers=1")
    until(lambda: all(lock.text(path.parent).split()[1:2] == [str(again.pid)] for path in metrics), "the second")
    os.kill(again.pid, signal.SIGHUP)
    _, err = again.communicate(timeout=60)
    assert again.returncode == 130 and "Traceback" not in err
    assert_saved(metrics)
    for path in metrics:
        assert [row["step"] for row in untimed(path)] == [*range(len(untimed(path)))]


@pytest.mark.parametrize("ends", [True, False])
def test_a_run_that_is_still_being_written_is_waited_for(tmp_path, monkeypatch, capsys, ends):
    monkeypatch.setattr(checks, "SECONDS_TO_SAVE", 15.0 if ends else 0.1)
    with holding(tmp_path / "x" / "run") as other, lock.released_at_the_end():
        if ends:
            threading.Timer(0.5, other.kill).start()
            checks.acquire_lock(tmp_path / "x", [tmp_path / "x" / "run"])
        else:
            with pytest.raises(ConfigError, match=f"is being written by process {other.pid} .*: end it, or wait"):
                checks.acquire_lock(tmp_path / "x", [tmp_path / "x" / "run"])
    assert f"is still being written by process {other.pid}" in capsys.readouterr().err


@contextmanager
def holding(folder):
    """Context with a process that writes to a folder."""
    hold = "import sys; from pathlib import Path; from rlexp.record.lock import take; take(Path(sys.argv[1]), 1.0)"
    code = [sys.executable, "-c", f"{hold}; print(1, flush=True); sys.stdin.read()", str(folder)]
    with subprocess.Popen(code, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        yield other
        other.kill()


@pytest.mark.parametrize(
    ("workers", "number"), [(1, signal.SIGTERM), pytest.param(2, signal.SIGHUP, marks=pytest.mark.rare)]
)
def test_a_closed_terminal_saves(tmp_path, workers, number):
    """All processes of the terminal are sent the signal, as when a connection breaks."""
    process, metrics = endless(tmp_path, f"hydra.launcher.workers={workers}")
    os.killpg(process.pid, number) if number == signal.SIGHUP else os.kill(process.pid, number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in err
    assert not any(writers(path) for path in metrics)
    assert_saved(metrics)
    assert [row["status"] for row in rows(tmp_path / "x")] == ["interrupted"] * 2


def test_a_run_that_somebody_else_writes_is_not_trained(tmp_path, monkeypatch):
    from interrupted import jobs

    monkeypatch.setattr(lock, "SECONDS_TO_LOOK", 0.0)
    ours, theirs = jobs(tmp_path, variants=["local"])
    with holding(theirs.folder) as other:
        score, refused = train_jobs([ours, theirs])
    assert isinstance(score, float) and isinstance(refused, RunFailed)
    assert f"is being written by process {other.pid}" in str(refused) and not (theirs.folder / "metrics.jsonl").exists()


def test_the_exit_code_is_of_what_this_process_knows(command, tmp_path, engine_of, no_comparison):
    """Whatever a file says that another one has written meanwhile."""

    def train(job):
        (tmp_path / "x" / "jobs.jsonl").write_text(json.dumps({"name": "other", "status": "completed"}) + "\n")
        (job.folder / "summary.json").write_text(json.dumps({"status": "completed", "score": 1.0}))
        return RunFailed("bad luck")

    engine_of(train)
    result = command("-m", "norm=local", "seed=0", "hydra.sweep.dir=x")
    assert result.code == 1 and result.err.splitlines()[-1] == "norm=local,seed=0: failed: bad luck"


def test_a_worker_is_an_orphan_when_its_sweep_has_no_holder_or_another_one(tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "SECONDS_BETWEEN_LOOKS", 0.01)
    with lock.locked(tmp_path):
        batch = Batch((), sweep=tmp_path, owner=lock.text(tmp_path))
        assert not is_orphan(batch)
        assert is_orphan(Batch((), sweep=tmp_path, owner="host 1 2026-01-01 00:00:00\n"))
    assert is_orphan(batch)
    (tmp_path / lock.LOCK_FILE).write_text(batch.owner)
    assert is_orphan(batch), "the file alone is no lock"


def test_an_orphan_saves_or_is_ended(tmp_path):
    """A worker that does not listen is ended after a while."""
    code = (
        "import signal, sys, time; from pathlib import Path; from rlexp.launch import worker;"
        "from rlexp.sweep.job import Batch; from rlexp.record import lock;"
        "worker.SECONDS_BETWEEN_LOOKS = 0.1; worker.SECONDS_TO_SAVE = 0.5; folder = Path(sys.argv[1]);"
        "signal.signal(signal.SIGINT, getattr(signal, sys.argv[2]));"
        "lock.take(folder, 1.0); batch = Batch((), sweep=folder, owner=lock.text(folder));"
        "scope = worker.parent_watchdog(batch); scope.__enter__();"
        "lock.release(folder.resolve()); time.sleep(60)"
    )
    for handler, expected in (("SIG_IGN", 130), ("default_int_handler", -signal.SIGINT)):
        started = time.monotonic()
        done = subprocess.run([sys.executable, "-c", code, str(Path(tmp_path)), handler], capture_output=True)
        assert done.returncode == expected and time.monotonic() - started < 40
