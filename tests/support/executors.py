"""What every executor of the launcher has to leave behind: whole, after a kill, after a Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from clusters import until
from command import CONF
from sweep_files import rows, untimed

from rlexp.record import checkpoint
from rlexp.record.lock import LOCK_FILE

TINY = ("-m", "preset=tiny")
STARTS = ("start=flattened", "start.accuracy=0.01", "start.checked=8", "start.prompts=4")


@pytest.fixture
def same_as_inline(command, tmp_path, tmp_path_factory):
    """Return a function that runs a small sweep inline, once, and with a launcher, and compares what they leave."""
    inline = tmp_path_factory.getbasetemp() / "inline"

    def check(*launcher: str) -> None:
        sweep = (*TINY, "norm=local,none", "group_size=2,4", "seed=0", "threads=null", *STARTS)
        if not inline.exists():
            assert command(*sweep, f"hydra.sweep.dir={inline}", "hydra.launcher.workers=1").code == 0
        said = command(*sweep, "hydra.sweep.dir=other", *launcher)
        assert said.code == 0, said.err
        assert rows(tmp_path / "other") == rows(inline) and len(rows(inline)) == 4
        for row in rows(tmp_path / "other"):
            folder, true = tmp_path / "other" / row["name"], inline / row["name"]
            assert untimed(folder / "metrics.jsonl") == untimed(true / "metrics.jsonl")
            assert (folder / "config.yaml").read_text() == (true / "config.yaml").read_text()
            assert sorted(path.name for path in folder.iterdir()) == sorted(path.name for path in true.iterdir())
        starts, true = tmp_path / "other" / "starts", inline / "starts"  # one, which all workers ask for
        assert [path.name for path in starts.iterdir()] == [path.name for path in true.iterdir()] and len(rows(inline))

    return check


def kill_who_writes(path: Path) -> threading.Thread:
    """Start a thread that waits for a process to write a run's file, and kills it."""

    def kill():
        while not (path.exists() and path.stat().st_size and (pids := writers(path))):
            time.sleep(0.05)
        os.kill(pids[0], signal.SIGKILL)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    return thread


def writers(path: Path) -> list[int]:
    """Return the processes that hold the lock of the run of a file, but this one."""
    found, lock = [], str(path.parent / LOCK_FILE)
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if os.readlink(link) == lock and int(link.parts[2]) != os.getpid():
                found.append(int(link.parts[2]))
        except OSError:
            continue
    return found


@pytest.fixture
def survives_a_kill(command, tmp_path):
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


@pytest.fixture
def saves_at_ctrl_c(tmp_path):
    """Return a function that sends a sweep the Ctrl-C of a terminal, which all its processes are sent, and looks."""

    def check(*launcher: str) -> None:
        process, metrics = endless(tmp_path, *launcher)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 130
        last = err.splitlines()[-1]
        assert last.startswith("interrupted; go on with: python -m rlexp.train ") and last.endswith(
            " hydra.sweep.dir=x"
        )
        assert "Traceback" not in err and not any(writers(path) for path in metrics)
        assert_saved(metrics)
        assert [row["status"] for row in rows(tmp_path / "x")] == ["interrupted"] * 2

    return check


def endless(folder: Path, *launcher: str) -> tuple[subprocess.Popen, list[Path]]:
    """Start a sweep of two batches without end; return it, and the metrics of its runs, when both are training."""
    process = subprocess.Popen(
        [sys.executable, "-m", "rlexp.train", "--config-dir", str(CONF), *TINY]
        + ["steps=10000000", "seed=0,1", *launcher, "hydra.sweep.dir=x"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )
    metrics = [folder / "x" / f"preset=tiny,steps=10000000,seed={seed}" / "metrics.jsonl" for seed in (0, 1)]
    until(lambda: all(path.exists() and path.read_bytes().count(b"\n") > 1 for path in metrics), "training")
    return process, metrics


def assert_saved(metrics: list[Path]) -> None:
    """Runs were interrupted, and can go on from where they were."""
    for path in metrics:
        assert json.loads((path.parent / "summary.json").read_text())["status"] == "interrupted"
        assert checkpoint.load(path.parent)["step"] == untimed(path)[-1]["step"] > 0
