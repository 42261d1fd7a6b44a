"""Where the batches of a sweep are trained changes no number, and a dead worker takes only its own runs with it."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from subprocess import TimeoutExpired
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from clusters import ray_address, slurm_cluster, until  # noqa: F401 (fixtures)
from command import CONF, command, no_comparison  # noqa: F401 (fixtures)
from test_launcher import rows, untimed

from hydra_plugins.rlexp_launcher import _cut
from hydra_plugins.rlexp_launcher._part import sendable
from rlexp import checkpoint, executors, threads
from rlexp.interrupt import terminated_as_by_ctrl_c

pytestmark = pytest.mark.usefixtures("no_comparison")
TINY = ("-m", "preset=tiny")
PROCESSES = ("hydra/launcher=processes", "hydra.launcher.workers=2")
RAY = ("hydra/launcher=ray", "hydra.launcher.workers=2")
SLURM = ("hydra/launcher=slurm", "hydra.launcher.mem_gb=1", "hydra.launcher.minutes=5")


@pytest.fixture
def same_as_inline(command, tmp_path, tmp_path_factory):  # noqa: F811
    """Return a function that runs a small sweep inline, once, and with a launcher, and compares what they leave."""
    inline = tmp_path_factory.getbasetemp() / "inline"

    def check(*launcher: str) -> None:
        sweep = (*TINY, "norm=local,none", "group_size=2,4", "seed=0", "threads=null")
        if not inline.exists():
            assert command(*sweep, f"hydra.sweep.dir={inline}").code == 0
        assert command(*sweep, "hydra.sweep.dir=other", *launcher).code == 0
        assert rows(tmp_path / "other") == rows(inline) and len(rows(inline)) == 4
        for row in rows(tmp_path / "other"):
            folder, true = tmp_path / "other" / row["name"], inline / row["name"]
            assert untimed(folder / "metrics.jsonl") == untimed(true / "metrics.jsonl")
            assert (folder / "config.yaml").read_text() == (true / "config.yaml").read_text()
            assert sorted(path.name for path in folder.iterdir()) == sorted(path.name for path in true.iterdir())

    return check


def kill_who_writes(path: Path) -> threading.Thread:
    """Start a thread that waits for a process to open a file, and kills it."""

    def kill():
        while not (path.exists() and path.stat().st_size and (pids := writers(path))):
            time.sleep(0.05)
        os.kill(pids[0], signal.SIGKILL)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    return thread


def writers(path: Path) -> list[int]:
    """Return the processes that have a file open, but this one."""
    found = []
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if os.readlink(link) == str(path) and int(link.parts[2]) != os.getpid():
                found.append(int(link.parts[2]))
        except OSError:
            continue
    return found


@pytest.fixture
def survives_a_kill(command, tmp_path):  # noqa: F811
    """Return a function that kills the worker of the endless one of two batches and looks at what is left."""
    if not Path("/proc/self/fd").exists():
        pytest.skip("no /proc to find the worker with")

    def check(*launcher: str) -> None:
        kill_who_writes(tmp_path / "x" / "preset=tiny,steps=10000000,seed=1" / "metrics.jsonl")
        result = command(*TINY, "steps=10000000,2", "seed=0,1", "hydra.sweep.dir=x", *launcher)
        assert result.code == 1
        fates = {row["name"]: row["status"] for row in rows(tmp_path / "x")}
        assert fates == {
            f"preset=tiny,steps={steps},seed={seed}": fate
            for steps, fate in ((10000000, "failed"), (2, "completed"))
            for seed in (0, 1)
        }
        for row in [row for row in rows(tmp_path / "x") if row["status"] == "failed"]:
            assert row["reason"].startswith("its worker ended without a result")
            assert f"{row['name']}: failed: {row['reason']}" in result.err.splitlines()

    return check


def test_processes_leave_what_inline_leaves(same_as_inline, tmp_path):
    pytest.importorskip("submitit")
    same_as_inline(*PROCESSES)
    assert len(list((tmp_path / "other" / ".workers").glob("*_result.pkl"))) == 2


def test_a_killed_process_takes_only_its_runs_with_it(survives_a_kill):
    pytest.importorskip("submitit")
    survives_a_kill(*PROCESSES)


@pytest.fixture
def saves_at_ctrl_c(tmp_path):
    """Return a function that sends a sweep the Ctrl-C of a terminal, which all its processes are sent, and looks."""

    def check(*launcher: str) -> None:
        arguments = [*TINY, "steps=10000000", "seed=0,1", *launcher, "hydra.sweep.dir=x"]
        process = subprocess.Popen(
            [sys.executable, "-m", "rlexp.train", "--config-dir", str(CONF), *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
        )
        metrics = [tmp_path / "x" / f"preset=tiny,steps=10000000,seed={seed}" / "metrics.jsonl" for seed in (0, 1)]
        until(lambda: all(path.exists() and path.read_bytes().count(b"\n") > 1 for path in metrics), "training")
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 130
        last = err.splitlines()[-1]
        assert last.startswith("interrupted; go on with: python -m rlexp.train ") and last.endswith(
            " hydra.sweep.dir=x"
        )
        assert "Traceback" not in err and not any(writers(path) for path in metrics)
        for path in metrics:
            assert json.loads((path.parent / "summary.json").read_text())["status"] == "interrupted"
            assert checkpoint.load(path.parent)["step"] == untimed(path)[-1]["step"] > 0
        assert [row["status"] for row in rows(tmp_path / "x")] == ["interrupted"] * 2

    return check


def test_ctrl_c_lets_processes_save(saves_at_ctrl_c):
    pytest.importorskip("submitit")
    saves_at_ctrl_c(*PROCESSES)


@pytest.mark.parametrize(
    ("waits", "signals"),
    [
        ([0], "terminate wait"),
        ([KeyboardInterrupt, 0], "terminate wait terminate wait"),
        ([TimeoutExpired("", 1), TimeoutExpired("", 1)], "terminate wait terminate wait kill"),
    ],
)
def test_a_second_ctrl_c_or_no_answer_ends_processes_at_once(waits, signals):
    process = Mock(**{"wait.side_effect": waits})
    pytest.importorskip("hydra_plugins.rlexp_launcher._processes", exc_type=ImportError).stop([Mock(_process=process)])
    assert [call[0] for call in process.method_calls] == signals.split()


def test_a_sigterm_while_workers_train_is_a_ctrl_c():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), terminated_as_by_ctrl_c():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1)
    assert signal.getsignal(signal.SIGTERM) is before


def test_more_workers_than_shapes_cut_a_batch_and_a_failure_has_its_reason_and_its_traceback(command, tmp_path):  # noqa: F811
    pytest.importorskip("submitit")
    extreme = ("lr=1e-3,1e38", "warmup_steps=0", "seed=0", "steps=6")
    result = command(*TINY, *extreme, *PROCESSES, "hydra.sweep.dir=x")
    assert result.code == 1
    lines = [line for line in result.err.splitlines() if "steps ·" in line]
    assert sorted(lines) == [f"[batch {n} of 2] 6 steps · runs: 1 · variants: 1" for n in (1, 2)]
    good, bad = rows(tmp_path / "x")
    assert (good["status"], bad["status"]) == ("completed", "diverged")
    assert result.err.splitlines()[-1] == f"{bad['name']}: diverged: {bad['reason']}"
    assert "FloatingPointError" in (tmp_path / "x" / bad["name"] / "train.log").read_text()


def test_what_a_worker_sends_back_keeps_the_traceback():
    try:
        1 / 0  # noqa: B018
    except ZeroDivisionError as error:
        failed = sendable(error)
    assert str(failed) == "ZeroDivisionError: division by zero"
    assert "Traceback" in failed.__notes__[0] and "1 / 0" in failed.__notes__[0]


@pytest.mark.slurm
def test_slurm_leaves_what_inline_leaves(slurm_cluster, same_as_inline):  # noqa: F811
    same_as_inline(*SLURM)


@pytest.mark.slurm
def test_a_killed_slurm_job_takes_only_its_runs_with_it(slurm_cluster, survives_a_kill):  # noqa: F811
    survives_a_kill(*SLURM)


@pytest.mark.slurm
def test_ctrl_c_lets_slurm_jobs_save(slurm_cluster, saves_at_ctrl_c):  # noqa: F811
    saves_at_ctrl_c(*SLURM, "hydra.launcher.workers=1")


@pytest.mark.slurm
def test_what_sbatch_refuses_is_the_reason(slurm_cluster, command, tmp_path):  # noqa: F811
    result = command(*TINY, "seed=0", *SLURM, "hydra.launcher.partition=nowhere", "hydra.sweep.dir=x")
    assert result.code == 1 and "invalid partition specified: nowhere" in rows(tmp_path / "x")[0]["reason"]


@pytest.mark.ray
def test_ray_leaves_what_inline_leaves(same_as_inline):
    pytest.importorskip("ray")
    same_as_inline(*RAY)


@pytest.mark.ray
def test_a_ray_cluster_leaves_what_inline_leaves(ray_address, same_as_inline):  # noqa: F811
    same_as_inline("hydra/launcher=ray", f"hydra.launcher.address='{ray_address}'")


@pytest.mark.ray
def test_a_ray_that_does_not_answer_is_one_line(command, tmp_path):  # noqa: F811
    pytest.importorskip("ray")
    result = command(*TINY, "hydra/launcher=ray", "hydra.launcher.address='127.0.0.1:1'", "hydra.sweep.dir=x")
    assert (result.code, result.err) == (2, "hydra.launcher.address=127.0.0.1:1: nobody answers there\n")
    assert not list(tmp_path.glob("x/*/*"))


@pytest.mark.ray
def test_a_killed_ray_worker_takes_only_its_runs_with_it(ray_address, survives_a_kill):  # noqa: F811
    survives_a_kill(*RAY, f"hydra.launcher.address='{ray_address}'")


@pytest.mark.parametrize(("launcher", "library"), [("processes", "submitit"), ("slurm", "submitit"), ("ray", "ray")])
def test_a_missing_library_is_one_line(command, tmp_path, monkeypatch, launcher, library):  # noqa: F811
    monkeypatch.setattr(executors, "find_spec", lambda name: None)
    result = command("-m", f"hydra/launcher={launcher}")
    line = f"hydra/launcher={launcher} needs {library}, which is not installed: pip install {library}\n"
    assert (result.code, result.err) == (2, line)
    assert not list(tmp_path.iterdir())


def test_knobs_of_an_executor_are_checked_before_anything_is_written(command, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr(executors, "find_spec", lambda name: True)
    monkeypatch.setattr(executors.shutil, "which", lambda name: None)
    assert command("-m", "hydra/launcher=slurm").err.startswith("hydra/launcher=slurm needs sbatch")
    for mistake in (("processes", "workers=0"), ("slurm", "minutes=0"), ("ray", "cpus=-1")):
        result = command("-m", f"hydra/launcher={mistake[0]}", f"hydra.launcher.{mistake[1]}")
        assert (result.code, result.err) == (2, f"hydra.launcher.{mistake[1]}: must be at least 1\n")
    assert command("-m", "hydra/launcher=processes", "hydra.launcher.cpus=1").code == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("shapes", "most", "workers", "sizes"),
    [
        ("aaaa", None, 1, [4]),
        ("aaaaa", 2, 1, [2, 2, 1]),
        ("aaaaab", None, 2, [5, 1]),
        ("aaaaab", None, 3, [3, 2, 1]),
        ("aaaaaaaaa", None, 6, [2, 2, 2, 1, 1, 1]),
        ("ab", None, 8, [1, 1]),
        ("aaaabb", 1, 2, [1] * 6),
    ],
)
def test_batches_are_cut_until_no_worker_is_idle(monkeypatch, shapes, most, workers, sizes):
    monkeypatch.setattr(_cut, "bucket_key", lambda config: config.shape)
    monkeypatch.setattr(_cut, "variant_key", lambda config: str(config.number % 2))
    monkeypatch.setattr(_cut, "fitting", lambda config, workers: len(shapes))
    planned = [SimpleNamespace(config=SimpleNamespace(shape=each, number=i)) for i, each in enumerate(shapes)]
    parts = _cut.into_buckets(planned, most, workers)
    assert [len(part) for part in parts] == sizes
    assert sorted(job.config.number for part in parts for job in part) == list(range(len(shapes)))
    if workers == 3:  # a variant stays together
        assert [[job.config.number for job in part] for part in parts] == [[0, 2, 4], [1, 3], [5]]


def test_a_worker_tries_no_more_threads_than_its_share(monkeypatch):
    monkeypatch.setattr(threads, "AVAILABLE", 64)
    threads.limit(2)
    assert threads.Threads(30, None).choices == [1, 2]
    assert threads.Threads(30, 8).choices == [8]
